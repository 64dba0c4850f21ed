#!/usr/bin/env bash
# Makes .venv-focus ready: the FinOps Foundation's validator of FOCUS files, which the tests of exports run.
#
# It has an environment of its own because it pins an old NumPy.  Version 2.2.1, the first that knows FOCUS 1.2, asks for
# Python 3.12 because of a single f-string; on 3.11 that line is written the way 3.11 understands, and nothing else.
set -euo pipefail
cd "$(dirname "$0")/.."

FOCUS="${FOCUS:-.venv-focus}"
LOCK=requirements/focus.txt
STAMP="$FOCUS/.setup-stamp"

wanted="$({ cat "$LOCK" tools/focus.sh; pwd; } | sha256sum | cut -d ' ' -f 1)"
[ "$(cat "$STAMP" 2>/dev/null)" = "$wanted" ] && exit 0

echo "focus: creating $FOCUS" >&2
"${VENV:-.venv}/bin/python" -m venv --clear "$FOCUS"
PIP_DISABLE_PIP_VERSION_CHECK=1 "$FOCUS/bin/python" -m pip install -q --require-hashes --no-deps \
    --ignore-requires-python -r "$LOCK"
"$FOCUS/bin/python" - <<'PYTHON'
import sys
import sysconfig
from pathlib import Path

NEW = r"""f"'{k.replace('\"', '\"\"')}'" for k in ignore_keys"""
OLD = """"'" + k.replace('"', '""') + "'" for k in ignore_keys"""
path = Path(sysconfig.get_path("purelib")) / "focus_validator/config_objects/focus_to_duckdb_converter.py"
text = path.read_text(encoding="utf-8")
if sys.version_info < (3, 12):
    if text.count(NEW) != 1:
        sys.exit("focus: the line that Python 3.11 cannot read is not where it was; look at tools/focus.sh")
    path.write_text(text.replace(NEW, OLD), encoding="utf-8")
compile(path.read_text(encoding="utf-8"), str(path), "exec")
PYTHON
printf '%s\n' "$wanted" >"$STAMP"
