"""The runner: unknown names are refused, failures are named and do not stop the others, Ctrl-C keeps what is there."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from benchmarks import run as runner
from benchmarks.figures import Figure, Result, result_write


class Process:
    """What `Popen` gives, as far as the runner looks."""

    def __init__(self, code: int, *, interrupted: bool = False) -> None:
        self.code, self.interrupted = code, interrupted

    def wait(self, timeout: float | None = None) -> int:
        if self.interrupted:
            self.interrupted = False
            raise KeyboardInterrupt
        return self.code


def written(folder: Path, name: str, value: float) -> None:
    figure = Figure("B0", f"{name}_s", value, "s", aim=2.0)
    result_write(Result(name, "short", {}, "x", "2026-11-30T12:00:00+00:00", 1.0, False, (figure,)), folder)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> dict[str, Process]:
    processes = {name: Process(0) for name in runner.BENCHMARKS}
    monkeypatch.setattr(runner, "benchmark_start", lambda name, **_: processes[name])
    return processes


def test_a_failure_is_named_and_the_others_run(
    tmp_path: Path, started: dict[str, Process], capsys: pytest.CaptureFixture[str]
) -> None:
    started["packing"] = Process(3)
    written(tmp_path, "sharing", 1)
    written(tmp_path, "whatif", 5)
    assert runner.main(["packing", "sharing", "whatif", "--out", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "failed: packing, exit code 3" in out
    assert "1 of 2 aims met; missed: B0 whatif_s" in out


def test_ctrl_c_keeps_what_is_done(
    tmp_path: Path, started: dict[str, Process], capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path, "sharing", 1)
    started["whatif"] = Process(1, interrupted=True)
    assert runner.main(["sharing", "whatif", "pooling", "--out", str(tmp_path)]) == runner.INTERRUPTED
    out = capsys.readouterr().out
    assert "sharing_s" in out
    assert "not run: whatif, pooling" in out


def test_an_unknown_name_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        runner.main(["pakcing"])
    assert "packing" in capsys.readouterr().err


def test_a_benchmark_runs_as_a_module_of_its_own(tmp_path: Path) -> None:
    process = runner.benchmark_start("nothing", full=False, folder=tmp_path)
    assert isinstance(process, subprocess.Popen)
    assert process.wait() == 1
