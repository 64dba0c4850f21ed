#!/usr/bin/env bash
# Writes requirements/*.txt from pyproject.toml: every package pinned, every file hashed, no address of any index.
#
# dev.txt is resolved first; the others are parts of it with the same versions.  Resolve with the oldest Python that we
# support, so that the pins hold on all of them.
set -euo pipefail
cd "$(dirname "$0")/.."

BIN="${VENV:-.venv}/bin"
"$BIN/python" -c 'import sys; raise SystemExit(sys.version_info[:2] != (3, 11))' || {
    echo "lock: use Python 3.11, the oldest that we support" >&2
    exit 1
}

export CUSTOM_COMPILE_COMMAND="make lock"
compile() {
    env -u PIP_FIND_LINKS "$BIN/pip-compile" -q --generate-hashes --strip-extras --allow-unsafe --no-emit-index-url \
        --no-emit-find-links --no-emit-trusted-host --no-emit-options --annotation-style=line "$@" pyproject.toml
}

compile --extra server --extra reports --extra otel --extra dev -o requirements/dev.txt "$@"
compile -c requirements/dev.txt -o requirements/runtime.txt
compile -c requirements/dev.txt --extra server --extra reports --extra otel -o requirements/server.txt
