"""Health, metrics, version, headers, the log, and the committed OpenAPI document."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import structlog
from prometheus_client.parser import text_string_to_metric_families

from millpond import __version__
from millpond.api.app import ROUTERS, routes_make
from millpond.api.document import openapi_text
from millpond.api.schemas.jobs import JobSubmit
from millpond.api.schemas.queues import QueueInput
from millpond.domain.errors import InvalidInput
from millpond.files.jobs import JOB_KEYS
from millpond.files.queues import QUEUE_KEYS
from tests.api.desk import DeskEngine
from tests.api.house import House, seats_of

COMMITTED = Path(__file__).parents[2] / "openapi.json"


def test_the_committed_document_is_the_generated_one() -> None:
    made = openapi_text(routes_make().openapi())
    assert made == COMMITTED.read_text(), "run: make docs"


def test_every_field_and_parameter_is_described() -> None:
    document = routes_make().openapi()
    bare = [
        f"{name}.{field}"
        for name, schema in document["components"]["schemas"].items()
        for field, value in schema.get("properties", {}).items()
        if not value.get("description")
    ]
    bare += [
        f"{path} {parameter['name']}"
        for path, operations in document["paths"].items()
        for operation in operations.values()
        for parameter in operation.get("parameters", ())
        if not parameter.get("description")
    ]
    assert bare == []


def test_documented_bodies_have_the_keys_of_the_files() -> None:
    assert set(JobSubmit.model_fields) == set(JOB_KEYS)
    keys = {field.alias or name for name, field in QueueInput.model_fields.items()}
    assert keys == set(QUEUE_KEYS)


def test_every_router_is_used() -> None:
    folder = Path(__file__).parents[2] / "src" / "millpond" / "api" / "routers"
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    assert {module.__name__.rpartition(".")[2] for module in ROUTERS} == modules


@pytest.mark.postgres
def test_health_and_readiness(house: House) -> None:
    assert house.client.get("/healthz").json() == {"status": "ok"}
    answer = house.client.get("/readyz")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert answer.json() == {
        "ready": False,
        "parts": {"database": "ok", "engine": "no engine is connected", "leader": "ok"},
    }


@pytest.mark.postgres
def test_ready(staffed: House) -> None:
    answer = staffed.client.get("/readyz")
    assert (answer.status_code, answer.json()["ready"]) == (200, True)


@pytest.mark.postgres
def test_a_defect_is_a_500_that_says_only_where_to_look(staffed: House, desk: DeskEngine) -> None:
    desk.broken = RuntimeError("secret of the house")
    answer = staffed.client.get("/readyz")
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
    assert answer.json()["request_id"] == answer.headers["request-id"]
    assert "secret" not in answer.text


@pytest.mark.postgres
def test_errors_of_the_database_do_not_carry_values(house: House) -> None:
    statement = "SELECT %(value)s::int"
    with pytest.raises(InvalidInput) as caught:
        house.database.run("test", lambda tx: tx.exec_driver_sql(statement, {"value": "hunter2secret"}))
    cause = caught.value.__cause__
    assert cause is not None
    assert "parameters hidden" in str(cause)


@pytest.mark.postgres
def test_version_and_headers(house: House) -> None:
    answer = house.client.get("/v1/version", headers={"Request-Id": "mine-1"})
    assert answer.json()["version"] == __version__
    assert answer.headers["request-id"] == "mine-1"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert "server" not in answer.headers
    other = house.client.get("/v1/version", headers={"Request-Id": "no good\x01"})
    assert other.headers["request-id"] != "no good\x01"


@pytest.mark.postgres
def test_metrics_have_jobs_and_requests(house: House) -> None:
    job = house.submit("ann", "train")
    house.submit("ann", "later")
    house.run(job["id"], seats_of("n1", 0))
    house.ask("ann", "GET", f"/v1/jobs/{job['id']}")
    house.ask("ann", "GET", "/v1/nothing")
    text = house.ask("auditor", "GET", "/metrics").text
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples["millpond_jobs", (("queue", "trade/batch"), ("state", "queued"))] == 1
    assert samples["millpond_jobs", (("queue", "trade/batch"), ("state", "running"))] == 1
    key = (("method", "GET"), ("route", "/v1/jobs/{job}"), ("status", "200"))
    assert samples["millpond_http_requests_total", key] == 1
    assert samples["millpond_http_requests_total", (("method", "GET"), ("route", "unmatched"), ("status", "404"))] == 1
    assert samples["millpond_build_info", (("version", __version__),)] == 1
    assert job["id"] not in text


@pytest.mark.postgres
def test_the_log_has_no_secrets(house: House) -> None:
    written = io.StringIO()
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(written), cache_logger_on_first_use=False)
    try:
        house.submit("ann", "train", env=["HF_TOKEN=hunter2secret"])
        house.ask("ann", "POST", "/v1/tokens", {"label": "x"})
        house.client.get("/v1/whoami", headers={"Authorization": "Bearer mp_hunter2secret"})
        house.ask("ann", "POST", "/v1/jobs", {"name": "x", "env": ["A=hunter2secret"], "commands": 3})
    finally:
        structlog.reset_defaults()
    log = written.getvalue()
    assert "/v1/jobs" in log
    assert "ann" in log
    assert "hunter2secret" not in log
    assert house.tokens["ann"] not in log
    assert "mp_" not in log
