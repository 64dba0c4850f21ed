from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.authz.actors import SYSTEM, Actor
from millpond.db.session import Database, Tx
from millpond.db.stores.jobs import (
    job_counts,
    job_get,
    job_get_by_name,
    job_insert,
    job_list,
    job_save,
    jobs_blocked_by,
    jobs_get,
    jobs_lock,
    jobs_save,
)
from millpond.db.stores.rows import cursor_read, cursor_write, reachable
from millpond.domain.errors import Conflict, Forbidden, IllegalTransition, InvalidInput, NotFound, Refused
from millpond.domain.jobs import JOB_TRANSITIONS, EndReason, JobState, QueuedAs
from millpond.domain.records import JobRecord
from tests.unit.db.builders import ADMIN, ANN, BOB, EVE, LEAD, NOW, ago, job


def insert(house: Database, *records: JobRecord) -> None:
    for record in records:
        house.run("insert", lambda tx, record=record: job_insert(tx, SYSTEM, record))


def change(house: Database, name: str, actor: Actor = SYSTEM, **more: object) -> JobRecord:
    def work(tx: Tx) -> JobRecord:
        record = replace(jobs_lock(tx, actor, [name])[name], **more)
        job_save(tx, actor, record)
        return record

    return house.run("change", work)


FULL = job(
    7,
    project="lab",
    attempts=3,
    retries_spent=2,
    queued_as=QueuedAs.BACKOFF,
    not_before=ago(-60),
    held=True,
    cancel=True,
    saves_on_signal=True,
    checkpointed=True,
    reason=EndReason.FAILED,
    exit_code=137,
    message="killed: out of memory",
    started_at=ago(10),
    blocked=("j1", "j2"),
)


def test_a_job_comes_back_as_it_went_in(house: Database) -> None:
    insert(house, FULL)
    assert house.run("get", lambda tx: job_get(tx, ANN, "j7")) == FULL


def test_a_save_writes_everything_that_may_change(house: Database) -> None:
    insert(house, job(7, project="lab"))
    changes = {
        name: getattr(FULL, name)
        for name in FULL.__dataclass_fields__
        if name not in {"id", "tenant", "project", "user", "queue", "spec", "submitted_at"}
    }
    change(house, "j7", **changes)
    assert house.run("get", lambda tx: job_get(tx, ANN, "j7")) == FULL


def test_who_may_submit_what(house: Database) -> None:
    house.run("own", lambda tx: job_insert(tx, ANN, job(1)))
    with pytest.raises(Forbidden, match="may not submit as"):
        house.run("other", lambda tx: job_insert(tx, ANN, job(2, user="bob")))
    with pytest.raises(NotFound):
        house.run("elsewhere", lambda tx: job_insert(tx, ANN, job(3, tenant="beta")))


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"queue": "alpha/lab/prod"}, "NO_SUCH_QUEUE"),
        ({"project": "nope"}, "NO_SUCH_PROJECT"),
        ({"tenant": "gamma", "queue": "gamma/batch"}, "NO_SUCH_QUEUE"),
    ],
)
def test_what_does_not_exist_is_refused(house: Database, more: dict[str, str], code: str) -> None:
    with pytest.raises(Refused) as caught:
        insert(house, replace(job(1), **more))
    assert caught.value.reason in {code, "NO_SUCH_TENANT"}
    assert house.run("list", lambda tx: job_list(tx, ADMIN)).items == ()


def test_live_names_are_unique_in_their_project(house: Database) -> None:
    insert(house, job(1, name="same"), job(2, name="same", project="lab"), job(3, name="same", tenant="beta"))
    for clash in (job(4, name="same"), job(5, name="same", project="lab")):
        with pytest.raises(Conflict) as caught:
            insert(house, clash)
        assert caught.value.reason == "NAME_TAKEN"
    change(house, "j1", state=JobState.CANCELLED, finished_at=NOW)
    insert(house, job(4, name="same"))

    def named(project: str | None) -> str:
        return house.run("get", lambda tx: job_get_by_name(tx, ANN, "alpha", project, "same")).id

    assert named("") == "j4"
    assert named("lab") == "j2"
    assert named(None) == "j4"
    change(house, "j4", state=JobState.CANCELLED, finished_at=NOW)
    assert named("") == "j4"
    assert named(None) == "j2"
    with pytest.raises(NotFound):
        house.run("get", lambda tx: job_get_by_name(tx, ANN, "alpha", None, "other"))


