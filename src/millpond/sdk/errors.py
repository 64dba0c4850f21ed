"""Errors of the client: what the server said, and what kept it from saying anything.

MillpondError
├── Rejected (an InvalidInput)   the server does not understand the request; carries the position it names
├── Unauthenticated, Forbidden, NotFound, Conflict, Refused      as in `millpond.domain.errors`
├── Unavailable
│   ├── Unreachable              nobody answers at that address
│   └── Busy                     the server answers that a part of it does not (503, 429)
└── ServerFailed                 the server broke (500), or answered something that is no answer
"""

from __future__ import annotations

from collections.abc import Mapping

from millpond.domain.errors import (
    Conflict,
    Forbidden,
    InvalidInput,
    MillpondError,
    NotFound,
    Position,
    Refused,
    Unauthenticated,
    Unavailable,
)

__all__ = [
    "Busy",
    "Conflict",
    "Forbidden",
    "MillpondError",
    "NotFound",
    "Refused",
    "Rejected",
    "ServerFailed",
    "Unauthenticated",
    "Unavailable",
    "Unreachable",
    "problem_error",
]


class Rejected(InvalidInput):
    """The server found the request invalid (as `InvalidInput`, but it was not found here)."""

    code = "INVALID"


class Unreachable(Unavailable):
    """Nobody answers: no such address, connection refused, lost or timed out."""

    code = "UNREACHABLE"


class Busy(Unavailable):
    """The server asks to come back later; ``retry_after`` in seconds, when it says so."""

    code = "UNAVAILABLE"
    retry_after: float | None = None


class ServerFailed(MillpondError):
    """A defect of the server or of something between: status 5xx, or an answer that is not the API's."""

    code = "SERVER_ERROR"


_BY_STATUS: Mapping[int, type[MillpondError]] = {
    400: Rejected,
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: Rejected,
    415: Rejected,
    422: Rejected,
    429: Busy,
    503: Busy,
}
_REFUSED_CODES = frozenset({"REFUSED", "TOO_LARGE", "NO_SUCH_CARD", "NO_SUCH_QUEUE", "AMBIGUOUS_TENANT"})
_REFUSED_TYPE = "urn:millpond:problem:refused"
"""Problem type of what is well-formed and yet cannot be; invalid requests have the same status."""


def problem_error(status: int, problem: Mapping[str, object], retry_after: str = "") -> MillpondError:
    """The error that a problem document (RFC 9457) describes.

    `problem` may be empty or somebody else's (a proxy's): then the status alone decides.
    """
    code = _text(problem, "code")
    message = _text(problem, "detail") or _text(problem, "title") or f"the server answered with status {status}"
    hint = _text(problem, "hint")
    details = problem.get("details")
    details = details if isinstance(details, dict) else {}
    kind = _BY_STATUS.get(status, Refused if 400 <= status < 500 else ServerFailed)
    if kind is Rejected and (code in _REFUSED_CODES or _text(problem, "type") == _REFUSED_TYPE):
        kind = Refused
    if kind is Rejected:
        return Rejected(message, hint=hint, code=code, details=details, position=_position(problem.get("position")))
    if kind is ServerFailed:
        hint = hint or "look at the server's log, then try again"
    error = kind(message, hint=hint, code=code, details=details)
    if isinstance(error, Busy):
        error.retry_after = _seconds(retry_after)
    return error


def _text(problem: Mapping[str, object], key: str) -> str:
    value = problem.get(key)
    return value if isinstance(value, str) else ""


def _position(value: object) -> Position | None:
    """The position in a problem document; line 0 (a JSON body) keeps only the key path."""
    if not isinstance(value, dict):
        return None
    line, column = value.get("line", 0), value.get("column", 0)
    path, source = value.get("path", ""), value.get("source", "")
    if not isinstance(line, int) or not isinstance(column, int):
        return None
    return Position(line, column, str(path or ""), str(source or ""))


def _seconds(text: str) -> float | None:
    try:
        return max(0.0, float(text))
    except ValueError:
        return None
