import io
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

from millpond.api.schemas.explanations import Reason
from millpond.cli import follow
from millpond.cli.errors import Exit
from millpond.cli.log_writer import LogWriter
from millpond.cli.merge import Item, Merged
from millpond.cli.output import Output
from millpond.cli.texts import Texts
from tests.replay import answers
from tests.replay.calls import CommandLine, use_terminal
from tests.replay.server import Answer, sse

PATH = f"/v1/jobs/{answers.JOB_ID}"
RUN = ("run", "--name", "factor-9", "--", "true")


@pytest.fixture
def following(millpond: CommandLine) -> CommandLine:
    millpond.server.on("POST", "/v1/jobs", Answer(answers.job(), 201))
    millpond.server.on("GET", f"{PATH}/why", answers.explanation())
    millpond.server.on("POST", f"{PATH}/stop", answers.job(cancel=True))
    millpond.server.page("/v1/nodes", answers.node())
    millpond.server.on("GET", "/v1/jobs/factor-9", answers.running())
    millpond.server.stream(f"{PATH}/logs/stream", answers.log("step 1\n"), answers.log("step 2\n"), answers.end())
    return millpond


def changes(millpond: CommandLine, *events: Any) -> None:
    millpond.server.stream(f"{PATH}/stream", *events)


def test_story_in_a_pipe(following: CommandLine) -> None:
    behind = Reason(code="BEHIND", text="it stands behind factor-8", jobs=["jb"])
    changes(
        following,
        answers.change(answers.job(), 2, (answers.QUEUE_CAP,)),
        answers.change(answers.job(), 1, (answers.QUEUE_CAP,)),
        answers.change(answers.job(), 1, (behind,)),
        answers.change(answers.running(state="starting")),
        answers.change(answers.running()),
        answers.change(answers.job(attempts=1, reason="reclaimed", started_at=answers.at(-90)), 1, (behind,)),
        answers.change(answers.running(attempts=2)),
        answers.change(answers.ended()),
    )
    result = following(*RUN)
    assert result.code == Exit.OK
    assert result.out == "step 1\nstep 2\n"
    assert result.err.splitlines() == [
        "factor-9 is submitted to factor/batch",
        "factor-9 waits · QUEUE_CAP: factor/batch may use 40 cards and uses 40; this job needs 8 · expected in 10m",
        "factor-9 waits · BEHIND: it stands behind factor-8 · expected in 10m",
        "factor-9 starts on n1[0-7] (simulated)",
        "factor-9 runs on n1[0-7] (simulated)",
        "factor-9 left its cards (reclaimed) and waits to continue",
        "factor-9 waits · BEHIND: it stands behind factor-8 · expected in 10m",
        "factor-9 runs on n1[0-7] (simulated)",
        "factor-9 succeeded after 1m25s",
    ]
    assert len(following.server.sent("GET", f"{PATH}/why")) == 3


