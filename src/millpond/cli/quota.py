"""``millpond quota``: who may use how much, and changing it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from millpond.cli.confirm import confirmed
from millpond.cli.errors import Exit
from millpond.cli.job_input import file_read
from millpond.cli.lazy import argument, group, option, verb
from millpond.cli.output import Cell, Column
from millpond.cli.session import Session
from millpond.cli.values import amounts, cards
from millpond.domain.queues import CARDS
from millpond.files.queues import queue_json, queues_file_load
from millpond.sdk.answers import QuotaChange, QuotaResult

COLUMNS = (
    Column("queue"),
    Column("class"),
    Column("guarantee", right=True),
    Column("deserved", right=True),
    Column("cap", right=True),
    Column("used", right=True),
    Column("lend"),
    Column("dequeue"),
    Column("card_hours", right=True),
)
_STYLES = {"added": "green", "removed": "red", "changed": "yellow"}
_SIGNS = {"added": "+", "removed": "-", "changed": "~"}


quota = group("quota", default="show")


@verb(quota, "show")
def quota_show(session: Session) -> None:
    """The limits of every queue, as they are in force."""
    tree = session.client.queues.tree()
    if session.json:
        session.output.data(tree)
        return
    if not tree["items"]:
        session.output.note(session.texts("queue.none"))
        return
    rows: list[list[Cell | str]] = []
    for item in tree["items"]:
        budget = item.get("card_hours")
        rows.append(
            [
                item["name"],
                item["class"] or "",
                amounts(item["guarantee"]),
                amounts(item["deserved"]),
                amounts(item["cap"]),
                amounts(item["used"]),
                session.texts(f"word.{'yes' if item['lend'] else 'no'}"),
                item["dequeue"],
                f"{cards(budget['used'])}/{cards(budget['limit'])}" if budget else "",
            ]
        )
    session.output.table(COLUMNS, rows)


@verb(quota, "apply")
@argument("file")
@option("--dry-run", is_flag=True, help="quota.dry_run")
@option("-y", "--yes", is_flag=True, help="quota.yes")
def quota_apply(session: Session, file: str, dry_run: bool, yes: bool) -> int | None:
    """Put the queues of a file in force: shows the difference, asks, and replaces the whole set."""
    text, source = file_read(file)
    queues = session.client.queues
    pool = {name: milli for name, milli in queues.tree()["pool"].items() if name != CARDS}
    configs, _ = queues_file_load(text, source, pool)
    document = {"queues": [queue_json(config) for config in configs]}
    preview = queues.replace(document, dry_run=True)
    if dry_run:
        _show(session, preview)
        return None
    if not session.json:
        _show(session, preview)
    if preview["changes"] and not confirmed(session, session.texts("quota.ask"), yes=yes):
        return Exit.CANCELLED
    if not preview["changes"]:
        if session.json:
            session.output.data(preview)
        return None
    result = queues.replace(document)
    if session.json:
        session.output.data(result)
    else:
        session.output.note(session.texts("quota.done", count=len(result["changes"])), "green")
    return None


def _show(session: Session, result: QuotaResult) -> None:
    if session.json:
        session.output.data(result)
        return
    for change in result["changes"]:
        for line in _difference(session, change):
            session.output.line(line)
    for warning in result["warnings"]:
        session.output.note(session.texts("quota.warning", text=warning), "yellow")
    key = "quota.summary" if result["changes"] else "quota.no_change"
    session.output.line(session.texts(key, changes=len(result["changes"]), unchanged=result["unchanged"]))


def _difference(session: Session, change: QuotaChange) -> list[str]:
    """``~ factor/batch`` and the keys that differ, old and new."""
    kind = change["change"]
    lines = [session.output.style(f"{_SIGNS.get(kind, '?')} {change['name']}", _STYLES.get(kind, ""))]
    before, after = change["before"] or {}, change["after"] or {}
    for key in sorted({*before, *after} - {"name"}):
        old, new = _value(before, key), _value(after, key)
        if old != new:
            lines.append(f"    {key}: {new if not before else old if not after else f'{old} → {new}'}")
    return lines


def _value(values: Mapping[str, object], key: str) -> str:
    value = values.get(key)
    if value is None:
        return "-"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