def test_tenants_do_not_see_each_other(house: Database) -> None:
    insert(house, job(1), job(2, tenant="beta", user="eve"))
    for actor, seen in ((ANN, {"j1"}), (EVE, {"j2"}), (BOB, {"j1", "j2"}), (ADMIN, {"j1", "j2"})):
        page = house.run("list", lambda tx, actor=actor: job_list(tx, actor))
        assert {record.id for record in page.items} == seen
        found = house.run("some", lambda tx, actor=actor: jobs_get(tx, actor, ["j1", "j2", "j3"]))
        assert set(found) == seen
        locked = house.run("lock", lambda tx, actor=actor: set(jobs_get(tx, actor, ["j1", "j2"])))
        assert locked == seen
    with pytest.raises(NotFound):
        house.run("get", lambda tx: job_get(tx, ANN, "j2"))
    with pytest.raises(NotFound):
        house.run("list", lambda tx: job_list(tx, ANN, tenant="beta"))
    assert house.run("lock", lambda tx: jobs_lock(tx, ANN, ["j2"])) == {}


def test_members_control_only_their_own(house: Database) -> None:
    insert(house, job(1), job(2, user="bob"))
    assert set(house.run("lock", lambda tx: jobs_lock(tx, LEAD, ["j1", "j2"]))) == {"j1", "j2"}
    with pytest.raises(Forbidden, match="their own"):
        house.run("lock", lambda tx: jobs_lock(tx, ANN, ["j1", "j2"]))
    change(house, "j1", ANN, held=True)
    assert house.run("get", lambda tx: job_get(tx, BOB, "j1")).held


def test_filters_and_pages(house: Database) -> None:
    jobs = [
        job(number, user="ann" if number % 2 else "bob", project="lab" if number > 6 else "") for number in range(9)
    ]
    # Equal submit times: the id decides, and no page skips or repeats one.
    insert(house, *(replace(record, submitted_at=ago(number // 3)) for number, record in enumerate(jobs)))
    change(house, "j8", state=JobState.FAILED, finished_at=NOW)

    def ids(**filters: object) -> list[str]:
        found: list[str] = []
        after = ""
        while True:
            page = house.run("list", lambda tx, after=after: job_list(tx, ANN, after=after, limit=2, **filters))
            found += [record.id for record in page.items]
            after = page.next
            if not after:
                return found

    assert ids() == ["j2", "j1", "j0", "j5", "j4", "j3", "j8", "j7", "j6"]
    assert ids(user="ann") == ["j1", "j5", "j3", "j7"]
    assert ids(project="lab") == ["j8", "j7"]
    assert ids(project="") == ["j2", "j1", "j0", "j5", "j4", "j3", "j6"]
    assert ids(states=[JobState.FAILED]) == ["j8"]
    assert ids(states=[JobState.QUEUED], project="lab") == ["j7"]
    assert ids(name="job-4") == ["j4"]
    assert ids(queue="alpha/prod") == []
    with house.statements() as seen:
        house.run("list", lambda tx: job_list(tx, ANN, tenant="alpha", states=[JobState.QUEUED]))
    assert len(seen) == 1


@pytest.mark.parametrize("cursor", ["x", "!!!!", "e30", "MTIzfGox", "2026-01-01", "\x00", "é"])
def test_made_up_cursors_are_refused(house: Database, cursor: str) -> None:
    with pytest.raises(InvalidInput, match="cursor"):
        house.run("list", lambda tx: job_list(tx, ANN, after=cursor))


@pytest.mark.parametrize("limit", [0, -1, 1001])
def test_pages_have_limits(house: Database, limit: int) -> None:
    with pytest.raises(InvalidInput):
        house.run("list", lambda tx: job_list(tx, ANN, limit=limit))


@given(st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=8))])), st.text())
def test_cursors_come_back(moment: object, key: str) -> None:
    try:
        cursor = cursor_write(moment, key)
    except (OverflowError, UnicodeEncodeError):
        return
    assert cursor_read(cursor) == (moment, key)


def test_a_save_without_a_lock_is_a_bug(house: Database) -> None:
    insert(house, job(1))
    with pytest.raises(RuntimeError, match="without having been locked"):
        house.run("save", lambda tx: job_save(tx, SYSTEM, job(1, held=True)))


