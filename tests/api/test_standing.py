"""Answers of a large pool: as good as a fresh one, never without what the caller has done, and never too old."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta

import pytest

from millpond.authz.actors import SYSTEM
from millpond.db.session import Tx
from millpond.db.stores.jobs import job_get, jobs_lock, jobs_save
from millpond.db.worlds import Worlds
from millpond.domain.jobs import JobState
from millpond.domain.records import JobRecord
from millpond.scheduling.desk import Desk, Judgement
from millpond.scheduling.explain import Explainer
from millpond.scheduling.world import snapshot_make
from millpond.services.deps import Services
from millpond.services.standing import AGES, IDLE_AGE, MAX_AGE, Standings
from tests.api.house import House

pytestmark = pytest.mark.postgres


def crowded(house: House, count: int = 4) -> list[JobRecord]:
    """More jobs than `factor` may run, each behind the one before."""
    return [record_of(house, house.submit("eve", f"train-{number}", resources={"gpu": "8"})) for number in range(count)]


def record_of(house: House, job: dict[str, object]) -> JobRecord:
    return house.database.run("job", lambda tx: job_get(tx, SYSTEM, str(job["id"])))


def cancelled(house: House, job: JobRecord) -> None:
    def work(tx: Tx) -> None:
        found = jobs_lock(tx, SYSTEM, [job.id])[job.id]
        jobs_save(tx, SYSTEM, [replace(found, state=JobState.CANCELLED, finished_at=house.clock())])

    house.database.run("cancel", work)


def published(house: House, **more: object) -> Judgement:
    """What a pass of the loop would leave."""
    now, read = house.clock(), Worlds(house.database).read()
    judged = Desk(threading.Lock).judge(snapshot_make(read.world, int(now.timestamp())))
    return replace(Judgement(read.world, read.mark, now, timedelta(), judged), **more)  # type: ignore[arg-type]


def test_answers_are_those_of_a_pool_judged_anew(house: House) -> None:
    standings = Standings(house.services, small=0)
    for number in range(3):
        crowded_more = [
            record_of(house, house.submit("eve", f"job-{number}-{k}", resources={"gpu": "8"})) for k in (0, 1)
        ]
        for job in crowded_more:
            standing, found = standings.explain(job)
            fresh = Explainer(snapshot_make(standing.pool.world, standing.plan.now))
            assert found == fresh.explain(job.id)
            assert standing.plan == fresh.plan
            assert dict(standing.ranks) == dict(fresh.ranks)


def test_what_the_caller_has_just_written_is_known(house: House) -> None:
    standings = Standings(house.services, small=0)
    first, *_ = crowded(house)
    standings.explain(first)
    own = record_of(house, house.submit("eve", "new", resources={"gpu": "8"}))
    _, found = standings.explain(own)
    assert found is not None
    assert found.position == 4 or found.position == 5
    assert house.ask("eve", "POST", f"/v1/jobs/{own.id}/hold").status_code == 200
    _, found = standings.explain(record_of(house, {"id": own.id}))
    assert found is not None
    assert [reason.code.value for reason in found.reasons] == ["HELD"]


def test_a_job_that_has_ended_is_not_explained(house: House) -> None:
    standings = Standings(house.services, small=0)
    first, *_ = crowded(house)
    standings.explain(first)
    cancelled(house, first)
    assert standings.explain(record_of(house, {"id": first.id}))[1] is None


def test_what_others_write_shows_within_the_age_that_is_allowed(house: House) -> None:
    standings = Standings(house.services, small=0)
    first, second, *_ = crowded(house)
    before, _ = standings.explain(second)
    cancelled(house, first)
    assert standings.explain(second)[0] is before
    house.clock.ahead = max(MAX_AGE, AGES * before.judgement.took)
    after, _ = standings.explain(second)
    assert first.id not in after.pool.by_id
    assert after.pool.now > before.pool.now


def test_a_small_pool_misses_nothing(house: House) -> None:
    standings = Standings(house.services)
    first, second, *_ = crowded(house)
    before, _ = standings.explain(second)
    assert standings.explain(second)[0] is before, "nothing was written"
    cancelled(house, first)
    after, _ = standings.explain(second)
    assert first.id not in after.pool.by_id


def test_what_the_loop_has_judged_is_used_as_long_as_it_is_new_enough(house: House) -> None:
    services: Services = house.services
    standings = Standings(services, small=0)
    first, second, *_ = crowded(house)
    services.newest.put(published(house))
    standing, found = standings.explain(second)
    assert standing.judgement is services.newest.get()
    assert found == Explainer(snapshot_make(standing.pool.world, standing.plan.now)).explain(second.id)
    house.clock.ahead = MAX_AGE
    assert standings.explain(second)[0] is standing, "nothing was written"
    cancelled(house, first)
    house.clock.ahead = IDLE_AGE  # the loop is gone, or leads no longer
    own, _ = standings.explain(second)
    assert own.judgement is not services.newest.get()
    assert first.id not in own.pool.by_id


def test_a_question_that_must_wait_waits_for_the_loop(house: House) -> None:
    standings = Standings(house.services, small=0)
    first, *_ = crowded(house)
    house.services.newest.put(published(house))
    standings.explain(first)
    own = record_of(house, house.submit("eve", "new", resources={"gpu": "8"}))
    loop = threading.Timer(0.3, lambda: house.services.newest.put(published(house)))
    loop.start()
    standing, found = standings.explain(own)
    loop.join()
    assert standing.judgement is house.services.newest.get()
    assert found is not None


def test_a_loop_that_judges_no_more_is_not_waited_for_for_ever(house: House) -> None:
    standings = Standings(house.services, small=0)
    first, *_ = crowded(house)
    house.services.newest.put(published(house))
    standings.explain(first)
    own = record_of(house, house.submit("eve", "new", resources={"gpu": "8"}))
    standing, found = standings.explain(own)
    assert standing.judgement is not house.services.newest.get()
    assert found is not None


def test_a_judgement_of_the_future_is_not_trusted(house: House) -> None:
    """The clock was set back since."""
    standings = Standings(house.services, small=0)
    first, *_ = crowded(house)
    house.services.newest.put(published(house, now=house.clock() + timedelta(hours=1)))
    standing, _ = standings.explain(first)
    assert standing.pool.now <= house.clock()


def test_answers_go_on_while_new_standings_are_made(house: House) -> None:
    """Threads that ask all the time, one that writes, and a loop that judges: every answer is whole."""
    standings = Standings(house.services, small=0)
    _, second, *_ = crowded(house)
    wrong: list[str] = []
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            standing, found = standings.explain(second)
            if found is None or found.job != second.id or second.id not in standing.pool.by_id:
                wrong.append(str(found))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    desk, worlds = Desk(threading.Lock), Worlds(house.database)
    for number in range(12):
        house.submit("eve", f"more-{number}", resources={"gpu": "8"})
        now, read = house.clock(), worlds.read()
        judged = desk.judge(snapshot_make(read.world, int(now.timestamp())))
        house.services.newest.put(Judgement(read.world, read.mark, now, timedelta(), judged))
    done.set()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_an_offer_knows_the_pool_as_it_is_and_leaves_no_trace(house: House) -> None:
    standings = Standings(house.services, small=0)
    first, *_ = crowded(house)
    before, _ = standings.explain(first)
    waiting = house.submit("eve", "new", resources={"gpu": "8"})
    offered = replace(record_of(house, waiting), id="offered")
    pool, found = standings.offer(offered)
    assert waiting["id"] in pool.by_id
    assert found == Explainer(pool.snapshot).explain("offered")
    again, told = standings.explain(first)
    assert again is before
    assert told is not None
