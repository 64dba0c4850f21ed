"""``millpond budget``: what a node of the organisation may use in a period."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from millpond.cli.confirm import confirmed
from millpond.cli.lazy import argument, group, option, verb
from millpond.cli.output import Column
from millpond.cli.session import Session
from millpond.cli.values import zoned
from millpond.domain.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from millpond.sdk.budgets import Budget

COLUMNS = (
    Column("node"),
    Column("budget_period"),
    Column("limit", right=True),
    Column("used", right=True),
    Column("running_jobs", right=True),
    Column("left", right=True),
    Column("unit"),
    Column("thresholds", fold=True),
)

budget = group("budget")


@verb(budget, "list")
def budget_list(session: Session) -> None:
    """Budgets that stand, and how."""
    found = list(session.client.budgets.list(session.tenant))
    if session.json:
        session.output.items(found)
    elif not found:
        session.output.note(session.texts("budget.empty"))
    else:
        _show(session, found)


@verb(budget, "set")
@argument("node")
@option("--card-hours", metavar="HOURS", default="", help="budget.card_hours")
@option("--amount", metavar="AMOUNT", default="", help="budget.amount")
@option("--currency", metavar="CODE", default="", help="budget.currency")
@option(
    "--period",
    type=click.Choice(["month", "quarter", "year", "once"]),
    default="month",
    show_default=True,
    help="budget.period",
)
@option("--at", "lines", metavar="PERCENT:ACTION", multiple=True, help="budget.at")
@option("--from", "start", metavar="TIME", default="", help="budget.from")
@option("--to", "end", metavar="TIME", default="", help="budget.to")
def budget_set(
    session: Session,
    node: str,
    card_hours: str,
    amount: str,
    currency: str,
    period: str,
    lines: tuple[str, ...],
    start: str,
    end: str,
) -> None:
    """Set one, in the place of the one with the same node, unit and period."""
    given: dict[str, object] = {"node": node, "period": period}
    texts = {"card_hours": card_hours, "amount": amount, "currency": currency}
    given |= {name: value for name, value in texts.items() if value}
    given |= {name: zoned(value) for name, value in (("starts_at", start), ("ends_at", end)) if value}
    if lines:
        given["thresholds"] = [_line(text) for text in lines]
    made = session.client.budgets.set(given)
    if session.json:
        session.output.data(made)
        return
    _show(session, [made])
    session.output.note(session.texts("budget.set", node=made["node"]), "green")


@verb(budget, "remove")
@argument("node", metavar="NODE|ID")
@option("--period", type=click.Choice(["month", "quarter", "year", "once"]), help="budget.which")
@option("--unit", metavar="UNIT", default="", help="budget.unit")
@option("--yes", is_flag=True, help="confirm.yes")
def budget_remove(session: Session, node: str, period: str | None, unit: str, *, yes: bool) -> None:
    """Take one away, after asking."""
    plain = node.strip("/") or "/"
    found = [
        item
        for item in session.client.budgets.list()
        if node == item["id"]
        or (plain == item["node"] and period in {None, item["period"]} and unit in {"", item["unit"]})
    ]
    if not found:
        raise NotFound(session.texts("budget.none", node=node), hint=session.texts("budget.look"))
    if len(found) > 1:
        _show(session, found)
        raise InvalidInput(session.texts("budget.several", node=node), hint=session.texts("budget.narrow"))
    item = found[0]
    question = session.texts("budget.ask", node=item["node"], limit=item["limit"], unit=item["unit"])
    if not confirmed(session, question, yes=yes):
        return
    session.client.budgets.remove(item["id"])
    if session.json:
        session.output.data(item)
    else:
        session.output.note(session.texts("budget.removed", node=item["node"]), "green")


def _line(text: str) -> dict[str, object]:
    percent, _, action = text.partition(":")
    if not percent.isascii() or not percent.isdigit() or action not in {"alert", "queue", "deny", "stop"}:
        raise InvalidInput(f"{text!r} is not a line of a budget", hint="write 80:alert, 100:queue, 100:deny, 100:stop")
    return {"percent": int(percent), "action": action}


def _show(session: Session, found: Sequence[Budget]) -> None:
    texts = session.texts
    rows = [
        [
            item["node"],
            item["period_name"] or texts.word("word", item["period"]),
            item["limit"],
            item["used"],
            item["running"],
            item["left"],
            texts("budget.hours") if item["unit"] == "card-hours" else item["unit"],
            ", ".join(f"{line['percent']} % {texts.word('word', line['action'])}" for line in item["thresholds"]),
        ]
        for item in found
    ]
    session.output.table(COLUMNS, rows)
