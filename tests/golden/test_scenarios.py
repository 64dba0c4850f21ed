"""Scenarios of scheduling §8 through ``millpond plan`` and ``simulate``: exact output, and what each must show."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest

from millpond.files.snapshots import snapshot_load
from millpond.scheduling.check import check
from millpond.scheduling.decisions import plan_bytes
from millpond.scheduling.plan import plan
from millpond.scheduling.snapshot import Snapshot
from tests.golden.scenario_files import FOLDER, SIMULATED, compact, names, plan_output, simulate_output


class Outcome:
    """A plan's JSON, with the questions that scenarios ask."""

    def __init__(self, text: str) -> None:
        self.json: dict[str, Any] = json.loads(text)

    @property
    def started(self) -> set[str]:
        return {item["job"] for item in self.json["start"]}

    @property
    def evicted(self) -> set[str]:
        return {item["job"] for item in self.json["evict"]}

    @property
    def held(self) -> set[str]:
        return {item["for"] for item in self.json["hold"]}

    def rank(self, job: str) -> str:
        rows = [*self.json["start"], *self.json["wait"]]
        return next(row["rank"] for row in rows if row["job"] == job)

    def why(self, job: str) -> str:
        return next(item["why"] for item in self.json["evict"] if item["job"] == job)

    def lost(self, job: str) -> int:
        return next(item["lost_milli_seconds"] for item in self.json["evict"] if item["job"] == job)

    def reason(self, job: str, code: str) -> dict[str, Any]:
        reasons = next(item["reasons"] for item in self.json["wait"] if item["job"] == job)
        return next(reason for reason in reasons if reason["code"] == code)

    def seats(self, job: str) -> list[dict[str, Any]]:
        return [seat for item in self.json["start"] if item["job"] == job for seat in item["placement"]]

    def nodes(self, job: str) -> list[str]:
        return [seat["node"] for seat in self.seats(job)]


def outcome(name: str) -> Outcome:
    return Outcome(plan_output(name))


