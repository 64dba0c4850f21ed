"""A plan that the guard lets through: what `check` finds harmful is left out, and the rest goes on.

A refused plan would be made again from the same snapshot, for ever.  So the claimants that the findings name are set
aside, with the reason on them, and the others are planned anew.  The caller raises the alarm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from millpond.domain.reasons import Code
from millpond.scheduling.check import SAFETY_RULES, check
from millpond.scheduling.decisions import Plan, Violation
from millpond.scheduling.plan import plan as plan_make
from millpond.scheduling.snapshot import Snapshot

Guard = Callable[[Snapshot, Plan], tuple[Violation, ...]]

_ROUNDS = 4
"""Plans made in place of a refused one; the last does without everybody whom the one before would place."""

_ASIDE = (
    Code.ENGINE_REFUSED.value,
    "the scheduler's own check refused to place it; the operators have been alarmed, and every pass tries again",
)


@dataclass(frozen=True, slots=True)
class Guarded:
    """``plan``: what may be applied; None when nothing could be found.

    ``refused``: why the first plan must not be applied; empty if it may.  ``weak``: what is wrong with ``plan`` but
    harms nobody.  ``aside``: the jobs left out, by id.
    """

    plan: Plan | None
    refused: tuple[Violation, ...] = ()
    weak: tuple[Violation, ...] = ()
    aside: tuple[str, ...] = ()


def plan_guarded(snapshot: Snapshot, guard: Guard = check) -> Guarded:
    """The plan for `snapshot` if `guard` finds nothing harmful in it, else one without whom the findings name."""
    plan = plan_make(snapshot)
    found = guard(snapshot, plan)
    refused = harmful(found)
    return plan_without(snapshot, plan, refused, guard) if refused else Guarded(plan, weak=found)


def plan_without(snapshot: Snapshot, plan: Plan, violations: tuple[Violation, ...], guard: Guard = check) -> Guarded:
    """In place of `plan`, which breaks rules: a plan without the claimants that `violations` name."""
    aside: set[str] = set()
    current, found = plan, violations
    for number in range(1, _ROUNDS + 1):
        aside |= _claimants(current, found if number < _ROUNDS else ())
        current = plan_make(set_aside(snapshot, aside))
        everything = guard(set_aside(snapshot, aside), current)
        found = harmful(everything)
        if not found:
            return Guarded(current, violations, everything, tuple(sorted(aside)))
    return Guarded(None, violations, (), tuple(sorted(aside)))


def harmful(violations: Iterable[Violation]) -> tuple[Violation, ...]:
    """Those for which a plan must not be applied."""
    return tuple(violation for violation in violations if violation.rule in SAFETY_RULES)


def _claimants(plan: Plan, violations: tuple[Violation, ...]) -> set[str]:
    """Whose starts and holds the violations speak of: by name, by victim, by node; all if they name nobody."""
    seats = {start.job: start.seats for start in plan.start} | {hold.job: hold.seats for hold in plan.hold}
    named = {subject for violation in violations for subject in violation.subjects}
    owners = {job for job in seats if job in named}
    owners |= {evict.claimant for evict in plan.evict if evict.job in named}
    owners |= {hold.job for hold in plan.hold if named.intersection(hold.victims)}
    owners = owners or {job for job, taken in seats.items() if any(seat.node in named for seat in taken)}
    return owners or {*seats, *(evict.claimant for evict in plan.evict)}


def set_aside(snapshot: Snapshot, names: Iterable[str]) -> Snapshot:
    """`snapshot` with those jobs not to be considered, and told why."""
    names = frozenset(names)
    jobs = tuple(
        replace(job, blocked_by=(*job.blocked_by, _ASIDE)) if job.id in names else job for job in snapshot.jobs
    )
    return replace(snapshot, jobs=jobs)
