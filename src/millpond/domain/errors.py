"""The one error tree.

    MillpondError
    ├── InvalidInput        the caller wrote something that means nothing; carries a position when there is one
    ├── Unauthenticated     no token, or one that is not valid
    ├── Forbidden           a valid token without the right
    ├── NotFound            no such thing, as far as the caller may see
    ├── Conflict            true now, but not with the state that stands
    ├── Refused             well-formed and permitted, yet it cannot be: quota, size, ownership of a name
    ├── Unavailable         a part that is needed does not answer; trying again may help
    └── IllegalTransition   a bug: a state machine was asked for a step that it does not have

Engine errors (``millpond.engines.base``) and SDK errors hang below `MillpondError` too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Position:
    """Where in a file: 1-based line and column, and the key path (``resources.gpu``).  Line 0: no file, only a path."""

    line: int
    column: int
    path: str = ""
    source: str = ""

    def __str__(self) -> str:
        place = self.source or "input"
        if self.line:
            place += f":{self.line}:{self.column}"
        return f"{place}: {self.path}" if self.path else place


class MillpondError(Exception):
    """Root of every error that millpond raises on purpose.

    ``code`` is stable and machine-readable, ``message`` is one sentence, ``hint`` names the next thing to try.
    ``details`` carries the numbers (integers) and names that make the message true.
    """

    code: ClassVar[str] = "ERROR"

    def __init__(
        self, message: str, *, hint: str = "", code: str = "", details: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.reason = code or self.code
        self.details: dict[str, object] = dict(details or {})

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class InvalidInput(MillpondError):
    """A value that cannot be understood.  ``position`` says where it stands, when it came from a file."""

    code = "INVALID"

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        code: str = "",
        details: Mapping[str, object] | None = None,
        position: Position | None = None,
    ) -> None:
        super().__init__(message, hint=hint, code=code, details=details)
        self.position = position

    def at(self, position: Position) -> InvalidInput:
        """The same error at `position`; one that already has a position keeps it."""
        if self.position is not None:
            return self
        return InvalidInput(self.message, hint=self.hint, code=self.reason, details=self.details, position=position)

    def __str__(self) -> str:
        text = super().__str__()
        return f"{self.position}: {text}" if self.position else text


class Unauthenticated(MillpondError):
    code = "UNAUTHENTICATED"


class Forbidden(MillpondError):
    code = "FORBIDDEN"


class NotFound(MillpondError):
    code = "NOT_FOUND"


class Conflict(MillpondError):
    code = "CONFLICT"


class Refused(MillpondError):
    code = "REFUSED"


class Unavailable(MillpondError):
    code = "UNAVAILABLE"


class IllegalTransition(MillpondError):
    code = "ILLEGAL_TRANSITION"
