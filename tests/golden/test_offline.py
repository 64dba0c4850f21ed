"""`plan` and `simulate` as people see them, and what they say about bad files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.scenario_files import FOLDER, command_output

PLAN = """\
ACTION  JOB   QUEUE           RANK            DETAIL
evict   nlp2  nlp/besteffort  -               reclaim for t1, loses 480 card-seconds
evict   nlp3  nlp/besteffort  -               reclaim for t1, loses 960 card-seconds
hold    t1    trade/prod      guaranteed      n7[0-7] n8[0-7] until +1m20s
"""

SUMMARY = """\
QUEUE           STARTED  ENDED  EVICTED  RUN  WAIT  WAIT-P50  WAIT-MAX  LOST
factor/batch          0      0        0    5     0        0s        0s     0
nlp/besteffort        2      3        2    0     0        0s        0s  1520
trade/prod            1      1        0    0     0        5s        5s     0

70.9 % of the cards in use over 1d; 2 evictions, 1520 card-seconds lost
"""


def scenario(name: str) -> str:
    return str(FOLDER / f"{name}.yaml")


def test_plan_in_a_pipe() -> None:
    code, out, err = command_output("plan", scenario("S01-bell"))
    assert (code, err) == (0, "")
    assert out.startswith(PLAN)
    assert "QUEUE_CAP: queue factor/batch uses 40 of at most 40 cards" in out


def test_plan_of_fractions_and_of_nothing(tmp_path: Path) -> None:
    code, out, _ = command_output("plan", scenario("S03"))
    assert code == 0
    assert "start   a    team/batch  borrowed-batch  n1[0]*0.1" in out
    empty = tmp_path / "empty.yaml"
    empty.write_text("nodes: [{name: n1}]\nqueues: [{name: a/batch}]\n")
    assert command_output("plan", str(empty)) == (0, "", "Nothing to do: no job waits.\n")


def test_simulation_in_a_pipe() -> None:
    code, out, err = command_output("simulate", scenario("S01-day"))
    assert (code, err) == (0, "")
    assert out.endswith(SUMMARY)
    assert "+2h10m5s  start    nlp2  n7[0-7], resumes with 8h9m of work done" in out


def test_simulation_in_chinese() -> None:
    code, out, _ = command_output("simulate", scenario("S01-day"), "--lang", "zh")
    assert code == 0
    assert "卡利用率 70.9 %" in out


def test_until_bounds_the_simulation() -> None:
    code, out, _ = command_output("simulate", scenario("S01-day"), "--until", "10m", "--json")
    assert code == 0
    assert '"elapsed":600' in out.splitlines()[-1]
    assert '"event":"requeue"' not in out


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nodes: []\nqueues: [\n", "bad.yaml:3:1: this is not YAML"),
        ("nodes: []\nqueue: []\n", "bad.yaml:2:1: queue: a snapshot has no key 'queue'"),
        (
            "nodes: [{name: n1}]\nqueues: [{name: a/batch, cap: x}]\n",
            "bad.yaml:2:31: queues[0].cap: 'x' is not a valid",
        ),
        ("nodes: [{name: n1}]\n", "bad.yaml:1:1: a snapshot must have queues"),
    ],
)
@pytest.mark.parametrize("command", ["plan", "simulate"])
def test_bad_file_is_exit_code_two_with_line_and_key(
    command: str, text: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.yaml").write_text(text)
    code, out, err = command_output(command, "bad.yaml")
    assert (code, out) == (2, "")
    assert expected in err


@pytest.mark.parametrize("args", [("plan", "nowhere.yaml"), ("simulate", scenario("S10"), "--until", "soon")])
def test_bad_arguments_are_exit_code_two(args: tuple[str, ...]) -> None:
    code, out, err = command_output(*args)
    assert (code, out) == (2, "")
    assert err.endswith(")\n")


def test_quota_warnings_go_to_stderr(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text("nodes: [{name: n1}]\nqueues: [{name: a/batch, deserved: 9}]\n")
    code, out, err = command_output("plan", str(path), "--json")
    assert (code, out) == (0, '{"evict":[],"hold":[],"reshape":[],"start":[],"wait":[]}\n')
    assert err == "warning: the deserved amounts add up to 9 cards, but the pool has 0 cards\n"


SLICES = """\
ACTION   JOB  QUEUE           RANK           DETAIL
reshape  -    -               -              n1[0] into mig-3g.20gb@0 mig-3g.20gb@4
start    j1   nlp/besteffort  opportunistic  n1[0:mig-3g.20gb@4]
start    j2   nlp/besteffort  opportunistic  n1[0:mig-3g.20gb@0]
"""


def test_plan_of_slices_says_how_cards_are_divided() -> None:
    code, out, err = command_output("plan", scenario("S15-two-halves"))
    assert (code, err) == (0, "")
    assert out == SLICES
