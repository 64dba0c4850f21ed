"""What people see: recorded output in both languages, in a pipe and on a terminal.

``MILLPOND_WRITE_GOLDEN=1 pytest tests/golden/cli`` writes the files anew; read the difference before you commit it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.replay import answers
from tests.replay.calls import CommandLine, use_terminal

FOLDER = Path(__file__).parent
JOB = f"/v1/jobs/{answers.JOB_ID}"
CASES = {
    "ps": ("ps",),
    "queue": ("queue",),
    "accuracy": ("queue", "--accuracy"),
    "why": ("why", "factor-9"),
    "describe": ("describe", "factor-9"),
    "nodes": ("nodes",),
    "cards": ("cards",),
    "wrong-command": ("qeue",),
}


def record(millpond: CommandLine) -> None:
    on = millpond.server
    on.on("GET", "/v1/whoami", answers.whoami())
    on.page(
        "/v1/jobs",
        answers.job(),
        answers.running(name="factor-1", id="jb", nodes=2, gpu="A800:4"),
        answers.ended("failed", 137, name="old", id="jc"),
        answers.job(name="later", id="jd", queued_as="held", held=True, gpu="0", milli=0),
    )
    on.on("GET", "/v1/queues", answers.tree())
    on.on("GET", "/v1/queue", answers.pool())
    on.on("GET", "/v1/queues/accuracy", answers.accuracy())
    on.on("GET", "/v1/jobs/factor-9/why", answers.explanation())
    on.on("GET", f"{JOB}/why", answers.explanation())
    waiting = answers.job(attempts=1, reason="reclaimed", exit_code=75, checkpointed=True, started_at=answers.at(-399))
    on.on("GET", "/v1/jobs/factor-9", waiting)
    on.page(f"{JOB}/attempts", answers.attempt())
    on.page(f"{JOB}/events", answers.event("job.submitted"), answers.event("attempt.planned", actor="control"))
    on.page(
        "/v1/nodes",
        answers.node(),
        answers.node("n2", condition="lost", bad_cards={3: "ECC"}, used=0, jobs=0),
        answers.node("login", cards=None, simulated=False, cpu=0, memory=0, used=0, jobs=0, condition="cordoned"),
    )
    on.page(
        "/v1/cards",
        answers.card(),
        answers.card(1, uses=[], used=0, health="quarantined", cause="made on purpose\x1b[2J"),
    )


def check(name: str, text: str) -> None:
    path = FOLDER / f"{name}.txt"
    if os.environ.get("MILLPOND_WRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("case", CASES)
def test_output_in_a_pipe(millpond: CommandLine, case: str, lang: str) -> None:
    record(millpond)
    result = millpond(*CASES[case], "--lang", lang)
    check(f"{case}.{lang}.pipe", result.out + result.err)
    assert "\x1b" not in result.out + result.err


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("case", ["ps", "queue", "why"])
def test_output_on_a_terminal(millpond: CommandLine, monkeypatch: pytest.MonkeyPatch, case: str, lang: str) -> None:
    record(millpond)
    use_terminal(monkeypatch)
    result = millpond(*CASES[case], "--lang", lang)
    check(f"{case}.{lang}.terminal", (result.out + result.err).replace("\x1b", "␛"))


def test_no_color_means_no_colour(millpond: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    record(millpond)
    use_terminal(monkeypatch)
    millpond.environ["NO_COLOR"] = "1"
    assert "\x1b" not in millpond("queue").out
