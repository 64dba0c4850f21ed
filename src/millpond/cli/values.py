"""Values for people: times, durations, cards, memory, states."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from millpond.cli.output import Cell
from millpond.cli.texts import Texts
from millpond.domain.amounts import duration_format, memory_format, milli_format
from millpond.domain.errors import InvalidInput
from millpond.sdk.answers import Job, Seat

STATE_STYLES = {
    "queued": "yellow",
    "starting": "cyan",
    "running": "green",
    "stopping": "yellow",
    "succeeded": "green",
    "failed": "red",
    "cancelled": "dim",
    "ready": "green",
    "cordoned": "yellow",
    "draining": "yellow",
    "lost": "red",
    "ok": "green",
    "quarantined": "red",
}


def moment(text: str) -> datetime:
    """A time of the API (ISO 8601 with a zone)."""
    return datetime.fromisoformat(text)


def zoned(text: str) -> str:
    """A time that somebody wrote, for the API: without a zone it is of this machine's; empty stays."""
    if not text:
        return ""
    try:
        return datetime.fromisoformat(text).astimezone().isoformat()
    except (ValueError, OverflowError) as error:
        raise InvalidInput(
            f"{text[:40]!r} is not a time", hint="write it like 2026-11-30, or 2026-11-30T18:00:00+08:00"
        ) from error


def local(text: str | None) -> str:
    """Local time with its zone: ``2026-03-01 09:30:00 CST``; empty for None."""
    return moment(text).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z") if text else ""


def age(text: str | None, now: datetime) -> str:
    """How long ago, short: ``3m12s``; empty for None."""
    return duration_format(max(0, int((now - moment(text)).total_seconds()))) if text else ""


def until(text: str | None, now: datetime) -> str:
    """How long until then, short; ``0s`` if it has passed."""
    return duration_format(max(0, int((moment(text) - now).total_seconds()))) if text else ""


def span(start: str | None, end: str | None) -> str:
    """Between two times."""
    return age(start, moment(end)) if start and end else ""


def state(texts: Texts, code: str) -> Cell:
    """The word for a state, in its colour."""
    return Cell(texts.word("state", code), STATE_STYLES.get(code, ""))


def job_state(texts: Texts, job: Job) -> Cell:
    """The state of a job, with its sub-state while it is queued."""
    sub = job["queued_as"]
    if job["state"] == "queued" and sub in {"held", "backoff"}:
        return state(texts, str(sub))
    return state(texts, job["state"])


def cards(milli: int) -> str:
    return milli_format(milli)


def memory(mib: int) -> str:
    return memory_format(mib) if mib else ""


def size(job: Job) -> str:
    """What a job asks for and takes: ``2 x A800:8 = 16``; ``0`` without cards."""
    if job["gpu"] == "0":
        return "0"
    asked = f"{job['nodes']} x {job['gpu']}" if job["nodes"] > 1 else job["gpu"]
    return f"{asked} = {milli_format(job['milli'])}"


def seats(placement: Sequence[Seat]) -> str:
    """``n1[0-3,6] n2[0]``, a fraction with its share: ``n1[2]*0.25``."""
    return " ".join(_seat(seat) for seat in placement)


def _seat(seat: Seat) -> str:
    if seat.get("slice"):
        slot = seat.get("slot")
        return f"{seat['node']}[{ranges(seat['cards'])}:mig-{seat['slice']}{'' if slot is None else f'@{slot}'}]"
    if not seat["cards"]:
        return seat["node"]
    share = f"*{milli_format(seat['milli'])}" if seat["milli"] < 1000 else ""
    return f"{seat['node']}[{ranges(seat['cards'])}]{share}"


def ranges(numbers: Iterable[int]) -> str:
    """``0-3,6`` of 0, 1, 2, 3, 6."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


def amounts(values: dict[str, int]) -> str:
    """Milli-cards per dimension: the sum alone, or with the models that are named."""
    models = {name: amount for name, amount in values.items() if name != "cards"}
    if "cards" in values and set(models.values()) <= {values["cards"]} and len(models) <= 1:
        # One model that is all of it says nothing new.
        return milli_format(values["cards"])
    named = [f"{name}:{milli_format(amount)}" for name, amount in sorted(models.items())]
    return " ".join(([milli_format(values["cards"])] if "cards" in values else []) + named)


def owner(tenant: str, user: str) -> str:
    return f"{tenant}/{user}" if tenant and user else tenant or user
