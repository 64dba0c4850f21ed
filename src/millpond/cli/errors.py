"""Errors into exit codes and one line with the next thing to try.

| code | meaning                                                        |
|------|----------------------------------------------------------------|
| 0    | done                                                           |
| 1    | the job failed                                                 |
| 2    | usage: the command line, or a file, cannot be understood       |
| 3    | cancelled by the user                                          |
| 4    | refused: permission, quota, validation by the server           |
| 5    | the server is unreachable, or broke                            |
"""

from __future__ import annotations

from enum import IntEnum
from pathlib import PurePath

from millpond.cli.texts import Texts
from millpond.domain.errors import InvalidInput, MillpondError, Position, Unauthenticated, Unavailable
from millpond.sdk.errors import Rejected, ServerFailed


class Exit(IntEnum):
    OK = 0
    JOB_FAILED = 1
    USAGE = 2
    CANCELLED = 3
    REFUSED = 4
    UNREACHABLE = 5


class NoServer(Unavailable):
    """No address is known: nothing was given, saved, or runs on this machine."""

    code = "NO_SERVER"

    def __init__(self) -> None:
        super().__init__("no millpond is known here", hint="start one: millpond up, or: millpond login --server URL")


class ExtraMissing(MillpondError):
    """A command whose libraries are not installed."""

    code = "EXTRA_MISSING"

    def __init__(self, command: str, module: str, extra: str = "server") -> None:
        super().__init__(
            f"millpond {command} needs a part that is not installed ({module})",
            hint=f"pip install 'millpond[{extra}]'",
            details={"command": command, "module": module},
        )


def exit_code(error: MillpondError) -> Exit:
    """The exit code of an error (the table above)."""
    if error.reason == "AMBIGUOUS_TENANT":
        return Exit.USAGE
    if isinstance(error, (Unavailable, ServerFailed)):
        return Exit.UNREACHABLE
    if isinstance(error, ExtraMissing) or (isinstance(error, InvalidInput) and not isinstance(error, Rejected)):
        return Exit.USAGE
    return Exit.REFUSED


def error_line(error: MillpondError, texts: Texts) -> str:
    """What a person reads: one line (so that logs and ``grep`` keep it whole), the next thing to try in brackets."""
    position = error.position if isinstance(error, InvalidInput) else None
    place = position_text(position) if position is not None else ""
    message = f"{place}: {error.message}" if place else error.message
    key = f"error.{error.reason}"
    if texts.lang != "en" and texts.has(key):
        message = f"{texts(key)}：{message}"
    hint = error.hint
    if not hint and isinstance(error, Unauthenticated):
        hint = "millpond login"
    return f"millpond: {printable(message)}" + (f" ({printable(hint)})" if hint else "")


def error_json(error: MillpondError) -> dict[str, object]:
    """The machine form of an error."""
    value: dict[str, object] = {"code": error.reason, "message": error.message}
    if error.hint:
        value["hint"] = error.hint
    if error.details:
        value["details"] = error.details
    position = error.position if isinstance(error, InvalidInput) else None
    if position is not None:
        value["position"] = {
            "line": position.line,
            "column": position.column,
            "path": position.path,
            "source": position.source,
        }
    return {"error": value}


def position_text(position: Position) -> str:
    """``job.yaml:3:8: resources.gpu``; without a line (a command line, a JSON body) the key path alone."""
    if position.line > 0:
        return str(position)
    source = "" if position.source in ("", "body") else position.source
    return ": ".join(part for part in (source, position.path) if part)


def printable(text: str) -> str:
    """Control characters made visible, so that what others wrote cannot steer the terminal; newlines become spaces."""
    spaced = " ".join(text.split())
    return "".join(character if character.isprintable() else f"\\x{ord(character):02x}" for character in spaced)


def file_write_error(error: OSError, path: str) -> InvalidInput:
    """A file that cannot be written."""
    return InvalidInput(f"cannot write {path}: {error.strerror or error}", hint="name a folder that you may write to")


def file_error(error: OSError, path: str) -> InvalidInput:
    """A file that cannot be read."""
    name = PurePath(path).name or path
    return InvalidInput(f"cannot read {path}: {error.strerror or error}", hint=f"does {name} exist? look with: ls -l")