def test_an_impossible_step_is_a_bug(house: Database) -> None:
    insert(house, job(1))
    change(house, "j1", state=JobState.STARTING)
    change(house, "j1", state=JobState.SUCCEEDED, finished_at=NOW)
    with pytest.raises(IllegalTransition):
        change(house, "j1", state=JobState.QUEUED, finished_at=None)


def test_reachable_is_the_closure_of_the_table() -> None:
    closure = reachable(JOB_TRANSITIONS)
    for state, nexts in JOB_TRANSITIONS.items():
        assert nexts <= closure[state]
        for after in nexts:
            assert closure[after] <= closure[state]
    assert closure[JobState.SUCCEEDED] == frozenset()
    assert JobState.SUBMITTED not in set().union(*closure.values())


def test_a_finished_job_has_its_time(house: Database) -> None:
    insert(house, job(1))
    with pytest.raises(Conflict) as caught:
        change(house, "j1", state=JobState.CANCELLED)
    assert caught.value.details["constraint"] == "ck_jobs_finished_at"


def test_locks_make_changes_one_after_the_other(house: Database) -> None:
    insert(house, job(1), job(2))

    def bump(names: list[str]) -> None:
        for _ in range(10):

            def work(tx: Tx) -> None:
                locked = jobs_lock(tx, SYSTEM, names).values()
                jobs_save(tx, SYSTEM, [replace(record, attempts=record.attempts + 1) for record in locked])

            house.run("bump", work)

    threads = [threading.Thread(target=bump, args=(names,)) for names in (["j1", "j2"], ["j2", "j1"], ["j1", "j2"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [record.attempts for record in house.run("list", lambda tx: job_list(tx, ANN)).items] == [30, 30]


def test_saves_are_told_in_one_round_trip(house: Database) -> None:
    insert(house, *(job(number) for number in range(20)))
    names = [f"j{number}" for number in range(20)]

    def work(tx: Tx) -> None:
        records = jobs_lock(tx, SYSTEM, names).values()
        with house.statements() as seen:
            jobs_save(tx, SYSTEM, [replace(record, message="x") for record in records])
        assert len(seen) == 2

    with house.listen(["millpond_jobs"]) as listener:
        house.run("save", work)
        told: set[str] = set()
        while len(told) < 20:
            notices = listener.wait(5)
            assert notices
            told |= {payload for _, payload in notices}
    assert told == set(names)


def test_many_are_saved_as_they_are(house: Database) -> None:
    insert(house, *(job(number) for number in range(3)))
    texts = ('"quoted", \\ and\nbroken', "{1,NULL}", "\u2028 é 水 \U0001f41f")
    moment = datetime(2026, 3, 1, 23, 59, 59, 999999, tzinfo=timezone(timedelta(hours=5, minutes=45)))

    def save(tx: Tx) -> dict[str, JobRecord]:
        records = jobs_lock(tx, SYSTEM, ["j0", "j1", "j2"])
        changed = {
            name: replace(record, message=text, blocked=(text, "", "NULL"), not_before=moment, exit_code=-9, held=True)
            for (name, record), text in zip(records.items(), texts, strict=True)
        }
        jobs_save(tx, SYSTEM, changed.values())
        return changed

    saved = house.run("save", save)
    assert house.run("get", lambda tx: jobs_get(tx, SYSTEM, saved)) == saved


def test_who_waits_for_whom(house: Database) -> None:
    insert(house, job(1), job(2, blocked=("j1", "j9")), job(3, blocked=("j9",)), job(4))
    assert set(house.run("blocked", lambda tx: jobs_blocked_by(tx, SYSTEM, ["j1"]))) == {"j2"}
    assert set(house.run("blocked", lambda tx: jobs_blocked_by(tx, SYSTEM, ["j9", "j4"]))) == {"j2", "j3"}
    change(house, "j2", blocked=("j9",))
    assert house.run("blocked", lambda tx: jobs_blocked_by(tx, SYSTEM, ["j1"])) == {}


def test_counts_for_metrics(house: Database) -> None:
    insert(house, job(1), job(2), job(3, queue="alpha/prod"))
    change(house, "j3", state=JobState.STARTING)
    change(house, "j2", state=JobState.CANCELLED, finished_at=NOW)
    assert house.run("counts", lambda tx: job_counts(tx, ADMIN)) == {
        ("alpha/batch", JobState.QUEUED): 1,
        ("alpha/prod", JobState.STARTING): 1,
    }
