"""Fails when the branches of a room that must be covered are not: ``python tools/coverage_gate.py .coverage.json``."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

ROOMS = ("domain", "scheduling")
LEAST_PER_MILLE = 950


def branches(report: Mapping[str, Mapping[str, Mapping[str, Mapping[str, int]]]], room: str) -> tuple[int, int]:
    """(covered, all) branches of a room in coverage's JSON report."""
    prefix = f"src/millpond/{room}/"
    summaries = [data["summary"] for name, data in report["files"].items() if name.startswith(prefix)]
    return sum(s["covered_branches"] for s in summaries), sum(s["num_branches"] for s in summaries)


def main(argv: list[str]) -> int:
    report = json.loads(Path(argv[0]).read_text(encoding="utf-8"))
    status = 0
    for room in ROOMS:
        covered, total = branches(report, room)
        enough = total > 0 and covered * 1000 >= LEAST_PER_MILLE * total
        share = f"{100 * covered / total:.1f} %" if total else "nothing"
        print(f"{room}: {covered} of {total} branches covered ({share}; at least {LEAST_PER_MILLE // 10} %)")
        status |= not enough
    return status


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
