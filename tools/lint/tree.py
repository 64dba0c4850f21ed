"""Which files are checked: those that git tracks or would track, as they stand in the working tree."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

from tools.lint import rules_python, rules_text
from tools.lint.finding import Finding, SourceFile

EXEMPT_FROM_TEXT = ("tools/lint/", "tests/unit/lint/", "LICENSE")
"""The rules and their tests spell out what they look for."""


def files(root: Path) -> Iterator[SourceFile]:
    """Text files below `root`.  Those that are not UTF-8 are data and are left out."""
    listing = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True,
        capture_output=True,
    ).stdout.decode()
    for name in sorted(filter(None, listing.split("\0"))):
        try:
            yield SourceFile(name, (root / name).read_text(encoding="utf-8"))
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue


def check(file: SourceFile) -> list[Finding]:
    """All findings of one file.  Python that does not parse is ruff's to report."""
    found: list[Finding] = []
    if not file.path.startswith(EXEMPT_FROM_TEXT):
        for text_rule in rules_text.RULES:
            found.extend(text_rule(file))
    if file.python:
        try:
            for rule in rules_python.RULES:
                found.extend(rule(file))
        except SyntaxError as error:
            found.append(Finding(file.path, error.lineno or 1, "syntax", "does not parse"))
    return sorted(set(found))
