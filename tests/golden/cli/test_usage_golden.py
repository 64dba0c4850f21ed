"""What `millpond usage` shows: sums, what was lost, contradictions, nothing, one job; in both languages."""

from __future__ import annotations

import json

import pytest

from millpond.cli.errors import Exit
from tests.golden.cli.test_cli_golden import check
from tests.replay import answers
from tests.replay.calls import CommandLine, use_terminal

JOB = f"/v1/usage/jobs/{answers.JOB_ID}"
CASES = {
    "usage": ("usage",),
    "usage-job": ("usage", "--attempts", answers.JOB_ID),
    "usage-alarms": ("usage", "--alarms"),
    "usage-empty": ("usage",),
    "usage-never": ("usage",),
    "usage-jobs": ("usage", "--by", "job"),
}


def record(millpond: CommandLine, case: str = "usage") -> None:
    on, used = millpond.server, answers.used
    nothing = used("0.0000", attempts=0)
    rows = (used("12.5000", "1.2500", 7, tenant="factor", project=""), used("3.0000", tenant="trade", project="risk"))
    sums = answers.usage("project", used("15.5000", "1.2500", 8), *rows, alarms=2)
    owner = {"tenant": "factor", "project": "alpha", "user": "chen", "sku": "A800-80GB", "klass": "batch"}
    jobs = (used("8.0000", job=answers.JOB_ID, name="factor-9", **owner), used("0.2500", job="jb", name="", **owner))
    pages = {
        "usage-empty": answers.usage("project", nothing),
        "usage-never": answers.usage("project", nothing, counted=False),
        "usage-jobs": answers.usage("job", used("8.2500", attempts=2), *jobs),
    }
    on.on("GET", "/v1/usage", pages.get(case, sums))
    running = {"ended_at": None, "reason": None, "lost": False, "end_event": None, "lost_card_hours": "0.0000"}
    attempts = (
        answers.usage_attempt(1),
        answers.usage_attempt(2, disputed=True, lost_milli_card_seconds=0, started_at=answers.at(-600), **running),
    )
    on.on("GET", JOB, answers.usage_of_job(*attempts, total=used("16.0000", "1.0000", 2)))
    on.page("/v1/usage/alarms", answers.usage_alarm(), answers.usage_alarm(code="GAP", text="an end without a start"))


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("case", CASES)
def test_output_in_a_pipe(millpond: CommandLine, case: str, lang: str) -> None:
    record(millpond, case)
    result = millpond(*CASES[case], "--lang", lang)
    check(f"{case}.{lang}.pipe", result.out + result.err)
    assert "\x1b" not in result.out + result.err


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_output_on_a_terminal(millpond: CommandLine, monkeypatch: pytest.MonkeyPatch, lang: str) -> None:
    use_terminal(monkeypatch)
    record(millpond)
    result = millpond("usage", "--lang", lang)
    check(f"usage.{lang}.terminal", result.out + result.err)


def test_json_is_the_answer_with_all_pages_in_one(millpond: CommandLine) -> None:
    record(millpond)
    found = json.loads(millpond("usage", "--json").out)
    assert [row["card_hours"] for row in found["items"]] == ["12.5000", "3.0000"]
    assert (found["total"]["card_hours"], found["next"]) == ("15.5000", "")
    assert json.loads(millpond("usage", "--attempts", answers.JOB_ID, "--json").out)["attempts"][1]["disputed"] is True
    assert len(json.loads(millpond("usage", "--alarms", "--json").out)["items"]) == 2


@pytest.mark.parametrize(
    "args",
    [
        ("--attempts", "j", "--alarms"),
        ("--attempts", "j", "--month", "2026-11"),
        ("--csv", "--json"),
        ("--by", "cards"),
    ],
)
def test_what_does_not_go_together_is_a_usage_error(millpond: CommandLine, args: tuple[str, ...]) -> None:
    result = millpond("usage", *args)
    assert (result.code, result.out) == (Exit.USAGE, "")
    assert result.err
