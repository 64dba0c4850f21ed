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

# The FOCUS validator.  Only this version of it asks for Python 3.12, so pip-compile cannot resolve it here: what it needs
# is resolved, and its own line is added.
focus=focus-validator==2.2.1
env -u PIP_FIND_LINKS "$BIN/pip-compile" -q --generate-hashes --strip-extras --allow-unsafe --no-emit-index-url \
    --no-emit-find-links --no-emit-trusted-host --no-emit-options --annotation-style=line "$@" \
    -o requirements/focus.txt requirements/focus.in
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
"$BIN/pip" download -q --no-deps --ignore-requires-python -d "$folder" "$focus"
printf '%s --hash=%s\n' "$focus" "$("$BIN/pip" hash "$folder"/* | sed -n 's/^--hash=//p')" >>requirements/focus.txt