def events(name: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    lines = [json.loads(line) for line in simulate_output(name).splitlines()]
    return lines[:-1], lines[-1]["summary"]


def times(log: list[dict[str, Any]], kind: str, job: str) -> list[int]:
    return [event["t"] for event in log if (event["event"], event["job"]) == (kind, job)]


@pytest.mark.parametrize("name", names())
def test_plan_is_golden(name: str) -> None:
    assert plan_output(name) == compact((FOLDER / f"{name}.plan.json").read_text())


@pytest.mark.parametrize("name", SIMULATED)
def test_simulation_is_golden(name: str) -> None:
    assert simulate_output(name) == (FOLDER / f"{name}.simulate.jsonl").read_text()


@pytest.mark.parametrize("name", names())
def test_plan_breaks_no_rule(name: str) -> None:
    snapshot = _snapshot(name)
    assert check(snapshot, plan(snapshot)) == ()


@pytest.mark.parametrize("name", SIMULATED)
def test_simulation_breaks_no_rule(name: str) -> None:
    log, _ = events(name)
    assert [event for event in log if event["event"] == "violation"] == []


def test_s01_night_factor_waits_at_its_cap() -> None:
    reason = outcome("S01-night").reason("f6", "QUEUE_CAP")
    assert (reason["limit"], reason["have"], reason["need"]) == (40000, 40000, 8000)


def test_s01_bell_evicts_the_two_nlp_jobs_with_least_lost_work() -> None:
    found = outcome("S01-bell")
    assert found.evicted == {"nlp2", "nlp3"}
    assert found.held == {"t1"}
    assert found.rank("t1") == "guaranteed"


def test_s01_more_firm_work_needs_a_guarantee() -> None:
    found = outcome("S01-more-firm")
    reason = found.reason("t2", "NEEDS_GUARANTEE")
    assert (reason["limit"], reason["have"], reason["need"]) == (16000, 16000, 8000)
    assert found.evicted == set()


def test_s01_more_preemptible_work_is_borrowed_and_evicts_the_last_nlp_job() -> None:
    found = outcome("S01-more-preemptible")
    assert found.rank("t2") == "borrowed-prod"
    assert found.evicted == {"nlp1"}


def test_s01_day_trade_runs_in_time_and_nlp_resumes() -> None:
    log, summary = events("S01-day")
    assert times(log, "start", "t1")[0] - times(log, "arrive", "t1")[0] <= 30
    for job in ("nlp2", "nlp3"):
        requeue = next(event for event in log if (event["event"], event["job"]) == ("requeue", job))
        again = next(event for event in log if (event["event"], event["job"]) == ("start", job))
        assert requeue["submitted"] == -30000
        assert again["t"] == times(log, "end", "t1")[0]
        assert again["resumed_from"] == requeue["saved"] > 28800
    assert summary["queues"]["factor/batch"]["evicted"] == 0


def test_s02_fragmented_pool_evicts_nobody() -> None:
    found = outcome("S02")
    reason = found.reason("big", "FRAGMENTED")
    assert (reason["need"], reason["have"], reason["free"]) == (8000, 5000, 20000)
    assert found.evicted == set()


def test_s03_caps_count_thousandths() -> None:
    found = outcome("S03")
    assert found.started == {"a", "b"}
    reason = found.reason("c", "QUEUE_CAP")
    assert (reason["need"], reason["have"], reason["limit"]) == (1, 300, 300)


def test_s04_only_the_besteffort_half_goes() -> None:
    found = outcome("S04")
    assert found.evicted == {"be"}
    assert found.held == {"claim"}


def test_s05_checkpointed_job_is_cheaper() -> None:
    found = outcome("S05")
    assert found.evicted == {"j1"}
    assert found.lost("j1") == 960_000


def test_s06_whole_gang_is_cheaper_than_the_single() -> None:
    found = outcome("S06")
    assert found.evicted == {"gang"}
    assert found.lost("gang") == 1_600_000
    assert len(found.json["hold"]) == 1


def test_s07_held_cards_are_reserved_and_reach_their_claim() -> None:
    assert outcome("S07").reason("late", "RESERVED_FOR")["jobs"] == ["p"]
    log, _ = events("S07")
    assert times(log, "start", "p") == [15]
    assert times(log, "start", "late")[0] >= times(log, "end", "p")[0]


def test_s09_exactly_the_four_latest_borrowed_jobs_go() -> None:
    found = outcome("S09")
    assert found.evicted == {"b5", "b6", "b7", "b8"}
    assert found.held == {"a1", "a2", "a3", "a4"}


def test_s09_fifth_finds_nothing_below_it() -> None:
    found = outcome("S09-fifth")
    assert found.evicted == set()
    assert found.rank("a5") == "borrowed-batch"
    assert found.reason("a5", "INSUFFICIENT_CARDS")["need"] == 8000


def test_s10_one_eviction_in_the_next_hour() -> None:
    log, _ = events("S10")
    evictions = [event for event in log if event["event"] == "evict" and event["t"] <= 400 + 3600]
    assert [event["job"] for event in evictions] == ["huge"]


def test_s11_priority_decides_inside_a_leaf() -> None:
    found = outcome("S11-higher")
    assert found.evicted == {"low"}
    assert found.why("low") == "preempt"
    equal = outcome("S11-equal")
    assert equal.evicted == set()
    assert equal.reason("high", "QUEUE_CAP")["limit"] == 16000


def test_s12_who_ends_in_time_fills_in_and_the_others_wait() -> None:
    found = outcome("S12")
    assert found.started == {"s1"}
    assert found.reason("s2", "RESERVED_FOR")["jobs"] == ["h"]
    assert found.json["reserve"][0]["time"] == found.reason("s2", "RESERVED_FOR")["until"] == 3600
    log, _ = events("S12")
    assert times(log, "reserve", "h") == [0]
    assert times(log, "start", "h") == [3600]


def test_s13_besteffort_uses_the_cards_and_leaves_in_time() -> None:
    assert outcome("S13").started == {"be"}
    log, _ = events("S13")
    assert times(log, "reserve", "h") == [0]
    assert times(log, "evict", "be") == [3600]
    assert 3600 <= times(log, "start", "h")[0] <= 3620


def test_s14_smallest_island_first_and_no_whole_one_broken() -> None:
    found = outcome("S14")
    assert set(found.seats("two")[0]["cards"]) < {1, 2, 3}
    assert found.seats("four")[0]["cards"] == [4, 5, 6, 7]


def test_s15_seven_slices_on_one_card_and_one_on_the_other() -> None:
    found = outcome("S15-eight")
    nodes = [node for job in found.started for node in found.nodes(job)]
    assert sorted(nodes.count(name) for name in set(nodes)) == [1, 7]


def test_s15_a_3g_leaves_room_for_four_1g() -> None:
    found = outcome("S15-three-and-four")
    assert [seat["slot"] for seat in found.seats("j1")] == [4]
    assert found.started == {"j1", "j2", "j3", "j4", "j5"}
    reason = outcome("S15-fifth").reason("j6", "INSUFFICIENT_CARDS")
    assert (reason["need"], reason["have"]) == (119, 0)


@pytest.mark.parametrize(("name", "count"), [("S15-two-halves", 2), ("S15-three-pairs", 4)])
def test_s15_what_one_card_holds(name: str, count: int) -> None:
    assert len(outcome(name).started) == count


def test_s16_preempted_job_comes_back_as_itself() -> None:
    log, _ = events("S16")
    requeue = next(event for event in log if event["event"] == "requeue")
    again = [event for event in log if (event["event"], event["job"]) == ("start", "train")][1]
    assert requeue["submitted"] == -10
    assert again["resumed_from"] == requeue["saved"] == 900
    assert times(log, "end", "train") == [again["t"] + 3600 - 900]


def test_s17_no_stream_of_small_jobs_starves_a_gang() -> None:
    log, _ = events("S17")
    (head,) = times(log, "arrive", "gang")
    (start,) = times(log, "start", "gang")
    assert times(log, "reserve", "gang") == [head]
    assert start - head <= 600
    assert next(event["time"] for event in log if event["event"] == "reserve") == start


def test_s19_job_of_a_lost_node_runs_elsewhere() -> None:
    assert outcome("S19-node-lost").nodes("was-on-n1") == ["n2"]


def test_s19_quarantined_card_takes_nobody() -> None:
    found = outcome("S19-card-bad")
    cards = [seat["cards"] for item in found.json["start"] for seat in item["placement"]]
    assert cards == [[0, 1, 2, 4, 5, 6, 7]]
    assert found.reason("eight", "INSUFFICIENT_CARDS")


def test_s20_ancestor_cap() -> None:
    reason = outcome("S20").reason("b1", "TENANT_CAP")
    assert (reason["need"], reason["have"], reason["limit"], reason["queue"]) == (8000, 16000, 20000, "team")


def test_s22_elastic_job_takes_what_is_free() -> None:
    assert [item["placement"][0]["milli"] for item in outcome("S22").json["start"]] == [2000]


def test_s23_takes_the_model_that_others_need_less() -> None:
    found = outcome("S23")
    assert (found.nodes("either"), found.nodes("only-a100")) == (["n2"], ["n1"])


def test_s24_one_victim_of_fifteen_beats_two_of_ten() -> None:
    found = outcome("S24")
    assert found.evicted == {"v3"}


def test_s25_lower_priority_goes_first_between_equal_ranks() -> None:
    assert outcome("S25").evicted == {"r2"}


def test_s26_family_jobs_only_leave_for_their_own() -> None:
    found = outcome("S26")
    assert len(found.evicted) == 1
    assert found.evicted <= {"c1", "c2", "c3", "c4", "c5"}
    family = outcome("S26-family")
    assert len(family.evicted) == 1
    assert family.evicted <= {"a1", "a2", "a3"}


@pytest.mark.parametrize("name", ["S01-bell", "S04", "S06", "S09", "S23", "S26"])
def test_s21_shuffled_snapshots_give_identical_bytes(name: str) -> None:
    snapshot = _snapshot(name)
    expected = plan_bytes(plan(snapshot))
    chance = random.Random(name)
    for _ in range(100):
        assert plan_bytes(plan(_shuffled(snapshot, chance))) == expected


def _snapshot(name: str) -> Snapshot:
    return snapshot_load((FOLDER / f"{name}.yaml").read_text(), name).snapshot


def _shuffled(snapshot: Snapshot, chance: random.Random) -> Snapshot:
    return replace(
        snapshot,
        **{
            key: tuple(chance.sample(getattr(snapshot, key), len(getattr(snapshot, key))))
            for key in ("nodes", "queues", "jobs", "holds", "evictions")
        },
    )
