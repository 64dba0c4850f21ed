"""One planning pass: a snapshot in, a plan out that leaves nothing to choose (scheduling, all of it).

Jobs are judged in order (§5).  One that fits starts; one that does not may evict (§3) and then holds its cards (§4);
the others wait, with every reason that binds when the pass is over.
"""

from __future__ import annotations

from millpond.domain.reasons import Code, Reason
from millpond.scheduling.consolidate import moves_find
from millpond.scheduling.decided import ROUNDS, Decided
from millpond.scheduling.decisions import Plan, Rank, Wait
from millpond.scheduling.fit import ask_make
from millpond.scheduling.idle import idle_find
from millpond.scheduling.limits import Limits
from millpond.scheduling.masks import bound_key
from millpond.scheduling.options import Options
from millpond.scheduling.order import job_rank
from millpond.scheduling.overtaken import overtaken
from millpond.scheduling.preempt import Eviction, eviction_find
from millpond.scheduling.quota import Queue
from millpond.scheduling.reasons import (
    behind_reason,
    blocked_reasons,
    held_back_reason,
    overtaken_reason,
    preempting_reason,
    reserved_reason,
)
from millpond.scheduling.regroup import Regrouping, regrouping_find, spot_again
from millpond.scheduling.reshape import reshapes
from millpond.scheduling.snapshot import Job, Snapshot
from millpond.scheduling.state import State
from millpond.scheduling.tasks import Kind, Task, behind, claim_key
from millpond.scheduling.waiting import Group


def plan(snapshot: Snapshot) -> Plan:
    """The plan for a snapshot; equal snapshots give equal plans, whatever the order of their lists."""
    state = State(snapshot)
    options = Options(state)
    return Pass(state, options, Limits(state, options)).run()


