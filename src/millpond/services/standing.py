"""How every live job stands: ranks of the running ones, and the plan that would be made now.

Planning is the dearest thing that a request can ask for, so requests share it.  On a small pool each one is answered
from the pool as it is then.  On a large one something is always being written, and an answer may be some seconds old:
it says of when it is.  What the caller has just done himself is never missing from it: a request about a job is only
answered from a standing that knows the job as it is now, and waits for a new one otherwise.

The loop that schedules judges the pool after every write and leaves the result for us; a question that has to wait
waits for that.  Where it does not, because another server leads, standings are made here, anew in the background before
the last one is too old.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog

from millpond.admission.admit import Admission
from millpond.authz.actors import SYSTEM
from millpond.db.funds import FundsReader
from millpond.db.stores.world import world_mark
from millpond.db.worlds import Worlds
from millpond.domain.errors import MillpondError, Unavailable
from millpond.domain.records import JobRecord, World
from millpond.scheduling.decisions import Plan, Rank
from millpond.scheduling.desk import Desk, Judged, Judgement
from millpond.scheduling.explain import Explanation
from millpond.scheduling.world import Snapshots, job_make
from millpond.services.deps import Services
from millpond.services.planning import Pool, pool_of
from millpond.services.sharing import Shared

MAX_AGE = timedelta(seconds=2)
"""How long a standing is good when nothing is written: time alone changes little.  On a large pool also when something
is, as far as the caller cannot know of it."""

AGES = 4
"""A standing that took long to make is good for as many times that, lest nothing but standings be made."""

IDLE_AGE, IDLE_AGES = timedelta(seconds=15), 25
"""How long one of the loop's is good when nothing is written, likewise: so often it looks by itself, if it is alive."""

SMALL = 1_000
"""Jobs and nodes up to which an answer misses nothing that was written before it was asked for."""

TRIES = 5
LOOK_S = 0.01
"""Between two looks for what the loop has judged."""

_log = structlog.get_logger("millpond.standing")


@dataclass(frozen=True, slots=True)
class Standing:
    """``judged`` explains; ``ranks`` of what runs; ``used``: milli-cards by dimension before the plan."""

    pool: Pool
    judgement: Judgement

    @property
    def judged(self) -> Judged:
        return self.judgement.judged

    @property
    def plan(self) -> Plan:
        return self.judged.plan

    @property
    def ranks(self) -> Mapping[str, Rank]:
        return self.judged.ranks

    @property
    def used(self) -> Mapping[str, int]:
        return self.judged.used

    def knows(self, jobs: Iterable[JobRecord]) -> bool:
        """Whether these jobs stand in it as they are in the database."""
        by_id = self.pool.by_id
        return all(by_id.get(job.id) == (job if job.finished_at is None else None) for job in jobs)


