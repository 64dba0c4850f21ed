"""Running the command line in this process against a replaying server."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from millpond.cli.main import command_run
from millpond.cli.session import Surroundings
from tests.replay.answers import NOW
from tests.replay.server import Replay, replaying


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


@dataclass
class CommandLine:
    """``call("ps", "-a")`` runs one command; `environ` is all the environment it has."""

    server: Replay
    environ: dict[str, str]
    capture: pytest.CaptureFixture[str]
    calls: list[tuple[str, ...]] = field(default_factory=list)

    def __call__(self, *args: str) -> Result:
        self.calls.append(args)
        self.capture.readouterr()
        code = command_run(args, Surroundings(self.environ, lambda: NOW))
        captured = self.capture.readouterr()
        return Result(code, captured.out, captured.err)


def use_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let stdout and stderr look like a terminal of 100 columns."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture
def server() -> Iterator[Replay]:
    with replaying() as replay:
        yield replay


@pytest.fixture
def millpond(
    server: Replay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[CommandLine]:
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    environ = {
        "MILLPOND_SERVER": server.address,
        "MILLPOND_TOKEN": "mp_test",
        "MILLPOND_STATE_DIR": str(tmp_path / "state"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "HOME": str(tmp_path),
    }
    yield CommandLine(server, environ, capsys)
    monkeypatch.undo()
    time.tzset()
