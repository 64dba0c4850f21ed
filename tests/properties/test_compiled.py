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


def _digests(package: Path) -> list[str]:
    found = subprocess.run(
        [sys.executable, "-m", "tests.properties.digests"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
        check=True,
    )
    return found.stdout.splitlines()


def test_compiled_and_pure_plans_are_the_same_bytes() -> None:
    pure, compiled = _digests(SOURCE), _digests(copy_make())
    assert (pure[0], compiled[0]) == ("build pure", "build compiled")
    assert compiled[1:] == pure[1:]
