"""Rules on any text file: no addresses in lock files, no path of somebody's machine anywhere, no notes of work left."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatch

from tools.lint.finding import Finding, SourceFile

LOCK_FILES = (
    "requirements/*.txt", "*requirements*.txt", "*.lock", "*package-lock.json", "*pnpm-lock.yaml", "*go.sum",
    "*npm-shrinkwrap.json",
)  # fmt: skip

_ADDRESS = re.compile(
    r"\b[a-z][a-z0-9+.-]*://|--(?:extra-)?index-url|--find-links|--trusted-host|(?:^|\s)-[if]\s", re.IGNORECASE
)
_PATH_IN_LOCK = re.compile(r"(?:^|[\s'\"=:(])(?:file:)?/[A-Za-z][\w.-]*/")
_GO_HASH = re.compile(r"\bh1:[A-Za-z0-9+/]{43}=")
"""Base64, which may look like a path."""

_HOME = re.compile(r"/home/(?!user\b)[a-z]\w*/")
_MACHINE = re.compile(r"/root/\.\w+|(?<![\w>}.*])/(?:work|workspace|builds)/[\w.]")
_NOTE = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")


def lock_file(path: str) -> bool:
    return any(fnmatch(path, pattern) for pattern in LOCK_FILES)


def lock_addresses(file: SourceFile) -> Iterator[Finding]:
    """A lock file pins names, versions and hashes.  Where they come from is each machine's own matter."""
    if not lock_file(file.path):
        return
    for number, line in enumerate(file.lines, 1):
        if _ADDRESS.search(line):
            yield Finding(file.path, number, "lock-address", "a lock file must not name an index or a URL")
        elif _PATH_IN_LOCK.search(_GO_HASH.sub("", line)):
            yield Finding(file.path, number, "lock-address", "a lock file must not name a path of a machine")


def machine_paths(file: SourceFile) -> Iterator[Finding]:
    """No path that exists on one machine only.  Tests may make up homes."""
    for number, line in enumerate(file.lines, 1):
        match = _MACHINE.search(line) or (None if file.path.startswith("tests/") else _HOME.search(line))
        if match:
            yield Finding(file.path, number, "machine-path", f"{match.group()} exists on one machine only")


def notes(file: SourceFile) -> Iterator[Finding]:
    """Work that is left is an issue, not a comment."""
    for number, line in enumerate(file.lines, 1):
        match = _NOTE.search(line)
        if match:
            yield Finding(file.path, number, "note", f"{match.group()}: do it or file it")


RULES = (lock_addresses, machine_paths, notes)