class Pass(Decided):
    """The making of one plan."""

    # -- the pass

    def run(self, *, waits: bool = True) -> Plan:
        """The plan; ``waits`` false leaves out who waits and why, where that changes nothing else."""
        freed = self.state.freed
        self._judge_all()
        kept = [one.serial for one in self.state.kept]
        self._reserve_again()
        if self.state.settings.consolidate_after is not None and self._consolidate():
            self._reserve_again()
        reasons: dict[str, tuple[Reason, ...]] = {}
        if waits or self.relieved or freed != self.state.freed or kept != [one.serial for one in self.state.kept]:
            reasons = self._judge_again(waits=waits)
        if waits:
            reasons |= self._overtaken(reasons)
        return self._plan(self._wait_list(reasons) if waits else ())

    def brief(self) -> Plan | None:
        """The plan without those who wait; None where somebody lost his place or moves: then everybody is judged."""
        if self.state.settings.hold_back:
            return None
        freed = self.state.freed
        self._judge_all()
        kept = [one.serial for one in self.state.kept]
        self._reserve_again()
        if freed != self.state.freed or self.relieved or self.unsure or self._movable():
            return None
        if kept != [one.serial for one in self.state.kept]:
            self._idle_again()
        return None if freed != self.state.freed or self.relieved or self.unsure else self._plan(())

    def _plan(self, wait: tuple[Wait, ...]) -> Plan:
        return Plan(
            now=self.state.now,
            start=tuple(self.starts.values()),
            evict=tuple(self.evicts),
            hold=tuple(self.held.values()),
            wait=wait,
            drop_holds=tuple(sorted(self.dropped)),
            reservations=self.reserves.plan(),
            reshape=reshapes(self.state, self.starts.values()),
        )

    def _reserve_again(self) -> None:
        """Reservations as they are when everybody has been judged."""
        self.reserves.refresh(self.state.jobs[name] for name in self.waiting if self._lacks(name))

    def _movable(self) -> bool:
        """Whether somebody would be moved for one for whom cards are reserved."""
        if self.state.settings.consolidate_after is None:
            return False
        return any(moves_find(self.state, kept) is not None for kept in self.state.kept)

    def _consolidate(self) -> bool:
        """Move jobs together for those for whom cards are reserved, where that is worth it (§5)."""
        moved = False
        for kept in list(self.state.kept):
            found = moves_find(self.state, kept)
            if found is None:
                continue
            moved = True
            for task in found.tasks:
                self._drain(task, kept.job, kept.leaf, kept.rank, "consolidate")
            self.reserves.settled(kept.job)
            self._hold(kept.job, kept.rank, found.seats, {task.id for task in found.tasks})
            for task, seats in found.spots:
                self._hold_moved(task, seats)
        return moved

    def _judge_again(self, *, waits: bool) -> dict[str, tuple[Reason, ...]]:
        """Judge again who turns out to have no reason to wait.  Returns why the others do, if ``waits`` asks for it."""
        found = self._waits() if waits else {}
        for _ in range(ROUNDS):
            relieved, self.relieved = self.relieved, False
            free = [
                job_id
                for job_id in self.waiting
                if self._idle(job_id, found.get(job_id)) or (relieved and self._able(job_id))
            ]
            if not free:
                break
            for job_id in free:
                self.waiting.pop(job_id)
                self.behind.pop(job_id, None)
                self.order.back(self.state.jobs[job_id])
            self._judge_all()
            self._reserve_again()  # what was reserved for one who starts now goes to the next
            found = self._waits() if waits else {}
        return found

    def _idle_again(self) -> None:
        """Judge again who turns out to have no reason to wait, where equals were passed."""
        for _ in range(ROUNDS):
            able, self.relieved = self._able if self.relieved else None, False
            jobs, leaves = idle_find(self.state, self.limits, self.order, able)
            if not (jobs or leaves):
                break
            for job in jobs:
                self.waiting.pop(job.id, None)
                self.order.back(job)
            for leaf in leaves:
                self.order.reopen(leaf)
            self._judge_all()
            self._reserve_again()

    def _idle(self, job_id: str, known: tuple[Reason, ...] | None) -> bool:
        """Whether a job waits for nothing; ``known`` are its reasons where they have been asked for."""
        if job_id in self.behind:
            return self._released(job_id)
        if job_id in self.held or job_id in self.window.held:
            return False
        return not (self._reasons(self.state.jobs[job_id]) if known is None else known)

    def _able(self, name: str) -> bool:
        """Whether a job that was judged in vain would get cards if it were judged now."""
        if not self._lacks(name):
            return False
        job = self.state.jobs[name]
        return self.options.start(job) is not None or self._eviction(job) is not None

    def _lacks(self, name: str) -> bool:
        """Whether a waiting job has been judged and has got no cards."""
        return name not in self.held and name not in self.behind and name not in self.window.held

    def _judge_all(self) -> None:
        self._judge_queued()
        while self.window.held and self._let_go():
            self._judge_queued()

    def _judge_queued(self) -> None:
        while (job := self.order.take()) is not None:
            rank = job_rank(self.state, job)
            self.reserves.rank_begin(rank)
            if self._judge(job) or (job.id in self.displaced and self._retake(job)):
                self.relieved |= self.reserves.settled(job) and any(job.id in names for names in self.barred.values())
                self._elder_first(job)
                continue
            self.waiting[job.id] = rank
            if job.id in self.window.held:
                continue
            self._miss(job)
            self.reserves.blocked(job)
            leaf = self.state.leaf(job)
            if leaf.fifo:
                self._close(job, leaf)
                continue
            regroups = rank is Rank.GUARANTEED and self.state.settings.regroup_after is not None
            if not (regroups or self.reserves.again(job)):
                self.order.failed(job)  # else its equals may have waited long enough to have others moved

    def _close(self, job: Job, leaf: Queue) -> None:
        """Nobody of a first-in-first-out leaf goes before its head, which waits."""
        for later in self.order.close(leaf, job):
            self.waiting[later.id] = job_rank(self.state, later)
            self.behind[later.id] = job.id
        if job.id in self.displaced:  # somebody after it may have been the head in its absence
            self.unsure = True
            for name in self.waiting:
                other = self.state.jobs[name]
                if other.queue == job.queue and self._lacks(name) and claim_key(other) > claim_key(job):
                    self.behind[name] = job.id
                    self.reserves.settled(other)

    def _judge(self, job: Job) -> bool:
        """Start a job or hold cards for it; False if it waits."""
        found = self.options.start(job)
        if found is not None and self.window.wants(job, *found):
            if not self.window.put(job):
                return False
            self._let_go(job)
            if job.id in self.starts or job.id in self.window.held:
                return job.id in self.starts
            found = self.options.start(job)
        if found is not None:
            self._seat(job, *found)
            return True
        barred = self.options.barred
        eviction = self._eviction(job)
        if eviction is not None:
            self._evict(job, eviction)
            return True
        regrouping = self._regrouping(job)
        if regrouping is not None:
            self._evict(job, regrouping.eviction, regrouping.moved)
            for task, seats in regrouping.spots:
                spot = spot_again(self.state, task, seats)
                if spot is not None:
                    self._hold_moved(task, spot)
            return True
        if barred:
            self.barred[job.id] = [kept.job.id for kept in barred]
        return False

    def _eviction(self, job: Job) -> Eviction | None:
        """Who leaves for a job; None if nobody may, which is remembered until something changes."""
        state, group = self.state, self.state.group(job)
        kept = bound_key(state, job, group.ask)
        moment = (state.version, state.now if state.protecting else 0, *kept)
        if group.unevicted == moment or not self.options.permitted(job, group.ask):
            return None
        found = eviction_find(state, job, group.ask)
        if found is None:
            group.unevicted = moment
        return found

    def _regrouping(self, job: Job) -> Regrouping | None:
        """Who moves for a guaranteed claim whose cards are scattered; None if nobody may."""
        if self.state.settings.regroup_after is None:
            return None
        ask = self.state.group(job).ask
        return regrouping_find(self.state, job, ask) if self.options.permitted(job, ask) else None

    def _let_go(self, judged: Job | None = None) -> bool:
        """Start those who are held back and gain enough by now, or are too many.

        Who no longer fits is judged again, if he is not just being ``judged``; True if that is somebody.
        """
        while (turn := self.window.take()) is not None:
            job, place = turn
            self.waiting.pop(job.id, None)
            self._seat(job, *place)
            self.reserves.settled(job)
        lost = [job for job in self.window.lose() if job is not judged]
        for job in lost:
            self.waiting.pop(job.id, None)
            self.order.back(job)
        return bool(lost)

    # -- who goes first

    def _retake(self, job: Job) -> bool:
        """Whether one who has lost his place in this pass gets that of somebody who comes after him in his leaf.

        Else later jobs would pass him only because he was judged before them.  The last of those like him in whose
        place he fits gives it up, as if it had been chosen in his stead.  Where the leaf is first in, first out,
        everybody does who comes after him, but for those who might push him out.  They are judged again, after him.
        """
        state, leaf = self.state, self.state.leaf(job)
        later = [task for task in state.leaf_tasks[leaf] if self._after(task, job)]
        later.sort(key=lambda task: claim_key(task.job), reverse=True)
        alike, tried = state.group(job).alike, set[Group]()
        for task in later:
            group = state.group(task.job)
            if group.alike == alike and group not in tried:
                tried.add(group)
                if self._give_way(task, job):
                    return True
        if leaf.fifo:
            for task in later:
                if task.kind is Kind.PLACED and not behind(job, task.job):
                    state.remove(task)
                    self._displace(task)
        return leaf.fifo and self._start(job)

    def _miss(self, job: Job) -> None:
        """Remember the first that waits of those that are alike."""
        alike = self.state.group(job).alike
        first = self.missed.get(alike)
        if first is None or claim_key(job) < claim_key(first):
            self.missed[alike] = job

    def _elder_first(self, job: Job) -> None:
        """What a job has got goes to one like it that was judged before it in vain: room may have come in between."""
        alike, key = self.state.group(job).alike, claim_key(job)
        first = self.missed.get(alike)
        if first is None or claim_key(first) > key:
            return
        if first is job:
            del self.missed[alike]
        elif self._lacks(first.id) and first.id not in self.state.tasks:
            self.unsure = True
            jobs = (self.state.jobs[name] for name in self.waiting if self._lacks(name))
            earlier = [one for one in jobs if claim_key(one) < key and self.state.group(one).alike == alike]
            heirs = {self.state.group(one): one for one in sorted(earlier, key=claim_key, reverse=True)}
            heir = next((one for one in sorted(heirs.values(), key=claim_key) if self._inherit(job, one)), None)
            if heir is first:
                del self.missed[alike]

    def _inherit(self, job: Job, heir: Job) -> bool:
        """Whether one that waits can do with what a job has got."""
        if not self._give_way(self.state.tasks[job.id], heir):
            return False
        if heir.id not in self.held:
            self.waiting.pop(heir.id)
        self.reserves.settled(heir)
        return True

    def _after(self, task: Task, job: Job) -> bool:
        """Whether a task has got its place in this pass and comes after a job in leaf order."""
        fresh = task.kind in (Kind.PLACED, Kind.HELD) and task.id not in self.state.holds
        return fresh and not task.moving and claim_key(task.job) > claim_key(job)

    # -- what is said

    def _released(self, job_id: str) -> bool:
        """Whether the head of its first-in-first-out queue, for which a job waited, waits no longer."""
        blocker = self.behind.get(job_id)
        return blocker is not None and (blocker not in self.waiting or blocker in self.held)

    def _overtaken(self, waits: dict[str, tuple[Reason, ...]]) -> dict[str, tuple[Reason, ...]]:
        """The reasons of those that only an earlier start of this pass keeps waiting, with its name.

        What binds its hold had its turn in an earlier pass and does not count.
        """
        starts = [name for name in self.starts if name not in self.state.holds]
        waiters = [self.state.jobs[name] for name in waits if name not in self.held and name not in self.behind]
        found = overtaken(self.state, self.options, starts, waiters, waits)
        return {name: (*waits[name], overtaken_reason(first)) for name, first in found.items()}

    def _waits(self) -> dict[str, tuple[Reason, ...]]:
        return {job_id: self._reasons(self.state.jobs[job_id]) for job_id in self.waiting}

    def _reasons(self, job: Job) -> tuple[Reason, ...]:
        held = self.held.get(job.id)
        if held is not None:
            leaving = [self.state.tasks[victim].until for victim in held.victims]
            return (preempting_reason(held.victims, max(leaving, default=self.state.now), self.state.now),)
        reasons = list(self.limits.of(job))
        if job.id in self.window.held and not reasons:
            return (held_back_reason(self.window.until(job), self.state.now),)
        if reasons and job.id in self.barred and all(reason.code is not Code.RESERVED_FOR for reason in reasons):
            names, rank = self.barred[job.id], self.waiting[job.id]
            kept = [one for one in self.state.kept if one.job.id in names and self.state.binds(one, job, rank)]
            if kept:  # somebody who may has filled in since
                reasons.insert(0, reserved_reason(self.state.now, kept, ask_make(job)))
        blocker = self.behind.get(job.id)
        if blocker is not None:
            reasons.append(behind_reason(blocker))
        return tuple(reasons)

    def _wait_list(self, waits: dict[str, tuple[Reason, ...]]) -> tuple[Wait, ...]:
        waiters = self.state.waiters
        places: dict[str, int] = {}
        counts: dict[str, int] = {}
        for line in waiters.busy.values():
            place = 0
            for job in line.jobs:
                if job.id in waits:
                    place += 1
                    places[job.id] = place
            counts[line.leaf.name] = place
        blocked = sorted(waiters.blocked.values(), key=lambda job: (job.queue, claim_key(job)))
        for job in blocked:
            counts[job.queue] = places[job.id] = counts.get(job.queue, 0) + 1
        return (
            *(Wait(job_id, places[job_id], self.waiting[job_id], reasons) for job_id, reasons in waits.items()),
            *(Wait(job.id, places[job.id], None, blocked_reasons(job)) for job in blocked),
        )
