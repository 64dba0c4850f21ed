"""Every engine that the suite runs against."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from millpond.engines.local.engine import LocalEngine
from millpond.engines.local.launch import supervisor_ensure, supervisor_stop
from tests.conformance.bench import Bench, FakeBench, LocalBench

TENANT_UID = 20_001
NOBODY = 65_534
SYSTEM_PYTHON = Path("/usr/bin/python3")


def _site(python: str, owner: int) -> Iterator[Path]:
    """A folder that tenants' users may pass, with a supervisor for the whole module."""
    root = Path(tempfile.mkdtemp(prefix="millpond-engine-"))
    root.chmod(0o711)
    for name in ("engine", "run", "jobs"):
        (root / name).mkdir(mode=0o711)
        os.chown(root / name, owner, owner)
    supervisor_ensure(root / "engine", root / "run", python=python)
    yield root
    engine = LocalEngine(root / "engine", root / "run")
    for status in engine.recover():
        engine.stop(status.attempt, 0)
    engine.close()
    supervisor_stop(root / "run")
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="module")
def local_root() -> Iterator[Path]:
    yield from _site(sys.executable, os.geteuid())


@pytest.fixture(scope="module")
def unprivileged_root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The supervisor runs as nobody."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to start a supervisor as somebody else; without it `local` is unprivileged anyway")
    if not SYSTEM_PYTHON.exists():
        pytest.skip(f"needs a Python that others may run: {SYSTEM_PYTHON}")
    drop = tmp_path_factory.mktemp("drop") / "python"
    drop.write_text(f'#!/bin/sh\nexec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups {SYSTEM_PYTHON} "$@"\n')
    drop.chmod(0o755)
    yield from _site(str(drop), NOBODY)


@pytest.fixture(params=["fake", "local", "sandbox", "unprivileged"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """A fresh fake; or the module's supervisor: without bubblewrap, with it, and with it but without root."""
    if request.param == "fake":
        yield FakeBench()
        return
    root: Path = request.getfixturevalue("unprivileged_root" if request.param == "unprivileged" else "local_root")
    made = LocalBench(root, request.param != "local", TENANT_UID if os.geteuid() == 0 else 0)
    notes = made.engine.capabilities().notes
    try:
        if made.isolated and "isolation: bubblewrap" not in notes:
            pytest.skip(f"bubblewrap does not work here: {notes}")
        yield made
    finally:
        made.engine.close()


@pytest.fixture
def attempt(request: pytest.FixtureRequest) -> str:
    """An attempt id of the test's own."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name.lower())
    return f"{name[-60:].strip('-')}-1"
