"""Reservations judged a second time (scheduling §5): that they are true, the earliest possible, and that nobody who
came after is in their way.

The end of everybody who runs is worked out anew here.  Ranks in the middle of a pass are not known, so a reservation
counts as false only if it is so by the ranks before the pass and by those after it.
"""

from __future__ import annotations

from collections.abc import Iterator

from millpond.domain.queues import queue_tenant
from millpond.scheduling.check_book import Use
from millpond.scheduling.check_idle import Idle
from millpond.scheduling.check_world import World, load_of, places_of
from millpond.scheduling.decisions import Rank, Reservation, Violation
from millpond.scheduling.snapshot import Job, RunState


def laters(world: World) -> list[Later]:
    """Every reservation of a plan."""
    return [Later(world, found) for found in world.plan.reservations]


class Later:
    """The pool at the time of a reservation, if nobody else comes."""

    def __init__(self, world: World, found: Reservation) -> None:
        self.world, self.found, self.model = world, found, found.model
        self.use = world.book.use(world.jobs[found.job], found.seats, world.snapshot.now)
        self._views = list(_views(world))
        self._claims = [self._claim(view) for view in self._views]
        self._ranks: list[dict[str, dict[str, Rank]]] = [{} for _ in self._views]

    # -- who is gone by then

    def end(self, use: Use) -> int:
        """When somebody is over by what is declared; never (a very late moment) if it should be gone already."""
        world, job, now = self.world, use.job, self.world.snapshot.now
        limit = max(1, world.snapshot.settings.assumed_limit)
        waits = job.state is RunState.QUEUED  # who moves has a hold beside the cards that it leaves
        if job.id in world.evicted and not waits:
            return world.evicted[job.id].deadline
        if job.id in world.holds and waits:
            return self._held_until(job) + (limit if job.max_duration is None else job.max_duration)
        if job.state is RunState.DRAINING:
            until = now + job.grace if job.until is None else job.until
            if until >= now:
                return max(until, now + 1)
        started = now if job.id in world.starts else job.submitted if job.started is None else job.started
        if job.max_duration is not None and job.state is not RunState.DRAINING:
            return max(started + job.max_duration, now + 1)
        return started + ((now - started) // limit + 1) * limit

    def _held_until(self, job: Job) -> int:
        known = {hold.job: hold.until for hold in self.world.snapshot.holds}
        known |= {hold.job: hold.until for hold in self.world.plan.hold}
        return known[job.id]

    def remaining(self, time: int, view: int, *, surely: bool = False) -> list[Use]:
        """Who is still there at a time and may not be evicted then, by the ranks of one view.

        ``surely``: only those may be evicted who may beyond doubt, and nobody for whom this very plan holds cards.
        """
        world = self.world
        there = [*world.running.values(), *world.starts.values(), *world.holds.values()]
        safe = {hold.job for hold in world.plan.hold} if surely else set()
        return [
            use
            for use in there
            if self.end(use) > time and (use.job.id in safe or not self.may_evict(use, time, view, surely=surely))
        ]

    def may_evict(self, use: Use, time: int, view: int, *, surely: bool = False) -> bool:
        """Whether the reserved job may evict somebody at a time (§3, `min_runtime` and cool-down included).

        ``surely``: with the rank that it has while nobody of its leaf makes room for it.
        """
        victim, claim, world = use.job, self.use.job, self.world
        if not victim.preemptible or victim.state is RunState.DRAINING:
            return False
        if victim.id in world.evicted and victim.state is RunState.RUNNING:
            return False
        high = self._claims[view][surely]
        low = self._rank(use, view)
        if victim.queue == claim.queue:
            behind = (claim.preemptible, -claim.priority) < (victim.preemptible, -victim.priority)
            allowed = behind and low >= high
        else:
            family = low is Rank.FAMILY and high is not Rank.GUARANTEED and use.tenant != self.use.tenant
            allowed = low > high and not family
        return allowed and self._unprotected(use, high) <= time

    def _unprotected(self, use: Use, high: Rank) -> int:
        """From when on nothing protects somebody from this claim but its rank."""
        world, settings = self.world, self.world.snapshot.settings
        now = world.snapshot.now
        if high < Rank.BORROWED_PROD:
            return now
        since = now if use.job.started is None or use.job.id in world.starts else use.job.started
        if use.job.id in world.holds:
            since = max(now, self._held_until(use.job))
        pairs = [(past.claimant, past.victim, past.time) for past in world.snapshot.evictions if past.borrowed]
        jobs = world.jobs
        pairs += [(jobs[e.claimant].queue, jobs[e.job].queue, now) for e in world.plan.evict if e.borrowed]
        cool = [t + settings.cooldown for a, b, t in pairs if (a, b) == (self.use.job.queue, use.job.queue)]
        return max([now, since + settings.min_runtime, *cool])

    # -- ranks

    def _claim(self, view: list[Use]) -> tuple[Rank, Rank]:
        """The best rank of the claim, with those of its leaf behind it taken out; and as things stand."""
        claim = self.use.job
        mine = [use for use in view if use.tenant == self.use.tenant]
        ahead = [
            use
            for use in mine
            if use.job.queue != claim.queue
            or (use.job.preemptible, -use.job.priority) <= (claim.preemptible, -claim.priority)
        ]
        stands, most = (self.world.book.ranks(uses, self.use)[claim.id] for uses in (mine, ahead))
        return min(stands, most), stands

    def _rank(self, use: Use, view: int, *, claim: bool = False) -> Rank:
        """The rank of somebody; as a claim if it is asked for so, or not yet there in that view."""
        uses = [
            other for other in self._views[view] if other.tenant == use.tenant and not (claim and self._is(other, use))
        ]
        known = {} if claim else self._ranks[view].get(use.tenant)
        if known is None:
            known = self._ranks[view][use.tenant] = self.world.book.ranks(uses)
        return known[use.job.id] if use.job.id in known else self.world.book.ranks(uses, use)[use.job.id]

    @staticmethod
    def _is(one: Use, other: Use) -> bool:
        return one.job.id == other.job.id

    # -- what follows

    def idle(self) -> Idle:
        """What is idle at the time, by the ranks of the view that leaves least."""
        return min(
            (self._idle(self.found.time, view) for view in range(len(self._views))), key=lambda idle: idle.free_cards()
        )

    def _idle(self, time: int, view: int) -> Idle:
        return Idle(self.world, self.remaining(time, view))

    def binds(self, job: Job, model: str, *, surely: bool = False, time: int | None = None) -> bool:
        """Whether a job has to stay off, by the ranks of some view; ``surely``: of every view.

        ``time``: when the cards are needed; by default as the reservation says.
        """
        now, time = self.world.snapshot.now, self.found.time if time is None else time
        if job.id == self.use.job.id or (job.max_duration is not None and now + job.max_duration <= time):
            return False
        milli = self.world.book.milli(job, model)
        use = Use(job, (), milli, self.world.book.counts_in(model), queue_tenant(job.queue), (True, 0, now, job.id))
        found = (
            self._rank(use, view, claim=True) >= self._claims[view][1]
            and not self.may_evict(use, time, view, surely=not surely)
            for view in range(len(self._views))
        )
        return all(found) if surely else any(found)

    def wrong(self) -> str:
        """What is wrong with the reservation itself; empty if it is true."""
        job = self.use.job
        count = len({seat.node for seat in self.use.seats})
        if count != job.nodes or self.use.milli != self.world.book.milli(job, self.model):
            return f"{count} nodes and {self.use.milli} milli-cards are not what it asks for"
        if self.found.time <= self.world.snapshot.now:
            return "its time is over"
        found = ""
        for view in range(len(self._views)):
            found = self._wrong(view)
            if not found:
                return ""
        return found

    def _wrong(self, view: int) -> str:
        load = load_of(self.remaining(self.found.time, view))
        for place, milli in places_of(self.use).items():
            if load[place] + milli > 1000:
                return f"card {place[1]} of {place[0]} is not free then"
        return ""

    def early(self, without: Use | None = None) -> bool:
        """Whether the job would fit a second earlier by every view, if somebody were not there."""
        before = self.found.time - 1
        if before <= self.world.snapshot.now:
            return False
        return all(
            self.model
            in Idle(
                self.world, [use for use in self.remaining(before, view, surely=True) if use is not without]
            ).models(self.use.job)
            for view in range(len(self._views))
        )


def reservations(world: World) -> Iterator[Violation]:
    """Reservations are true and the earliest, and stand where they must."""
    if any(not queue.lend for queue in world.snapshot.queues):
        return
    waiting = {wait.job for wait in world.plan.wait} - world.holds.keys()
    found = [later for later in laters(world) if later.use.job.id in waiting]
    for name in sorted({item.job for item in world.plan.reservations} - waiting):
        yield Violation("reservation-false", f"cards are reserved for {name}, which does not wait for any", (name,))
    for later in found:
        name, wrong = later.use.job.id, later.wrong()
        if wrong:
            yield Violation("reservation-false", f"what is reserved for {name}: {wrong}", (name,))
        elif not later.use.job.require:
            if later.early():
                yield Violation("reservation-late", f"{name} would fit before the time reserved for it", (name,))
            yield from _delayed(world, later)


def _delayed(world: World, later: Later) -> Iterator[Violation]:
    """Starts that surely came after the reserved job and push its time back."""
    job, settings = later.use.job, world.snapshot.settings
    if settings.hold_back and job.submitted + settings.hold_back_for > world.snapshot.now:
        return  # it may have been held back while others went first, and have got its reservation afterwards
    held = {hold.job for hold in world.snapshot.holds}
    for use in (use for name, use in world.starts.items() if name not in held):
        other = use.job
        order = (-other.priority, other.submitted, other.id) > (-job.priority, job.submitted, job.id)
        pushes = (other.preemptible, -other.priority) < (job.preemptible, -job.priority)
        behind = other.queue == job.queue and order and not pushes
        if not behind or not later.binds(other, later.model, surely=True, time=later.found.time - 1):
            continue
        if later.end(use) > later.found.time - 1 and later.early(without=use) and not world.evicted:
            text = f"{other.id} starts on cards that are reserved for {job.id}"
            yield Violation("reservation-taken", text, (other.id, job.id))


def _views(world: World) -> Iterator[list[Use]]:
    """Who is ranked: before the pass, and after it."""
    there = [use for use in world.running.values() if use.job.state is RunState.RUNNING]
    yield [*there, *world.old_holds.values()]
    still = [use for use in there if use.job.id not in world.leaving]
    yield [*still, *world.holds.values(), *world.starts.values()]
