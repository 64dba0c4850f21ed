"""``millpond usage``: card time that the meter has counted, by whom and for what."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from millpond.cli.lazy import command, option
from millpond.cli.output import Cell, Column
from millpond.cli.session import Session
from millpond.cli.values import cards, local, moment
from millpond.zones import zone_find

if TYPE_CHECKING:
    from millpond.sdk.usage import UsageAlarm, UsageAttempt, UsageList, UsageOfJob, UsageRow

TENANT, PROJECT, USER, SKU, CLASS = (
    Column("tenant"),
    Column("project"),
    Column("user"),
    Column("sku"),
    Column("class"),
)
KEYS = {
    "tenant": (TENANT,),
    "project": (TENANT, PROJECT),
    "user": (TENANT, USER),
    "sku": (SKU,),
    "class": (CLASS,),
    "job": (Column("job"), Column("name"), TENANT, PROJECT, USER, SKU, CLASS),
    "day": (Column("day"),),
}
SUMS = (
    Column("card_hours", right=True),
    Column("lost", right=True),
    Column("attempts", right=True),
    Column("measured", right=True),
)
ATTEMPTS = (
    Column("attempt", right=True),
    Column("sku"),
    Column("class"),
    Column("cards", right=True),
    Column("started"),
    Column("ended_at"),
    Column("ended"),
    Column("card_hours", right=True),
    Column("lost", right=True),
)
ALARMS = (Column("time"), Column("code"), Column("job"), Column("attempt", right=True), Column("what", fold=True))


@command("usage", help="help.usage_of")
@option("--by", type=click.Choice(tuple(KEYS)), default="project", show_default=True, help="usage.by")
@option("--month", metavar="MONTH", default="", help="usage.month")
@option("--from", "begin", metavar="TIME", default="", help="usage.from")
@option("--to", metavar="TIME", default="", help="usage.to")
@option("--zone", metavar="ZONE", default="", help="usage.zone")
@option("--attempts", "job", metavar="JOB", default="", help="usage.attempts")
@option("--alarms", is_flag=True, help="usage.alarms")
@option("--csv", "as_csv", is_flag=True, help="usage.csv")
def usage(
    session: Session, by: str, month: str, begin: str, to: str, zone: str, job: str, alarms: bool, as_csv: bool
) -> None:
    """Sums; or the attempts of one job, or what the meter could not believe."""
    _together(session, job=job, alarms=alarms, as_csv=as_csv, dated=bool(month or begin or to))
    wish: dict[str, Any] = {"month": month, "from": begin, "to": to, "zone": zone, "tenant": session.tenant}
    if job:
        _job(session, session.client.usage.attempts(job, **session.place))
    elif alarms:
        _alarms(session, list(session.client.usage.alarms(**wish)))
    elif as_csv:
        for piece in session.client.usage.csv(by, **wish):
            sys.stdout.buffer.write(piece)
    else:
        _sums(session, session.client.usage.sums(by, **wish))


def _together(session: Session, *, job: str, alarms: bool, as_csv: bool, dated: bool) -> None:
    if job and dated:
        raise click.UsageError(session.texts("usage.whole_job"))
    chosen = [
        name
        for name, wanted in (("--attempts", job), ("--alarms", alarms), ("--csv", as_csv), ("--json", session.json))
        if wanted
    ]
    kinds = [name for name in chosen if name != "--json" or "--csv" in chosen]
    if len(kinds) > 1:
        raise click.UsageError(session.texts("usage.one_of", names=", ".join(kinds)))


def _sums(session: Session, found: UsageList) -> None:
    if session.json:
        session.output.data(found)
        return
    output, texts = session.output, session.texts
    period = _period(session, found)
    if not found["items"]:
        output.note(
            texts("usage.empty", period=period) if found["counted_until"] else texts("usage.not_yet", period=period)
        )
    else:
        output.line(period)
        keys = _columns(found)
        rows = [[*(_key(row, column.key) for column in keys), *_amounts(row)] for row in found["items"]]
        if len(rows) > 1:
            rows.append([texts("usage.total"), *[""] * (len(keys) - 1), *_amounts(found["total"])])
        output.table((*keys, *SUMS), rows)
        if found["total"]["lost_milli_card_seconds"]:
            output.note(texts("usage.lost_note"))
    _counted(session, found["counted_until"])
    if found["alarms"]:
        output.note(texts("usage.alarms_found", count=found["alarms"]), "red")


def _columns(found: UsageList) -> tuple[Column, ...]:
    """What tells the rows apart; one tenant needs no column."""
    keys = KEYS[found["by"]]
    if len(keys) > 1 and len({row["tenant"] for row in found["items"]}) == 1:
        return tuple(column for column in keys if column is not TENANT)
    return keys


def _key(row: UsageRow, name: str) -> str:
    value = dict(row).get(name)
    return "" if value is None else str(value)


def _amounts(amount: Any) -> list[Cell | str]:
    """Measured utilisation is blank where nothing measures it."""
    lost = amount["lost_card_hours"] if amount["lost_milli_card_seconds"] else ""
    return [amount["card_hours"], Cell(lost, "yellow"), str(amount["attempts"]), amount["measured"] or ""]


def _period(session: Session, found: UsageList) -> str:
    """The whole time, as the clocks of its zone show it."""
    zone = zone_find(found["zone"])
    start, end = (f"{moment(text).astimezone(zone):%Y-%m-%d %H:%M}" for text in (found["from"], found["to"]))
    return session.texts("usage.period", start=start, end=end, zone=found["zone"])


def _counted(session: Session, until: str | None) -> None:
    if until is not None:
        session.output.note(session.texts("usage.counted", time=local(until)))


def _job(session: Session, found: UsageOfJob) -> None:
    if session.json:
        session.output.data(found)
        return
    output, texts = session.output, session.texts
    total = found["total"]
    lost = total["lost_card_hours"] if total["lost_milli_card_seconds"] else ""
    output.fields(
        [
            ("job", f"{found['name']} ({found['job']})"),
            ("owner", "/".join(part for part in (found["tenant"], found["project"], found["user"]) if part)),
            ("card_hours", Cell(total["card_hours"], "bold")),
            ("lost_hours", lost),
        ]
    )
    if not found["attempts"]:
        output.note(texts("usage.no_attempts", job=found["name"]))
    else:
        output.line()
        output.table(ATTEMPTS, [_attempt(session, attempt) for attempt in found["attempts"]])
        if any(attempt["disputed"] for attempt in found["attempts"]):
            output.note(texts("usage.disputed"), "red")
    _counted(session, found["counted_until"])


def _attempt(session: Session, attempt: UsageAttempt) -> list[Cell | str]:
    return [
        str(attempt["attempt"]),
        attempt["sku"],
        attempt["class"],
        cards(attempt["milli"]),
        local(attempt["started_at"]),
        local(attempt["ended_at"]),
        session.texts.word("end", attempt["reason"] or ""),
        attempt["card_hours"],
        Cell(attempt["lost_card_hours"] if attempt["lost_milli_card_seconds"] else "", "yellow"),
    ]


def _alarms(session: Session, found: list[UsageAlarm]) -> None:
    if session.json:
        session.output.items(found)
    elif not found:
        session.output.note(session.texts("usage.no_alarms"))
    else:
        rows = [[local(one["time"]), one["code"], one["job"], str(one["attempt"]), one["text"]] for one in found]
        session.output.table(ALARMS, rows)