def test_progress_is_one_line_on_a_terminal(following: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    use_terminal(monkeypatch)
    changes(
        following,
        answers.change(answers.job(), 2, (answers.QUEUE_CAP,)),
        answers.change(answers.job(), 1, (answers.QUEUE_CAP,)),
        answers.change(answers.ended()),
    )
    err = following(*RUN).err
    assert "\r\x1b[Kfactor-9 waits · place 2 in factor/batch · QUEUE_CAP" in err
    assert "\r\x1b[Kfactor-9 waits · place 1 in factor/batch · QUEUE_CAP" in err


def test_json_is_one_value_a_line(following: CommandLine) -> None:
    changes(following, answers.change(answers.ended("failed", 1)))
    result = following("--json", *RUN)
    assert result.code == Exit.JOB_FAILED
    assert sorted(json.loads(line)["event"] for line in result.out.splitlines()) == ["end", "job", "log", "log"]
    assert result.err == ""


def test_failure_without_a_code(following: CommandLine) -> None:
    changes(following, answers.change(answers.ended("failed", None, reason="max_duration")))
    result = following(*RUN)
    assert "failed (longest run reached) after 1m25s; see: millpond describe" in result.err


class Interrupted(Merged):
    """Ctrl-C comes before the first items, as often as `times` says."""

    times = 1

    def next(self, timeout: float | None = None) -> Item | None:
        if type(self).times:
            type(self).times -= 1
            raise KeyboardInterrupt
        return super().next(timeout)


class Keyboard(io.StringIO):
    """A terminal where somebody types; ``!`` is Ctrl-C."""

    def isatty(self) -> bool:
        return True

    def readline(self, size: int | None = -1) -> str:
        line = super().readline() if size is None else super().readline(size)
        if line.startswith("!"):
            raise KeyboardInterrupt
        return line


Typing = Callable[[str], None]


@pytest.fixture
def typing(monkeypatch: pytest.MonkeyPatch) -> Typing:
    monkeypatch.setattr(follow, "Merged", Interrupted)
    monkeypatch.setattr(Interrupted, "times", 1)
    return lambda text: monkeypatch.setattr(sys, "stdin", Keyboard(text))


@pytest.mark.parametrize("answer", ["d\n", "\n", "", "!", "x\n"])
def test_ctrl_c_detaches(following: CommandLine, typing: Typing, answer: str) -> None:
    typing(answer)
    changes(following, answers.change(answers.running()))
    result = following(*RUN)
    assert result.code == Exit.OK
    assert f"Back to it: millpond attach {answers.JOB_ID}" in result.err
    assert following.server.sent("POST", f"{PATH}/stop") == []


def test_ctrl_c_stops(following: CommandLine, typing: Typing) -> None:
    typing("s\n")
    changes(following, answers.change(answers.ended("cancelled", 143)))
    result = following(*RUN)
    assert result.code == Exit.CANCELLED
    assert len(following.server.sent("POST", f"{PATH}/stop")) == 1
    assert "(d)etach, (s)top it, (c)ontinue?" in result.err


def test_ctrl_c_and_on(following: CommandLine, typing: Typing) -> None:
    typing("c\n")
    changes(following, answers.change(answers.ended()))
    assert following(*RUN).code == Exit.OK


def test_ctrl_c_without_a_terminal_detaches(following: CommandLine, typing: Typing, monkeypatch: Any) -> None:
    typing("s\n")
    monkeypatch.setattr(sys, "stdin", io.StringIO("s\n"))
    changes(following, answers.change(answers.running()))
    assert "Detached" in following(*RUN).err
    assert following.server.sent("POST", f"{PATH}/stop") == []


def test_attach_never_asks(following: CommandLine, typing: Typing) -> None:
    typing("s\n")
    changes(following, answers.change(answers.running()))
    result = following("attach", "factor-9")
    assert result.code == Exit.OK
    assert "Detached" in result.err


def test_logs_follow_ends_with_the_job(following: CommandLine) -> None:
    changes(following, answers.change(answers.ended("failed", 3)))
    result = following("logs", "-f", "factor-9")
    assert (result.code, result.out) == (Exit.OK, "step 1\nstep 2\n")


def test_a_lost_stream_is_an_error(following: CommandLine) -> None:
    following.server.on("GET", f"{PATH}/stream", Answer({"detail": "no"}, 403))
    assert following(*RUN).code == Exit.REFUSED


def test_ranks_are_kept_apart(capsys: pytest.CaptureFixture[str]) -> None:
    writer = LogWriter(Output(Texts("en"), {}), 2)
    for rank, text in ((0, "a"), (1, "x\ny"), (0, "b\nc\n"), (1, "z")):
        writer.write(rank, text)
    writer.finish()
    assert capsys.readouterr().out == "[1] x\n[0] ab\n[0] c\n[1] yz\n"


def test_one_rank_is_written_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    LogWriter(Output(Texts("en"), {}), 1).write(0, "10%\r20%")
    assert capsys.readouterr().out == "10%\r20%"


def test_wait_for_several(following: CommandLine) -> None:
    for name, state, code in (("a", "succeeded", 0), ("b", "cancelled", None), ("c", "failed", 1)):
        following.server.on(
            "GET", f"/v1/jobs/{name}/stream", sse([answers.change(answers.ended(state, code, name=name))])
        )
    result = following("wait", "a", "b", "c", "--tenant", "factor")
    assert result.code == Exit.CANCELLED
    assert sorted(result.err.splitlines()) == ["a: succeeded", "b: cancelled", "c: failed"]
    assert following.server.requests[0].query == {"tenant": ["factor"]}


def test_wait_until_it_runs(following: CommandLine) -> None:
    changes(following, answers.change(answers.job(), 1), answers.change(answers.running()))
    assert following("wait", answers.JOB_ID, "--for", "started", "--json").code == Exit.OK


def test_wait_gives_up(following: CommandLine) -> None:
    changes(following, answers.change(answers.running()))
    result = following("wait", answers.JOB_ID, "--timeout", "0")
    assert result.code == Exit.JOB_FAILED
    assert "The time is over" in result.err
