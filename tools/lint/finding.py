"""What a rule says, and what it is given."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One broken rule.  ``hard`` findings fail the run; soft ones are only told."""

    path: str
    line: int
    rule: str
    text: str
    hard: bool = True

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {'' if self.hard else '(soft) '}{self.rule}: {self.text}"


@dataclass(frozen=True)
class SourceFile:
    """A file of the repository: its path from the root with forward slashes, and its text."""

    path: str
    text: str

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name

    @property
    def python(self) -> bool:
        return self.path.endswith(".py")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, filename=self.path)

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def room(self) -> str:
        """``scheduling`` for ``src/millpond/scheduling/plan.py``; empty outside the package and for its own modules."""
        parts = PurePosixPath(self.path).parts
        return parts[2] if parts[:2] == ("src", "millpond") and len(parts) > 3 else ""
