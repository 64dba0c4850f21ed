import json
from pathlib import Path
from typing import Any

import pytest

from millpond.cli.errors import Exit
from millpond.cli.job_input import name_make
from tests.replay import answers
from tests.replay.calls import CommandLine
from tests.replay.server import Answer

FILE = """\
name: mine
tenant: factor
nodes: 2
resources: {gpu: "A800:8", cpu: 16}
commands: [python mine.py]
env: [EPOCHS=3, HF_TOKEN]
"""


@pytest.fixture
def job_file(tmp_path: Path) -> str:
    path = tmp_path / "job.yaml"
    path.write_text(FILE)
    return str(path)


@pytest.fixture
def submitting(millpond: CommandLine) -> CommandLine:
    millpond.environ["HF_TOKEN"] = "secret"
    millpond.server.on("POST", "/v1/jobs", Answer(answers.job(), 201))
    millpond.server.on("POST", "/v1/offers", answers.explanation(starts_now=True, reasons=[], ahead=[]))
    return millpond


def body(millpond: CommandLine) -> Any:
    return millpond.server.requests[-1].body


def test_file(submitting: CommandLine, job_file: str) -> None:
    result = submitting("run", "-d", job_file)
    assert (result.code, result.out) == (Exit.OK, answers.JOB_ID + "\n")
    sent = body(submitting)
    assert sent["env"] == ["EPOCHS=3", "HF_TOKEN=secret"]
    assert (sent["tenant"], sent["nodes"], sent["commands"]) == ("factor", 2, ["python mine.py"])


def test_flags_win_over_the_file(submitting: CommandLine, job_file: str) -> None:
    args = ("--gpu", "A800:4", "--nodes", "1", "-e", "EPOCHS=9", "--tenant", "other", "--", "python", "x.py", "a b")
    submitting("run", "-d", job_file, *args)
    sent = body(submitting)
    assert sent["resources"] == {"gpu": "A800:4", "cpu": "16"}
    assert sorted(sent["env"]) == ["EPOCHS=9", "HF_TOKEN=secret"]
    assert (sent["tenant"], sent["nodes"]) == ("other", 1)
    assert sent["commands"] == ["python x.py 'a b'"]


def test_flags_alone(submitting: CommandLine) -> None:
    submitting.environ["MILLPOND_PROJECT"] = "alpha"
    flags = ("--gpu", "0.25", "--queue", "besteffort", "--max-duration", "8h", "--after", "other", "--no-preemptible")
    result = submitting("run", "-d", "--gpu", "1", *flags[:-1], "--", "python", "train.py", "--epochs", "3")
    assert result.code == Exit.OK
    sent = body(submitting)
    assert sent["name"].startswith("train-")
    assert sent["resources"] == {"gpu": "0.25"}
    assert (sent["queue"], sent["max_duration"], sent["project"]) == ("besteffort", "8h", "alpha")
    assert sent["depends_on"] == ["other"]
    assert sent["commands"] == ["python train.py --epochs 3"]


def test_one_word_after_the_dashes_is_a_shell_line(submitting: CommandLine) -> None:
    submitting("run", "-d", "--", "echo $MILLPOND_RANK | tee out")
    assert body(submitting)["commands"] == ["echo $MILLPOND_RANK | tee out"]


def test_command_without_dashes(submitting: CommandLine) -> None:
    submitting("run", "-d", "python", "train.py")
    assert body(submitting)["commands"] == ["python train.py"]


def test_workspace_needs_no_command(submitting: CommandLine) -> None:
    assert submitting("run", "-d", "--type", "workspace", "--name", "w").code == Exit.OK
    assert body(submitting)["type"] == "workspace"


def test_unset_variable(submitting: CommandLine, job_file: str) -> None:
    del submitting.environ["HF_TOKEN"]
    result = submitting("apply", job_file)
    assert result.code == Exit.USAGE
    assert "job.yaml:6:17: env[1]: HF_TOKEN is not set in your environment" in result.err


def test_two_files(submitting: CommandLine) -> None:
    result = submitting("run", "a.yaml", "b.yaml", "--", "x")
    assert result.code == Exit.USAGE
    assert "'a.yaml b.yaml': one file at most" in result.err


def test_offer_needs_only_cards(submitting: CommandLine) -> None:
    result = submitting("offer", "--gpu", "A800:8", "--nodes", "2")
    assert result.code == Exit.OK
    assert "It would start now." in result.out
    assert body(submitting)["resources"] == {"gpu": "A800:8"}
    assert submitting.server.sent("POST", "/v1/jobs") == []


def test_standard_input(submitting: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_text("name: piped\ncommands: [a]\n")
    with path.open(encoding="utf-8") as stream:
        monkeypatch.setattr("sys.stdin", stream)
        result = submitting("apply", "-", "--json", "--key", "once")
    assert json.loads(result.out)["id"] == answers.JOB_ID
    assert body(submitting)["name"] == "piped"
    assert submitting.server.requests[-1].headers["Idempotency-Key"] == "once"


def test_file_that_is_not_text(submitting: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_bytes(b"name: \xff")
    assert "job.yaml:1:7: byte 0xff is not UTF-8" in submitting("apply", str(path)).err


@pytest.mark.parametrize(
    ("command", "stem"),
    [
        (("python", "train.py"), "train"),
        (("python -u src/Fine_Tune.py --x",), "fine-tune"),
        (("A=1", "bash", "-c", "ls"), "ls"),
        (("'unclosed",), "unclosed"),
        (("训练",), "job"),
    ],
)
def test_made_names(command: tuple[str, ...], stem: str) -> None:
    name = name_make(command)
    assert name[:-5] == stem
    assert name != name_make(command)
