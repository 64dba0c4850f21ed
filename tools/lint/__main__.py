"""``python -m tools.lint [ROOT]``: prints findings as path:line: rule: text; exit code 1 when one of them is hard."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.lint.tree import check, files


def main(argv: list[str]) -> int:
    root = Path(argv[0]) if argv else Path(__file__).parents[2]
    findings = [finding for file in files(root) for finding in check(file)]
    for finding in findings:
        print(finding)
    hard = sum(finding.hard for finding in findings)
    print(f"house rules: {hard} broken, {len(findings) - hard} soft")
    return 1 if hard else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
