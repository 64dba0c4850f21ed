"""The README's five minutes, as a stranger would follow them: every command block, in order, in one shell."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECONDS = 240


def blocks(page: str) -> list[str]:
    """The ``sh`` blocks of a page."""
    return re.findall(r"^```sh\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture
def environ(home: Path) -> dict[str, str]:
    """A user's environment: this virtual environment on the path, a state folder and a home of its own, a free port."""
    kept = {name: os.environ[name] for name in ("LANG", "PYTHONDONTWRITEBYTECODE") if name in os.environ}
    return kept | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(home),
        "MILLPOND_STATE_DIR": str(home / "state"),
        "MILLPOND_PORT": "0",
    }


@pytest.mark.live
def test_every_command_of_the_quick_start_works(home: Path, environ: dict[str, str]) -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    # Setting up is what brought us here.
    commands = [block for block in blocks(page) if "make setup" not in block]
    assert len(commands) >= 6
    (home / "folder").mkdir()
    try:
        done = subprocess.run(
            ["bash", "-ex", "-c", "\n".join(commands)],
            cwd=home / "folder",
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    finally:
        down = subprocess.run(
            ["millpond", "down"], env=environ, capture_output=True, text=True, timeout=60, check=False
        )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "hello from a card" in done.stdout
    assert "my turn" in done.stdout
    assert "INSUFFICIENT_CARDS" in done.stdout
    assert "simulated" in done.stdout
    assert down.returncode == 0, down.stderr