class Standings:
    """The standing of the pool for every request of one server."""

    def __init__(self, deps: Services, small: int = SMALL) -> None:
        self._deps = deps
        self._small = small
        self._worlds = Worlds(deps.database)
        self._snapshots = Snapshots()
        self._desk = Desk(threading.Lock)
        self._funds = FundsReader()
        self._admission = Admission()
        self._shared: Shared[Standing] = Shared()
        self._own: Standing | None = None
        self._loops: Standing | None = None
        self._renewing = threading.Lock()

    def now(self, jobs: Iterable[JobRecord] = ()) -> Standing:
        """A standing that misses nothing written before this call, or on a large pool nothing about `jobs`.

        `jobs` were read in this request.  Read-only, as others hold it too.
        """
        now = self._deps.clock()
        last = self._last(now)
        if last is None:
            return self._shared.get(self._make)
        if self._large(last.pool.world):
            found = self._large_now(last, now, jobs)
            return found if found is not None else self._shared.get(self._make)
        if now - last.pool.now < MAX_AGE and self._unwritten(last):
            return last
        return self._shared.get(self._make)

    def _large_now(self, last: Standing, now: datetime, jobs: Iterable[JobRecord]) -> Standing | None:
        """The last one, or the loop's next, if either may answer."""
        age, took, loops = now - last.pool.now, last.judgement.took, last is self._loops
        limit, idle = max(MAX_AGE, AGES * took), max(IDLE_AGE, IDLE_AGES * took)
        if last.knows(jobs):
            if age < limit:
                if not loops and 2 * age > limit:
                    self._renew()
                return last
            if loops and age < idle and self._unwritten(last):
                return last
        return self._awaited(now, jobs, limit) if loops and age < idle else None

    def explain(self, job: JobRecord) -> tuple[Standing, Explanation | None]:
        """Why a job waits, and by which standing.  None if it is over by now."""
        for _ in range(TRIES):
            standing = self.now((job,))
            if job.id not in standing.pool.by_id:
                return standing, None
            found = standing.judged.explain(job.id)
            if found is not None:
                return standing, found
        raise Unavailable("the pool changes faster than questions about it can be answered", hint="ask again")

    def offer(self, job: JobRecord) -> tuple[Pool, Explanation]:
        """What a job would be told if it were submitted now, and the pool with it waiting in it.

        Made for this question alone, of the pool as it is now.
        """
        with self._shared.alone():
            made = self._judge(job)
            found = made.judged.explain(job.id)
        if found is None:
            raise RuntimeError("a trial was over before it was asked")
        return _standing(made).pool, found

    def _last(self, now: datetime) -> Standing | None:
        """The newer one of the loop's and our own; none of the future, as after the clock was set back."""
        published, own = self._deps.newest.get(), self._own
        if own is not None and own.pool.now > now:
            own = None
        if published is not None and published.now <= now and (own is None or published.now > own.pool.now):
            loops = self._loops
            if loops is None or loops.judgement is not published:
                self._loops = loops = _standing(published)
            return loops
        return own

    def _awaited(self, now: datetime, jobs: Iterable[JobRecord], limit: timedelta) -> Standing | None:
        """The loop's next standing that may answer: it was told of the write as well, and judges the pool anyway.

        None if there is none for as long as one is good: then the loop has ended, or was not told.
        """
        seen, end = self._loops, time.monotonic() + limit.total_seconds()
        while time.monotonic() < end:
            time.sleep(LOOK_S)
            last = self._last(self._deps.clock())
            if last is not None and last is not seen and (last.pool.now > now or last.knows(jobs)):
                return last
            seen = last
        return None

    def _unwritten(self, last: Standing) -> bool:
        """Whether nothing at all was written since."""
        mark = self._deps.database.run("world_mark", lambda tx: world_mark(tx, SYSTEM), snapshot=True)
        return mark == last.judgement.mark

    def _large(self, world: World) -> bool:
        return len(world.jobs) + len(world.nodes) > self._small

    def _make(self) -> Standing:
        """A new one; one thread at a time."""
        self._own = made = _standing(self._judge())
        return made

    def _judge(self, offered: JobRecord | None = None) -> Judgement:
        """The pool as it is now, with one job more in a trial that is not kept."""
        began, now = time.monotonic(), self._deps.clock()
        read, money = self._worlds.read_also(lambda tx, world: self._funds.read(tx, world, now))
        snapshot = self._snapshots.make(read.world, int(now.timestamp()))
        records, desk = read.world.jobs, self._desk
        if offered is None:
            judged = self._admission.judge(money, snapshot, records, desk.judge, desk.again).judged
        else:
            snapshot = replace(snapshot, jobs=(*snapshot.jobs, job_make(offered, snapshot.now)))
            records = (*records, offered)
            judged = Admission().judge(money, snapshot, records, desk.trial, desk.trial).judged
        return Judgement(read.world, read.mark, now, timedelta(seconds=time.monotonic() - began), judged)

    def _renew(self) -> None:
        """Make a new one in the background, unless that is being done."""
        if self._renewing.acquire(blocking=False):
            threading.Thread(target=self._renewed, name="standing", daemon=True).start()

    def _renewed(self) -> None:
        try:
            self._shared.get(self._make)
        except MillpondError as error:  # whoever asks when it is too old is told
            _log.warning("standing not renewed", error=str(error))
        finally:
            self._renewing.release()


def _standing(judgement: Judgement) -> Standing:
    return Standing(pool_of(judgement.world, judgement.now, judgement.judged.snapshot), judgement)
