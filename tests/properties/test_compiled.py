"""The compiled core says what the pure one says, byte for byte."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.compile import ROOT, SOURCE, compiler_found, compiler_name, copy_make

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not compiler_found(), reason=f"no C compiler: {compiler_name()} is not on PATH"),
]


COMMON = 200
"""At least so many worlds must have been planned by both."""


def _digests(package: Path) -> tuple[str, dict[str, str]]:
    """Which build it is, and the digest of every plan by scenario or world."""
    found = subprocess.run(
        [sys.executable, "-m", "tests.properties.digests"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
        check=True,
    )
    build, *lines = found.stdout.splitlines()
    return build, dict(line.split() for line in lines)


def test_compiled_and_pure_plans_are_the_same_bytes() -> None:
    (pure_build, pure), (compiled_build, compiled) = _digests(SOURCE), _digests(copy_make())
    assert (pure_build, compiled_build) == ("build pure", "build compiled")
    common = pure.keys() & compiled.keys()
    assert len(common) >= COMMON
    assert {name: compiled[name] for name in common} == {name: pure[name] for name in common}


STORED = """
from millpond.db.codec import codec_for
from millpond.domain.jobs import JobSpec
from millpond.domain.nodes import NodeSpec
from millpond.domain.queues import QueueConfig
from millpond.domain.records import SeatRecord
for kind in (JobSpec, NodeSpec, QueueConfig, tuple[SeatRecord, ...]):
    codec_for(kind)
"""


def test_the_compiled_package_reads_and_writes_stored_records() -> None:
    env = {**os.environ, "PYTHONPATH": str(copy_make())}
    found = subprocess.run([sys.executable, "-c", STORED], env=env, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
