"""The scenarios of scheduling §8 as files, run through the command line.

``python -m tests.golden.scenario_files`` writes the golden outputs anew; read the diff before committing it.
"""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

from millpond.cli.main import command_run
from millpond.cli.session import Surroundings

FOLDER = Path(__file__).parent / "scenarios"
SIMULATED = ("S01-day", "S07", "S10", "S12", "S13", "S16", "S17", "holdback", "regroup")


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def command_output(*args: str) -> tuple[int, str, str]:
    """(exit code, standard output, standard error) of one command line."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = command_run(args, Surroundings(environ={}))
    return code, out.getvalue(), err.getvalue()


def plan_output(name: str) -> str:
    code, out, err = command_output("plan", str(FOLDER / f"{name}.yaml"), "--json")
    assert (code, err) == (0, ""), err
    return out


def simulate_output(name: str) -> str:
    code, out, err = command_output("simulate", str(FOLDER / f"{name}.yaml"), "--json")
    assert (code, err) == (0, ""), err
    return out


def pretty(text: str) -> str:
    """A plan as it is kept: one item a line, so that a change shows as a line."""
    plan: dict[str, list[Any]] = json.loads(text)
    lines = ["{"]
    for index, (key, items) in enumerate(plan.items()):
        comma = "," if index < len(plan) - 1 else ""
        rows = ",\n    ".join(json.dumps(item, sort_keys=True) for item in items)
        lines.append(f'  "{key}": [' + (f"\n    {rows}\n  ]" if items else "]") + comma)
    return "\n".join([*lines, "}"]) + "\n"


def compact(text: str) -> str:
    """The exact bytes that a kept plan stands for."""
    return json.dumps(json.loads(text), sort_keys=True, ensure_ascii=False, separators=(",", ":")) + "\n"


def rewrite() -> None:
    for name in names():
        (FOLDER / f"{name}.plan.json").write_text(pretty(plan_output(name)))
        if name in SIMULATED:
            (FOLDER / f"{name}.simulate.jsonl").write_text(simulate_output(name))


if __name__ == "__main__":
    rewrite()
