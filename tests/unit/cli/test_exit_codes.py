"""The table of exit codes, through the whole command line."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from millpond.cli.errors import Exit
from tests.replay import answers
from tests.replay.calls import CommandLine
from tests.replay.server import Answer, problem

FILE = """\
name: factor-9
commands: [python mine.py]
resources: {gpu: "A800:8"}
"""


@pytest.fixture
def job_file(tmp_path: Path) -> str:
    path = tmp_path / "job.yaml"
    path.write_text(FILE)
    return str(path)


@pytest.mark.parametrize(
    ("status", "code", "exit_code"),
    [
        (400, "INVALID", Exit.REFUSED),
        (401, "UNAUTHENTICATED", Exit.REFUSED),
        (403, "FORBIDDEN", Exit.REFUSED),
        (404, "NOT_FOUND", Exit.REFUSED),
        (409, "CONFLICT", Exit.REFUSED),
        (422, "TOO_LARGE", Exit.REFUSED),
        (422, "AMBIGUOUS_TENANT", Exit.USAGE),
        (500, "INTERNAL", Exit.UNREACHABLE),
    ],
)
def test_what_the_server_says(millpond: CommandLine, job_file: str, status: int, code: str, exit_code: Exit) -> None:
    millpond.server.on("POST", "/v1/jobs", problem(status, code, "it is so", hint="do that"))
    result = millpond("apply", job_file)
    assert (result.code, result.out) == (exit_code, "")
    assert result.err == "millpond: it is so (do that)\n"


def test_json_errors(millpond: CommandLine, job_file: str) -> None:
    millpond.server.on("POST", "/v1/jobs", problem(422, "TOO_LARGE", "it is so", details={"need": 9000}))
    result = millpond("apply", job_file, "--json")
    assert (result.code, result.out) == (Exit.REFUSED, "")
    assert json.loads(result.err) == {
        "error": {"code": "TOO_LARGE", "message": "it is so", "details": {"need": 9000}},
    }


def test_errors_say_what_they_are_in_chinese(millpond: CommandLine) -> None:
    millpond.server.on("GET", "/v1/jobs/x", problem(404, "NOT_FOUND", "there is no job x"))
    assert millpond("describe", "x", "--lang", "zh").err == "millpond: 找不到：there is no job x\n"


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ('"A800:8"', "0.3333", "job.yaml:3:18: resources.gpu: '0.3333' is finer than a thousandth"),
        ("commands", "comands", "job.yaml:2:1: comands: "),
        ("[python mine.py]", "[a", "job.yaml:"),
    ],
)
def test_bad_job_file(millpond: CommandLine, job_file: str, old: str, new: str, line: str) -> None:
    path = Path(job_file)
    path.write_text(FILE.replace(old, new))
    result = millpond("apply", job_file)
    assert result.code == Exit.USAGE
    assert line in result.err
    assert len(result.err.splitlines()) == 1
    assert millpond.server.requests == []


@pytest.mark.parametrize("kind", ["missing", "folder"])
def test_unreadable_file(millpond: CommandLine, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "nothing.yaml" if kind == "missing" else tmp_path
    result = millpond("apply", str(path))
    assert result.code == Exit.USAGE
    assert f"cannot read {path}" in result.err


def test_flag_that_means_nothing(millpond: CommandLine) -> None:
    result = millpond("run", "--gpu", "0.3333", "--", "true")
    assert result.code == Exit.USAGE
    assert result.err.startswith("millpond: command line: resources.gpu: ")
    assert millpond.server.requests == []


@pytest.mark.parametrize(
    "args", [("ps", "--no-such"), ("nothing",), ("why",), ("nodes", "explode"), ("run",), ("stop", "x", "--grace", "y")]
)
def test_usage(millpond: CommandLine, args: tuple[str, ...]) -> None:
    result = millpond(*args)
    assert (result.code, result.out) == (Exit.USAGE, "")
    assert result.err.count("\n") == 1
    assert result.err.endswith(")\n")


def test_no_server_is_known(millpond: CommandLine) -> None:
    del millpond.environ["MILLPOND_SERVER"]
    result = millpond("ps")
    assert result.code == Exit.UNREACHABLE
    assert "millpond up" in result.err


def test_nobody_answers(millpond: CommandLine) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    result = millpond("ps", "--server", address)
    assert result.code == Exit.UNREACHABLE
    assert address in result.err
    assert "(start it with: millpond up)" in result.err


@pytest.mark.parametrize(
    ("state", "exit_code"), [("succeeded", Exit.OK), ("failed", Exit.JOB_FAILED), ("cancelled", Exit.CANCELLED)]
)
@pytest.mark.parametrize("verb", ["wait", "run", "apply"])
def test_how_the_job_ended(millpond: CommandLine, job_file: str, verb: str, state: str, exit_code: Exit) -> None:
    path = f"/v1/jobs/{answers.JOB_ID}"
    millpond.server.on("POST", "/v1/jobs", Answer(answers.job(), 201))
    millpond.server.on("GET", f"{path}/why", answers.explanation())
    change = answers.change(answers.ended(state, 0 if state == "succeeded" else 1))
    millpond.server.stream(f"{path}/stream", change)
    millpond.server.stream(f"{path}/logs/stream", answers.log("hello\n"), answers.end(state))
    args = {"wait": ("wait", answers.JOB_ID), "run": ("run", job_file), "apply": ("apply", job_file, "--wait")}[verb]
    assert millpond(*args).code == exit_code


def test_broken_pipe_is_quiet(millpond: CommandLine) -> None:
    millpond.server.page("/v1/cards", *[answers.card(index) for index in range(3000)])
    command = [sys.executable, "-m", "millpond.cli.main", "cards"]
    environ = {**os.environ, **millpond.environ}
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("CARD")
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait() == Exit.OK


def test_interrupt_has_no_traceback(millpond: CommandLine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        command = [sys.executable, "-m", "millpond.cli.main", "nodes", "--server", address]
        with subprocess.Popen(
            command, env={**os.environ, **millpond.environ}, stderr=subprocess.PIPE, text=True
        ) as process:
            connection, _ = listener.accept()
            time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            assert process.stderr is not None
            assert process.stderr.read() == "\n"
            assert process.wait() == Exit.CANCELLED
            connection.close()
