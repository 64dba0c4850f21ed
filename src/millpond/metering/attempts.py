"""An attempt as the meter has counted it: what bills, reports and refunds ask about."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from millpond.domain.jobs import EndReason


@dataclass(frozen=True, slots=True)
class AttemptUsage:
    """Sums are milli-card-seconds, the lost part included.  ``ended`` ``None``: it runs, and the sums grow.

    ``lost``: its work since the last checkpoint was lost, and that part is not billed.  ``disputed``: it overlaps with
    another on a card, and nothing of it is billed.  ``start_event`` and ``end_event`` are sequences of the event log.
    """

    tenant: str
    job: str
    attempt: int
    project: str
    user: str
    sku: str
    klass: str
    service: bool
    milli: int
    started: datetime
    ended: datetime | None
    reason: EndReason | None
    lost: bool
    disputed: bool
    milli_seconds: int
    lost_milli_seconds: int
    start_event: int
    end_event: int | None
