"""What happens to a running job when its hold runs out: more is held, or it is warned, saves, and stops.  Data stays.

In time: ``notice`` before it has to save, the job is warned; ``grace`` before its money ends, it is told to
save; at the end of its money it stops.  Until it is told to save, money that arrives keeps it running.  It always gets
its whole grace, also when the platform looked late: what that costs beyond the hold becomes a debt (`holds`), at most
one grace and the time between two looks.  A stopped job is queued again and waits with `BALANCE_HELD`; its folders and
checkpoints are kept, and cost no card time.

In PostgreSQL: ``money_holds`` has ``warned_at`` and ``saving_at``, each set once (a trigger refuses to change them).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum


class Step(StrEnum):
    RUN = "run"
    EXTEND = "extend"
    WARN = "warn"
    SAVE = "save"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Runway:
    """``paid_until``: when what is held is used up.  ``grace``: the job's checkpoint grace.  Both spans in seconds.

    ``warned_at``, ``saving_at``: what was done already, for this hold.
    """

    paid_until: datetime
    grace: int
    notice: int
    warned_at: datetime | None = None
    saving_at: datetime | None = None

    @property
    def save_from(self) -> datetime:
        return self.paid_until - timedelta(seconds=self.grace)

    @property
    def warn_from(self) -> datetime:
        return self.save_from - timedelta(seconds=self.notice)


@dataclass(frozen=True, slots=True)
class Overrun:
    """``look_at``: when to decide again.  ``deadline``: when the job will stop, once it is told to save."""

    step: Step
    look_at: datetime | None = None
    deadline: datetime | None = None


def paid_until(started_at: datetime, milli_seconds: int, milli: int) -> datetime:
    """When a job of `milli` milli-cards has used what is held, in whole seconds that are paid in full."""
    return started_at + timedelta(seconds=milli_seconds // max(milli, 1))


def overrun_decide(runway: Runway, now: datetime, *, may_extend: bool) -> Overrun:
    """The next step of a running job.  ``may_extend``: whether the next stretch can be held now (`holds.hold_roll`)."""
    if runway.saving_at is not None:
        deadline = max(runway.paid_until, runway.saving_at + timedelta(seconds=runway.grace))
        if now >= deadline:
            return Overrun(Step.STOP, deadline=deadline)
        return Overrun(Step.RUN, deadline, deadline)
    if now < runway.warn_from:
        return Overrun(Step.RUN, runway.warn_from)
    if may_extend:
        return Overrun(Step.EXTEND)
    if now >= runway.save_from:
        deadline = max(runway.paid_until, now + timedelta(seconds=runway.grace))
        return Overrun(Step.SAVE, deadline, deadline)
    if runway.warned_at is None:
        return Overrun(Step.WARN, runway.save_from)
    return Overrun(Step.RUN, runway.save_from)
