"""Input files of the offline commands: plain, ``.xz`` or ``.gz``, or standard input; read a line at a time."""

from __future__ import annotations

import gzip
import lzma
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from millpond.cli.errors import file_error
from millpond.domain.errors import InvalidInput, Position
from millpond.files.traces.read import format_recognise
from millpond.files.tree import SNAPSHOT_FILE_LIMIT, text_decode

HEAD = 8192
LINE_LIMIT = 1 << 20


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file that was looked into.  ``data`` holds all of standard input, which can be read only once."""

    path: str
    source: str
    format: str
    data: bytes | None = None

    def text(self) -> str:
        """The whole text; at most as much as a snapshot file may have."""
        if self.data is not None:
            return text_decode(self.data, self.source, SNAPSHOT_FILE_LIMIT)
        try:
            with _open(self.path) as stream:
                data = stream.read(SNAPSHOT_FILE_LIMIT + 1)
        except (OSError, EOFError, lzma.LZMAError) as error:
            raise _unreadable(error, self.path) from error
        return text_decode(data, self.source, SNAPSHOT_FILE_LIMIT)

    def lines(self) -> Iterator[str]:
        """The lines, with their ends.  Raises `InvalidInput` with line and column for what is not UTF-8."""
        if self.data is not None:
            for number, line in enumerate(self.data.splitlines(keepends=True), 1):
                yield _decode(line, number, self.source)
            return
        try:
            with _open(self.path) as stream:
                number = 0
                while line := stream.readline(LINE_LIMIT + 1):
                    number += 1
                    if len(line) > LINE_LIMIT and self.format != "kubernetes":
                        where = Position(number, 1, "", self.source)
                        raise InvalidInput("the line is longer than 1 MiB", hint="is this a table?", position=where)
                    yield _decode(line, number, self.source)
        except (OSError, EOFError, lzma.LZMAError) as error:
            raise _unreadable(error, self.path) from error


def input_open(path: str, name: str = "") -> InputFile:
    """The file at `path` (``-``: standard input), in the format `name` or in the one that its beginning shows."""
    if path == "-":
        data = sys.stdin.buffer.read()
        return InputFile(path, "stdin", name or _recognise(data[:HEAD], "stdin"), data)
    try:
        with _open(path) as stream:
            head = stream.read(HEAD)
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise _unreadable(error, path) from error
    return InputFile(path, path, name or _recognise(head, path))


def _recognise(head: bytes, source: str) -> str:
    return format_recognise(head.decode("utf-8", "replace"), source)


def _open(path: str) -> IO[bytes]:
    if path.endswith(".xz"):
        return cast("IO[bytes]", lzma.open(path, "rb"))
    if path.endswith(".gz"):
        return cast("IO[bytes]", gzip.open(path, "rb"))
    return Path(path).open("rb")


def _decode(line: bytes, number: int, source: str) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        column = len(line[: error.start].decode("utf-8", "replace")) + 1
        raise InvalidInput(
            f"byte 0x{line[error.start]:02x} is not UTF-8",
            hint="save the file as UTF-8",
            position=Position(number, column, "", source),
        ) from error


def _unreadable(error: Exception, path: str) -> InvalidInput:
    if isinstance(error, OSError) and error.strerror:
        return file_error(error, path)
    return InvalidInput(f"cannot read {path}: {error}", hint="is it compressed as its name says, and whole?")
