"""The compiled part of the peers: one C file, compiled when it is first needed and kept by the hash of its source."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from millpond.domain.errors import Unavailable

SOURCE = Path(__file__).with_name("policies.c")
FLAGS = ("-std=c11", "-O3", "-fPIC", "-shared", "-ffp-contract=off")
"""Without contraction of floating-point operations: the scores must not depend on what the processor can fuse."""


def cache_dir() -> Path:
    """Where compiled peers are kept: ``$XDG_CACHE_HOME/millpond`` or ``~/.cache/millpond``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "millpond"


def kernel_build(source: Path = SOURCE, compiler: str = "") -> Path:
    """Compile `source` unless the cache has it, and give the library.

    ``compiler`` is ``$CC``, else `cc`.  Raises Unavailable when there is none or when it fails, with what it said.
    """
    compiler = compiler or os.environ.get("CC") or "cc"
    digest = hashlib.sha256("\0".join((compiler, *FLAGS, source.read_text())).encode()).hexdigest()
    library = cache_dir() / "peers" / digest[:16] / f"{source.stem}.so"
    if library.exists():
        return library
    if shutil.which(compiler) is None:
        raise Unavailable(
            f"no C compiler: {compiler} is not on the PATH", hint="install gcc or clang, or name one in CC"
        )
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        made = Path(folder) / library.name
        command = [compiler, *FLAGS, "-o", str(made), str(source), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unavailable(f"{compiler} cannot compile {source.name}: {done.stderr.strip()}", hint="set CC")
        made.replace(library)  # whole or not at all, also when two processes compile at once
    return library


@cache
def kernel() -> ctypes.CDLL:
    return ctypes.CDLL(str(kernel_build()))
