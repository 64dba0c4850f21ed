"""The report: figures read from the API and the logs after the day is over, and whether all that must hold does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scenario import Broker, asked_to_leave, mapping_format

from millpond.sdk.answers import Attempt, Job

READY_LIMIT_SECONDS = 30
EXPECTED_SPLIT = {"trade": 16_000, "factor": 40_000, "nlp": 8_000}


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must hold, and what was seen."""

    what: str
    holds: bool
    seen: str


def report_make(broker: Broker) -> dict[str, Any]:
    """The figures, as demo-report.json has them.  Seconds, card-seconds, milli-cards where the name says so."""
    day = broker.day
    victims = broker.evicted(day.languages)
    jobs = [broker.refreshed(job) for job in [*day.factors, *day.languages]]
    return {
        "trade_ready_seconds": round(day.ready_seconds, 3),
        "factor_evicted": len(broker.evicted(day.factors)),
        "nlp_evicted": len(victims),
        "retries_spent": sum(job["retries_spent"] for job in jobs),
        "resumed": [resumption(broker, job) for job in victims],
        "evictions": [eviction(broker, job) for job in victims],
        "lost_card_seconds": round(sum(lost(broker, job) for job in victims) / 1000, 3),
        "cards_by_tenant": {tenant: milli / 1000 for tenant, milli in sorted(day.split.items())},
        "pool_cards": day.pool // 1000,
        "pool_utilisation": {act: round(milli / day.pool, 4) for act, milli in day.used.items()},
        "predictions": {"asked": day.predictions, "right": day.recognised, "ranks": day.ranks_answering},
        "bills": [
            {
                "tenant": bill.tenant,
                "card_hours": bill.card_hours,
                "net": bill.net,
                "tax": bill.tax,
                "total": bill.total,
                "currency": bill.currency,
                "lines": bill.lines,
                "billed_milli_card_seconds": bill.billed,
                "ran_milli_card_seconds": bill.ran,
            }
            for bill in day.bills
        ],
        "why": day.why,
        "why_claim": day.why_claim,
        "submit_times_kept": all(_same_submission(broker, job) for job in victims),
        "simulated": broker.client.queues.tree()["simulated"],
    }


def resumption(broker: Broker, job: Job) -> dict[str, Any]:
    """Proof that a job went on where it was: what its two attempts said about step and loss."""
    first, *later = broker.attempts(job)
    before = broker.journal.last(job["id"], first["number"], "checkpoint", "saved") or {}
    resumed: dict[str, Any] = {}
    after: dict[str, Any] = {}
    if later:
        resumed = broker.journal.last(job["id"], later[-1]["number"], "resumed") or {}
        after = broker.journal.last(job["id"], later[-1]["number"], "checkpoint", "saved") or {}
    return {
        "job": job["id"],
        "name": job["name"],
        "checkpoint_step": before.get("step"),
        "resumed_from_step": resumed.get("step"),
        "loss_at_checkpoint": before.get("loss"),
        "loss_at_resume": resumed.get("loss"),
        "step_after": after.get("step"),
        "loss_after": after.get("loss"),
    }


def eviction(broker: Broker, job: Job) -> dict[str, Any]:
    """How one job gave way."""
    attempt = _drained(broker, job)
    return {
        "job": job["id"],
        "name": job["name"],
        "for": attempt["drain_for"],
        "why": attempt["drain_reason"],
        "ended": attempt["reason"],
        "exit_code": attempt["exit_code"],
        "asked_at": attempt["draining_at"],
        "gone_at": attempt["ended_at"],
        "lost_card_seconds": attempt["lost_milli_seconds"] / 1000,
    }


def lost(broker: Broker, job: Job) -> int:
    return _drained(broker, job)["lost_milli_seconds"]


def _drained(broker: Broker, job: Job) -> Attempt:
    return next(attempt for attempt in broker.attempts(job) if asked_to_leave(attempt))


def _same_submission(broker: Broker, job: Job) -> bool:
    return broker.refreshed(job)["submitted_at"] == job["submitted_at"]


def checks_make(figures: dict[str, Any], spared: str) -> list[Check]:
    """What must hold.  `spared` is the job that had the most to lose."""
    evicted = [proof["name"] for proof in figures["resumed"]]
    ready = figures["trade_ready_seconds"]
    why = figures["why"]["reasons"][0] if figures["why"] else {}
    split = {tenant: round(cards * 1000) for tenant, cards in figures["cards_by_tenant"].items()}
    answers, proofs = figures["predictions"], figures["resumed"]
    return [
        Check("trade is ready within 30 s", 0 <= ready <= READY_LIMIT_SECONDS, f"{ready} s"),
        Check("no factor job was touched", figures["factor_evicted"] == 0, str(figures["factor_evicted"])),
        Check("two nlp jobs gave way", figures["nlp_evicted"] == 2, ", ".join(evicted)),
        Check("not the one with most to lose", spared not in evicted, f"{spared} stayed"),
        Check("no retry was spent", figures["retries_spent"] == 0, str(figures["retries_spent"])),
        Check("they keep their place in the queue", figures["submit_times_kept"], "submit times unchanged"),
        Check("by day trade has 16, factor 40, nlp 8", split == EXPECTED_SPLIT, mapping_format(split)),
        Check("factor's sixth job meets its cap", _capped(why), why.get("text", "no reason given")),
        Check("every rank of trade's gang answers", answers["ranks"] == 2, f"{answers['ranks']} ranks"),
        Check("and rightly", answers["right"] * 10 >= answers["asked"] * 9 > 0, f"{answers['right']} right"),
        Check("each team pays for what it ran", _agree(figures["bills"]), _bills(figures["bills"])),
        *(Check(f"{proof['name']} goes on where it was", _went_on(proof), _proof(proof)) for proof in proofs),
    ]


def _agree(bills: list[dict[str, Any]]) -> bool:
    pairs = [(bill["billed_milli_card_seconds"], bill["ran_milli_card_seconds"]) for bill in bills]
    return len(pairs) == len(EXPECTED_SPLIT) and all(billed == ran > 0 for billed, ran in pairs)


def _bills(bills: list[dict[str, Any]]) -> str:
    return ", ".join(f"{bill['tenant']} {bill['total']} {bill['currency']}" for bill in bills)


def _capped(reason: dict[str, Any]) -> bool:
    numbers = (reason.get("limit"), reason.get("have"), reason.get("need"))
    return reason.get("code") == "QUEUE_CAP" and numbers == (40_000, 40_000, 8_000)


def _went_on(proof: dict[str, Any]) -> bool:
    return (
        None not in proof.values()
        and 0 < proof["resumed_from_step"] == proof["checkpoint_step"] < proof["step_after"]
        and proof["loss_at_resume"] == proof["loss_at_checkpoint"]
        and proof["loss_after"] <= proof["loss_at_checkpoint"]
    )


def _proof(proof: dict[str, Any]) -> str:
    if None in proof.values():
        return f"incomplete: {proof}"
    return (
        f"step {proof['resumed_from_step']} → {proof['step_after']}, "
        f"loss {proof['loss_at_checkpoint']:.4f} → {proof['loss_after']:.4f}"
    )
