"""The auditor's walk from a line of an invoice down to the events, for people."""

from __future__ import annotations

from typing import Any

from millpond.cli.output import Cell, Column
from millpond.cli.session import Session
from millpond.cli.values import cards, local

BUCKETS = (
    Column("hour"),
    Column("attempt", right=True),
    Column("card_hours", right=True),
    Column("lost", right=True),
    Column("booked_in"),
)
ATTEMPTS = (
    Column("attempt", right=True),
    Column("started"),
    Column("ended_at"),
    Column("ended"),
    Column("cards", right=True),
    Column("card_hours", right=True),
    Column("lost", right=True),
)
EVENTS = (Column("sequence", right=True), Column("time"), Column("event"), Column("attempt"), Column("hash"))
HASH = 16
"""Letters of a hash that are shown to people."""


def explanation_show(session: Session, found: dict[str, Any]) -> None:
    """Line, price, buckets, attempts, events."""
    line, price = found["line"], found["price"]
    output, texts = session.output, session.texts
    added = f"{price['created_by']} {local(price['created_at'])}" if price is not None else ""
    output.fields(
        [
            ("number", found["invoice"]),
            ("line", f"{line['line']}: {line['job']} ({line['project']}/{line['user']})"),
            (
                "billed",
                f"{line['card_hours']} x {line['unit_price']} = {line['net']} {found['currency']}",
            ),
            ("price_version", f"{line['price_version']} ({line['sku']} {line['class']})"),
            ("tax", f"{line['tax']} {found['currency']}"),
            ("added_by", added),
            (
                "sums",
                Cell(texts("invoice.adds_up"), "green") if found["adds_up"] else Cell(texts("invoice.differs"), "red"),
            ),
        ]
    )
    if line["minimum_milli_card_seconds"]:
        hours = f"{line['minimum_milli_card_seconds'] / 3_600_000:.4f}"
        output.note(texts("invoice.minimum", hours=hours))
    output.line()
    rows = [
        [
            local(item["hour"]),
            str(item["attempt"]),
            item["card_hours"],
            item["lost_card_hours"],
            "" if item["hour"] == item["booked"] else local(item["booked"]),
        ]
        for item in found["buckets"]
    ]
    output.table(BUCKETS, rows)
    output.line()
    rows = [
        [
            str(item["attempt"]),
            local(item["started_at"]),
            local(item["ended_at"]),
            texts.word("end", item["reason"]) if item["reason"] else "",
            cards(item["milli"]),
            item["card_hours"],
            item["lost_card_hours"],
        ]
        for item in found["attempts"]
    ]
    output.table(ATTEMPTS, rows)
    output.line()
    rows = [
        [str(item["sequence"]), local(item["time"]), item["kind"], item["attempt"], item["hash"][:HASH]]
        for item in found["events"]
    ]
    output.table(EVENTS, rows)
