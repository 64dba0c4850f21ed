"""What every engine must do (`millpond.engines.base`), checked against each of them."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from millpond.engines.base import FactKind, Geometry, Lost, Refused, Retry
from tests.conformance.bench import (
    CHECKPOINT,
    CRASH,
    FAIL,
    GANG_FAILS,
    NEVER_READY,
    SAVE,
    SERVE,
    SLEEP,
    STUBBORN,
    SUCCEED,
    TALK,
    Bench,
    FakeBench,
    Scenario,
    ended,
    kinds,
    until,
)

STARTED, READY, EXITED = FactKind.STARTED, FactKind.READY, FactKind.EXITED


@pytest.mark.parametrize(("scenario", "code"), [(SUCCEED, 0), (FAIL, 7), (CRASH, 137)], ids=["ok", "fail", "crash"])
def test_end_by_itself(bench: Bench, attempt: str, scenario: Scenario, code: int) -> None:
    bench.engine.start(bench.order(attempt, scenario))
    last = ended(bench, attempt)
    assert (last.kind, last.code, last.natural) == (EXITED, code, True)
    assert kinds(bench, attempt) == [STARTED, EXITED]


def test_start_is_idempotent_before_and_after_the_end(bench: Bench, attempt: str) -> None:
    order = bench.order(attempt, FAIL)
    bench.engine.start(order)
    bench.engine.start(order)
    ended(bench, attempt)
    bench.engine.start(order)
    bench.look(100)
    assert kinds(bench, attempt) == [STARTED, EXITED]


def test_older_epoch_is_refused(bench: Bench, attempt: str) -> None:
    bench.engine.start(bench.order(f"{attempt}a", SUCCEED, epoch=1))
    # The module's supervisor is shared, so what it has seen may only be passed by a little.
    bench.engine.start(bench.order(f"{attempt}b", SUCCEED, epoch=1))
    with pytest.raises(Refused, match="epoch"):
        bench.engine.start(bench.order(f"{attempt}c", SUCCEED, epoch=0))
    with pytest.raises(Lost):
        bench.engine.signal(f"{attempt}c", "USR1")


def test_kill_at_once(bench: Bench, attempt: str) -> None:
    bench.engine.start(bench.order(attempt, STUBBORN))
    until(bench, attempt, STARTED)
    bench.engine.stop(attempt, 0)
    last = ended(bench, attempt)
    assert (last.kind, last.code, last.natural) == (EXITED, 137, False)


def test_warning_lets_it_save(bench: Bench, attempt: str) -> None:
    bench.engine.start(bench.order(attempt, SAVE))
    until(bench, attempt, STARTED)
    settle(bench)
    bench.engine.stop(attempt, 20_000)
    last = ended(bench, attempt)
    assert (last.code, last.natural) == (75, True)


def test_term_comes_before_kill(bench: Bench, attempt: str) -> None:
    bench.engine.start(bench.order(attempt, SLEEP))
    until(bench, attempt, STARTED)
    settle(bench)
    asked = bench.now_ms()
    bench.engine.stop(attempt, 1200)
    last = ended(bench, attempt)
    assert (last.code, last.natural) == (143, False)
    assert 880 <= last.time_ms - asked < 1200


def test_stubborn_is_killed_at_the_deadline(bench: Bench, attempt: str) -> None:
    bench.engine.start(bench.order(attempt, STUBBORN))
    until(bench, attempt, STARTED)
    settle(bench)
    deadline = bench.now_ms() + 600
    bench.engine.signal(attempt, "USR1", deadline)
    last = ended(bench, attempt)
    assert (last.code, last.natural) == (137, False)
    assert deadline <= last.time_ms < deadline + 1500


def test_earliest_deadline_wins(bench: Bench, attempt: str) -> None:
    bench.engine.start(bench.order(attempt, STUBBORN))
    until(bench, attempt, STARTED)
    settle(bench)
    begun = bench.now_ms()
    bench.engine.signal(attempt, "USR1", begun + 60_000)
    bench.engine.signal(attempt, "USR1", begun + 400)
    bench.engine.signal(attempt, "USR1", begun + 90_000)
    assert begun + 400 <= ended(bench, attempt).time_ms < begun + 5000


def test_signals_to_the_ended_and_the_unknown(bench: Bench, attempt: str) -> None:
    bench.engine.start(bench.order(attempt, SUCCEED))
    ended(bench, attempt)
    bench.engine.signal(attempt, "USR1")
    bench.engine.stop(attempt, 0)
    with pytest.raises(Lost):
        bench.engine.signal(f"{attempt}0", "USR1")
    bench.look(50)
    assert kinds(bench, attempt) == [STARTED, EXITED]


def test_no_such_signal_is_refused(bench: Bench, attempt: str) -> None:
    bench.engine.start(bench.order(attempt, SUCCEED))
    with pytest.raises(Refused, match="NOPE"):
        bench.engine.signal(attempt, "NOPE")
    ended(bench, attempt)


def test_stop_forbids_a_later_start(bench: Bench, attempt: str) -> None:
    bench.engine.stop(attempt, 0)
    last = ended(bench, attempt)
    assert (last.kind, last.code, last.natural) == (EXITED, None, False)
    bench.engine.start(bench.order(attempt, SUCCEED))
    bench.engine.stop(attempt, 0)
    bench.look(100)
    assert kinds(bench, attempt) == [EXITED]


def test_facts_are_numbered_without_gaps_and_repeated_until_passed(bench: Bench, attempt: str) -> None:
    for number in range(5):
        bench.engine.start(bench.order(f"{attempt}{number}", SUCCEED))
    before = bench.facts[-1].sequence if bench.facts else None
    while len([fact for fact in bench.facts if fact.kind is EXITED and fact.attempt.startswith(attempt)]) < 5:
        again = bench.engine.observe(bench.facts[-1].sequence if bench.facts else 0)
        bench.look(500)
        if again.facts:
            assert bench.facts[-1].sequence >= again.cursor
    numbers = [fact.sequence for fact in bench.facts]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert before is None or numbers[0] <= before
    assert bench.engine.observe(numbers[-1]).facts == ()
    assert bench.engine.observe(numbers[-1]).cursor == numbers[-1]


def test_recover_names_what_lives(bench: Bench, attempt: str) -> None:
    bench.engine.start(bench.order(attempt, SLEEP, ranks=2))
    until(bench, attempt, STARTED)
    known = next(status for status in bench.engine.recover() if status.attempt == attempt)
    assert (known.running, known.ranks) == (True, 2)
    bench.engine.stop(attempt, 0)
    ended(bench, attempt)
    assert attempt not in [status.attempt for status in bench.engine.recover()]


def test_logs_by_offset(bench: Bench, attempt: str) -> None:
    bench.engine.start(bench.order(attempt, TALK))
    ended(bench, attempt)
    first = bench.engine.logs(attempt, 0, 0, 4)
    assert (first.data, first.offset) == (b"one\n", 4)
    rest = bench.engine.logs(attempt, 0, first.offset)
    assert (rest.data, rest.offset) == (b"two\n", 8)
    end = bench.engine.logs(attempt, 0, rest.offset)
    assert (end.data, end.offset) == (b"", 8)
    with pytest.raises(Lost):
        bench.engine.logs(f"{attempt}0", 0)


def test_gang_ends_together_with_the_first_failure(bench: Bench, attempt: str) -> None:
    bench.engine.start(bench.order(attempt, GANG_FAILS, ranks=2))
    last = ended(bench, attempt)
    assert (last.code, last.natural) == (3, True)
    assert kinds(bench, attempt) == [STARTED, EXITED]


def test_service_gets_ready(bench: Bench, attempt: str) -> None:
    bench.engine.start(bench.order(attempt, SERVE, ranks=2, service=True, ready_path="/", ready_timeout=20))
    until(bench, attempt, READY)
    bench.engine.stop(attempt, 0)
    ended(bench, attempt)
    assert kinds(bench, attempt) == [STARTED, READY, EXITED]


def test_service_that_never_answers_is_ended(bench: Bench, attempt: str) -> None:
    bench.engine.start(bench.order(attempt, NEVER_READY, service=True, ready_path="/", ready_timeout=1))
    last = ended(bench, attempt)
    assert (last.natural, last.detail) == (False, "not ready in time")
    assert READY not in kinds(bench, attempt)


def test_service_without_a_probe_is_ready_when_started(bench: Bench, attempt: str) -> None:
    bench.engine.start(bench.order(attempt, SLEEP, service=True))
    until(bench, attempt, READY)
    bench.engine.stop(attempt, 0)
    ended(bench, attempt)
    assert kinds(bench, attempt)[:2] == [STARTED, READY]


def test_checkpoints_are_reported(bench: Bench, attempt: str) -> None:
    bench.engine.start(bench.order(attempt, CHECKPOINT))
    assert until(bench, attempt, FactKind.CHECKPOINTED).detail == "checkpoint-1"
    bench.engine.stop(attempt, 0)
    ended(bench, attempt)


def test_lost_node(bench: Bench, attempt: str) -> None:
    bench.engine.start(bench.order(attempt, STUBBORN, ranks=2))
    until(bench, attempt, STARTED)
    bench.engine.fault("n2", None)
    last = ended(bench, attempt)
    assert (last.code, last.natural) == (137, False)
    lost = next(fact for fact in bench.facts if fact.kind is FactKind.NODE_LOST)
    assert (lost.node, lost.attempt) == ("n2", "")
    assert lost.sequence < last.sequence


def test_faulty_card_ends_only_those_on_it(bench: Bench, attempt: str) -> None:
    other = bench.order(f"{attempt}0", SLEEP)
    other = replace(other, ranks=(replace(other.ranks[0], cards=(5,)),))
    bench.engine.start(bench.order(attempt, STUBBORN))
    bench.engine.start(other)
    until(bench, attempt, STARTED)
    until(bench, other.attempt, STARTED)
    bench.engine.fault("n1", 0)
    ended(bench, attempt)
    fault = next(fact for fact in bench.facts if fact.kind is FactKind.CARD_FAULT)
    assert (fault.node, fault.card) == ("n1", 0)
    assert EXITED not in kinds(bench, other.attempt)
    bench.engine.stop(other.attempt, 0)
    ended(bench, other.attempt)


def test_faults_only_where_something_simulated_is(bench: Bench) -> None:
    with pytest.raises(Refused):
        bench.engine.fault("elsewhere", None)
    with pytest.raises(Refused):
        bench.engine.fault("n1", 8)


SEVENTHS = tuple(("1g.10gb", slot) for slot in range(7))


def test_reshape_or_refuse(bench: Bench) -> None:
    if not bench.engine.capabilities().mig:
        with pytest.raises(Refused):
            bench.engine.reshape("n1", 7, SEVENTHS)
        return
    bench.engine.reshape("n1", 7, SEVENTHS)
    bench.engine.reshape("n1", 7, SEVENTHS)
    bench.engine.reshape("n1", 7, (("4g.40gb", 0), ("1g.10gb+me", 4)))
    bench.engine.reshape("n1", 7, ())
    wrong: tuple[Geometry, ...] = (
        (("1g.10gb", 7),), (("1g.5gb", 0),), (("3g.40gb", 0), ("1g.10gb", 3)), (("1g.10gb+me", 0), ("1g.10gb+me", 1)),
    )  # fmt: skip
    for geometry in wrong:
        with pytest.raises(Refused):
            bench.engine.reshape("n1", 7, geometry)
    for node, card in (("elsewhere", 0), ("n1", 8)):
        with pytest.raises(Refused):
            bench.engine.reshape(node, card, SEVENTHS)


def test_slices_are_there_before_and_stay_while_they_are_used(bench: Bench, attempt: str) -> None:
    other = f"{attempt}b"
    first = bench.order(attempt, SLEEP)
    first = replace(first, ranks=(replace(first.ranks[0], cards=(3,), milli=491, slices=("3:3g.40gb@4",)),))
    with pytest.raises(Refused):
        bench.engine.start(first)
    if not bench.engine.capabilities().mig:
        return
    bench.engine.reshape("n1", 3, (("3g.40gb", 4),))
    bench.engine.start(first)
    until(bench, attempt, STARTED)
    bench.engine.start(first)
    with pytest.raises(Retry):
        bench.engine.reshape("n1", 3, SEVENTHS)
    with pytest.raises(Retry):
        bench.engine.reshape("n1", 3, ())
    bench.engine.reshape("n1", 3, (("1g.10gb", 0), ("3g.40gb", 4)))
    second = bench.order(other, SLEEP)
    whole = replace(second, ranks=(replace(second.ranks[0], cards=(3,), milli=1000),))
    with pytest.raises(Retry):
        bench.engine.start(whole)
    bench.engine.stop(attempt, 0)
    ended(bench, attempt)
    bench.engine.start(whole)
    until(bench, other, STARTED)
    with pytest.raises(Retry):
        bench.engine.reshape("n1", 3, SEVENTHS)
    bench.engine.stop(other, 0)
    ended(bench, other)
    bench.engine.reshape("n1", 3, SEVENTHS)
    bench.engine.reshape("n1", 3, ())


def test_exec_beside_a_rank(bench: Bench, attempt: str) -> None:
    bench.engine.start(bench.order(attempt, SLEEP))
    until(bench, attempt, STARTED)
    if bench.engine.capabilities().exec:
        session = bench.engine.exec(attempt, 0, ("sh", "-c", "read line; echo got $line; echo $RANK; exit 5"))
        session.write(b"hello\n")
        output = b""
        while data := session.read(10):
            output += data
        assert (output, session.exit_code()) == (b"got hello\n0\n", 5)
        session.close()
    else:
        with pytest.raises(Refused):
            bench.engine.exec(attempt, 0, ("true",))
    with pytest.raises(Lost):
        bench.engine.exec(attempt, 9, ("true",))
    bench.engine.stop(attempt, 0)
    ended(bench, attempt)


def test_inventory_is_what_was_declared(bench: Bench) -> None:
    assert [(node.name, node.simulated) for node in bench.engine.inventory().nodes] == [("n1", True), ("n2", True)]


def settle(bench: Bench) -> None:
    """A shell needs a moment after its start to set its traps; nothing outside can see when."""
    if not isinstance(bench, FakeBench):
        time.sleep(0.25)
