# millpond.  `make demo` shows it, `make test` proves it; both set up what they need.
SHELL := /bin/bash
.DEFAULT_GOAL := help
VENV ?= .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
WORKERS ?= 2
export VENV

.PHONY: help setup focus demo test test-unit test-live test-long test-kube kube-tools lint format bench bench-full compiled check-million docs lock clean

help: ## Say what can be made
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Create .venv with the locked packages; done in a moment when nothing changed
	@bash tools/setup.sh

focus: setup ## Create .venv-focus with the validator of FOCUS files, which the tests of exports need
	@bash tools/focus.sh

demo: setup ## Three teams, one pool of 64 simulated cards: the broker's night, morning and evening
	@$(BIN)/python examples/broker/demo.py

test: setup lint test-unit test-live ## Lint and every test but the long ones

# Tests of single modules alone must cover the rooms that decide; see tests/plugin_marks.py.
test-unit: setup focus ## Tests without a database, with branch coverage of domain and scheduling
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -m "pure and not kube" -n $(WORKERS)
	$(BIN)/coverage combine -q
	$(BIN)/coverage json -q -o .coverage.json
	$(BIN)/python tools/coverage_gate.py .coverage.json

test-live: setup ## Tests with PostgreSQL and with a whole millpond
	$(PYTEST) -m "not pure and not long and not kube" -n $(WORKERS) --dist loadfile

test-long: setup ## Tests that take minutes: 200 random kills and the like
	$(PYTEST) -m "long and not kube"

test-kube: setup kube-tools ## Tests with a whole Kubernetes control plane, Volcano and fake nodes
	$(PYTEST) -m kube

kube-tools: setup ## Build etcd, Kubernetes, Volcano and kwok for test-kube (needs Go; 20 min, then once for the same versions)
	@$(BIN)/python -m tools.kube_build $(if $(JOBS),--jobs $(JOBS))

lint: setup ## Style, types, import contracts, our own rules
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	PYTHONPATH=. $(BIN)/lint-imports
	$(BIN)/python -m tools.lint

format: setup ## Format the code and mend what ruff can mend
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# A core compiled from other sources would be measured for ours, so it is brought up to date first; that is cached.
bench: setup ## Every benchmark in its short form, minutes; writes benchmarks/results/short and the guide's plots
	@$(BIN)/python -m tools.compile || echo "measuring the core in pure Python"
	@$(BIN)/python -m benchmarks.run; code=$$?; $(BIN)/python -m benchmarks.plots; exit $$code

bench-full: setup ## Every benchmark in full, which takes hours on two cores; writes benchmarks/results
	@$(BIN)/python -m tools.compile || echo "measuring the core in pure Python"
	@$(BIN)/python -m benchmarks.run --full; code=$$?; $(BIN)/python -m benchmarks.plots; exit $$code

compiled: setup ## Compile the pure core into build/compiled (needs gcc; once for the same sources)
	$(BIN)/python -m tools.compile

check-million: setup ## Judge a million decisions of invented days a second time; compiles the core first
	$(BIN)/python -m tools.compile
	PYTHONPATH=build/compiled $(BIN)/python -m benchmarks.checked --full

docs: setup ## Regenerate openapi.json and docs/guide/cli.md
	$(BIN)/python -m millpond.api.openapi > openapi.json.new && mv openapi.json.new openapi.json
	$(BIN)/python -m millpond.cli.reference > docs/guide/cli.md.new && mv docs/guide/cli.md.new docs/guide/cli.md

lock: setup ## Resolve the lock files anew (UPGRADE=1 takes newer versions)
	bash tools/lock.sh $(if $(UPGRADE),--upgrade)

clean: ## Remove what tools and tests leave behind; .venv stays
	rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage .coverage.* htmlcov dist build demo-report.json
	find src tests tools examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
