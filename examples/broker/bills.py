"""What each team's day costs: accounts and prices before it, and afterwards the bill that the meter's counts make.

A bill here is a draft of the month's invoice: the same code that issues it, without closing the month.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import yaml
from stage import BROKER

from millpond.sdk import Client
from millpond.sdk.answers import Attempt

ZONE = "Asia/Shanghai"
ACCOUNT = {"currency": "CNY", "zone": ZONE, "tax_rate": "0.06", "mode": "postpaid"}
COUNT_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Bill:
    """One team's.  ``billed`` and ``ran`` are milli-card-seconds: on the bill, and by the attempts' own times."""

    tenant: str
    billed: int
    ran: int
    card_hours: str
    net: str
    tax: str
    total: str
    currency: str
    lines: int

    @property
    def agrees(self) -> bool:
        return self.billed == self.ran


def accounts_open(client: Client, tenants: list[str]) -> None:
    """Every team pays by the card-hour, after the month."""
    for tenant in tenants:
        client.accounts.open(tenant, {**ACCOUNT, "title": f"{tenant} desk"})
    client.prices.add(_plain(yaml.safe_load((BROKER / "prices.yaml").read_text(encoding="utf-8"))))


def bills_read(client: Client, tenants: list[str]) -> list[Bill]:
    """The bills, once the meter has counted what the attempts ran.  Call it when every job has ended."""
    month = datetime.now(ZoneInfo(ZONE)).strftime("%Y-%m")
    ran = {tenant: sum(map(_ran, _attempts(client, tenant))) for tenant in tenants}
    deadline = time.monotonic() + COUNT_SECONDS
    while True:
        bills = [_bill(client, tenant, month, ran[tenant]) for tenant in tenants]
        if all(bill.agrees for bill in bills) or time.monotonic() > deadline:
            return bills
        time.sleep(0.2)


def _bill(client: Client, tenant: str, month: str, ran: int) -> Bill:
    draft = client.invoices.draft(tenant, month)
    invoice, lines = draft["invoice"], draft["lines"]
    billed = sum(line["milli_card_seconds"] for line in lines)
    hours = f"{billed / 3_600_000:.4f}"
    amounts = invoice["net"], invoice["tax"], invoice["total"], invoice["currency"]
    return Bill(tenant, billed, ran, hours, *amounts, draft["line_count"])


def _attempts(client: Client, tenant: str) -> list[Attempt]:
    return [attempt for job in client.jobs.list(tenant=tenant) for attempt in client.jobs.attempts(job["id"])]


def _ran(attempt: Attempt) -> int:
    """Milli-card-seconds from the start to the end, in whole seconds of the clock, as the meter counts."""
    started, ended = attempt["started_at"], attempt["ended_at"]
    if started is None or ended is None:
        return 0
    seconds = int(datetime.fromisoformat(ended).timestamp()) - int(datetime.fromisoformat(started).timestamp())
    return seconds * attempt["milli"]


def _plain(document: dict[str, Any]) -> dict[str, Any]:
    """YAML reads dates as dates; the API takes texts."""
    prices = [{**price, "from": str(price["from"])} for price in document["prices"]]
    return {**document, "prices": prices}
