"""Compile the pure core with mypyc: the same sources, several times faster.

    python -m tools.compile            # a whole copy of the package in build/compiled, with compiled modules beside it
    python tools/compile.py --into DIR # only the compiled modules, laid out as in a site-packages folder

``PYTHONPATH=build/compiled python ...`` runs with it.  What was compiled once is kept under
``${XDG_CACHE_HOME:-~/.cache}/millpond/compiled/<hash of the sources>`` and is not compiled again.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

from mypyc.build import mypycify
from setuptools import Distribution
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
TARGET = ROOT / "build" / "compiled"

ROOMS = ("scheduling",)
"""Rooms of the package that are compiled whole."""

MODULES = (
    "domain/amounts", "domain/links", "domain/names", "domain/slices",
    "simulation/driver", "simulation/figures", "simulation/jobs",
)  # fmt: skip
"""Other modules that gain from it.  Records that the database stores are not among them: compiling erases the
annotations of their fields, from which they are written and read."""

OPTIONS = ("--python-version", f"{sys.version_info.major}.{sys.version_info.minor}", "--ignore-missing-imports")


class NoCompiler(Exception):
    """There is no C compiler on this machine."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"no C compiler: {name!r} is not on PATH; install gcc (apt-get install gcc) or set CC, "
            "or go on without: everything works in pure Python too"
        )


def compiler_name() -> str:
    """The program that compiles C: ``CC``, or what Python itself was built with."""
    return (os.environ.get("CC") or str(sysconfig.get_config_var("CC") or "gcc")).split()[0]


def compiler_found() -> bool:
    """Whether there is a C compiler."""
    return shutil.which(compiler_name()) is not None


def sources() -> list[Path]:
    """The modules to compile, relative to ``src``."""
    package = SOURCE / "millpond"
    found = [path for room in ROOMS for path in (package / room).glob("*.py") if path.stem != "__init__"]
    found += [package / f"{name}.py" for name in MODULES]
    return sorted(path.relative_to(SOURCE) for path in found)


def fingerprint(paths: Sequence[Path]) -> str:
    """Changes with every source, with this file, and with what compiles them."""
    digest = hashlib.sha256()
    for word in (sys.version, platform.machine(), version("mypy"), compiler_name()):
        digest.update(word.encode() + b"\0")
    for path in [Path(__file__), *(SOURCE / path for path in paths)]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:24]


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "millpond" / "compiled"


def _side_by_side(command: build_ext) -> None:
    """Let a command compile the C files of an extension side by side."""
    build = command.build_extensions

    def build_extensions() -> None:
        compile_one = command.compiler.compile

        def compile_all(files: Sequence[str], *args: object, **options: object) -> list[str]:
            with ThreadPoolExecutor(os.cpu_count() or 1) as crew:
                found = crew.map(lambda file: compile_one([file], *args, **options), files)
                return [name for names in found for name in names]

        command.compiler.compile = compile_all
        build()

    command.build_extensions = build_extensions


def compile_into(target: Path, paths: Sequence[Path]) -> None:
    """Compile `paths` and lay the modules out under `target`.  Raises `NoCompiler`."""
    if not compiler_found():
        raise NoCompiler(compiler_name())
    with tempfile.TemporaryDirectory(prefix="millpond-compile-") as folder:
        work = Path(folder)
        shutil.copytree(SOURCE / "millpond", work / "millpond", ignore=shutil.ignore_patterns("__pycache__"))
        before = Path.cwd()
        os.chdir(work)  # mypy names modules by where it runs
        try:
            extensions = mypycify(
                [*OPTIONS, *map(str, paths)],
                opt_level="2",
                debug_level="0",
                multi_file=True,
                target_dir=str(work / "c"),
            )
            distribution = Distribution({"name": "millpond", "ext_modules": extensions})
            command = build_ext(distribution)
            _side_by_side(command)
            command.build_lib, command.build_temp = str(target), str(work / "objects")
            command.ensure_finalized()
            command.run()
        finally:
            os.chdir(before)


def compiled() -> Path:
    """The folder of the compiled modules of the present sources; compiled now if they are not in the cache."""
    paths = sources()
    folder = cache_folder() / fingerprint(paths)
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as fresh:
        compile_into(Path(fresh) / "modules", paths)
        try:
            (Path(fresh) / "modules").rename(folder)
        except OSError:
            if not folder.is_dir():  # else somebody else was quicker
                raise
    return folder


def copy_make() -> Path:
    """A whole copy of the package in ``build/compiled``, with the compiled modules beside their sources."""
    modules = compiled()
    shutil.rmtree(TARGET, ignore_errors=True)
    shutil.copytree(SOURCE, TARGET, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(modules, TARGET, dirs_exist_ok=True)
    return TARGET


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Compile the pure core with mypyc.")
    parser.add_argument("--into", type=Path, help="lay only the compiled modules out in this folder")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.into is not None:
            shutil.copytree(compiled(), chosen.into, dirs_exist_ok=True)
        else:
            target = copy_make().relative_to(ROOT)
            print(f"compiled: run with PYTHONPATH={target}")
    except NoCompiler as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except subprocess.CalledProcessError as error:
        return error.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
