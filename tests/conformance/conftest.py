"""Every engine that the suite runs against."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from millpond.engines.local.engine import LocalEngine
from millpond.engines.local.launch import supervisor_ensure, supervisor_stop
from tests.conformance.bench import Bench, FakeBench, LocalBench

TENANT_UID = 20_001


@pytest.fixture(scope="module")
def local_root() -> Iterator[Path]:
    """A folder that tenants' users may pass, with a supervisor for the whole module."""
    root = Path(tempfile.mkdtemp(prefix="millpond-engine-"))
    root.chmod(0o711)
    supervisor_ensure(root / "engine", root / "run")
    yield root
    engine = LocalEngine(root / "engine", root / "run")
    for status in engine.recover():
        engine.stop(status.attempt, 0)
    engine.close()
    supervisor_stop(root / "run")
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(params=["fake", "local", "sandbox"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """A fresh fake; or the module's supervisor, without or with bubblewrap."""
    if request.param == "fake":
        yield FakeBench()
        return
    root: Path = request.getfixturevalue("local_root")
    made = LocalBench(root, request.param == "sandbox", TENANT_UID if os.geteuid() == 0 else 0)
    notes = made.engine.capabilities().notes
    if made.isolated and "isolation: bubblewrap" not in notes:
        pytest.skip(f"bubblewrap does not work here: {notes}")
    yield made
    made.engine.close()


@pytest.fixture
def attempt(request: pytest.FixtureRequest) -> str:
    """An attempt id of the test's own."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name.lower())
    return f"{name[-60:].strip('-')}-1"
