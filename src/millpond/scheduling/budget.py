"""Card-hour budgets (scheduling S18): used, held by running jobs until their limit, and asked for.

Amounts are milli-card-hours.  A job without `max_duration` holds nothing, and starts as long as anything is left.
"""

from __future__ import annotations

from millpond.domain.amounts import milli_format
from millpond.domain.reasons import Code, Reason
from millpond.scheduling.fit import Ask
from millpond.scheduling.quota import Queue
from millpond.scheduling.snapshot import Job
from millpond.scheduling.state import State

_HOUR = 3600


def hours_reasons(state: State, job: Job, ask: Ask) -> list[Reason]:
    """A reason for every budget of the leaf and its ancestors that this job would break."""
    reasons: list[Reason] = []
    if not ask.total:
        return reasons
    need = -(-ask.total * job.max_duration // _HOUR) if job.max_duration is not None else 1
    for queue in state.leaf(job).path:
        budget = queue.config.card_hours
        if budget is None:
            continue
        have = max(0, budget.limit - budget.used - _held(state, queue))
        if need > have:
            text = f"{queue.word} has {milli_format(have)} card-hours left of {milli_format(budget.limit)}, "
            reasons.append(
                Reason(
                    Code.CARD_HOURS_EXHAUSTED,
                    text + f"this job needs {milli_format(need)}",
                    need=need,
                    have=have,
                    limit=budget.limit,
                    queue=queue.name,
                )
            )
    return reasons


def _held(state: State, queue: Queue) -> int:
    """What running jobs may still use up to their limits, rounded up job by job."""
    total = 0
    for leaf, tasks in state.leaf_tasks.items():
        if queue not in leaf.path:
            continue
        for task in tasks:
            if task.counted and task.job.max_duration is not None:
                left = max(0, task.admitted + task.job.max_duration - state.now)
                total += -(-task.milli * left // _HOUR)
    return total
