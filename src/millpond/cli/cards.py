"""``millpond cards``: every card and who is on it."""

from __future__ import annotations

import click

from millpond.cli.lazy import argument, group, option, verb
from millpond.cli.output import Cell, Column
from millpond.cli.session import Session
from millpond.cli.values import cards as cards_text
from millpond.cli.values import memory, owner, state
from millpond.sdk.answers import Card, CardUse

COLUMNS = (
    Column("card"),
    Column("model"),
    Column("memory", right=True),
    Column("state"),
    Column("used", right=True),
    Column("job", fold=True),
    Column("kind"),
    Column("note", fold=True),
)


cards = group("cards")


def _row(session: Session, card: Card) -> list[Cell | str]:
    return [
        f"{card['node']}[{card['index']}]",
        card["model"],
        memory(card["memory"]),
        state(session.texts, card["health"]),
        cards_text(card["used"]),
        " ".join(_use(session, use) for use in card["uses"]),
        session.texts("word.simulated") if card["simulated"] else session.texts("word.real"),
        card["cause"],
    ]


def _use(session: Session, use: CardUse) -> str:
    name = use["job"] or session.texts("word.hidden")
    share = f":{cards_text(use['milli'])}" if use["milli"] < 1000 else ""
    if use["slice"]:
        share = f":mig-{use['slice']}@{use['slot']}"
    who = owner(use["tenant"], use["user"])
    return f"{name}{share}" + (f" ({who})" if who else "")


@verb(cards, "list")
@option("--node", metavar="NODE", default="", help="cards.node")
def cards_list(session: Session, node: str) -> None:
    """Every card: model, health, share in use, jobs."""
    found = [card for card in session.client.cards.list() if not node or card["node"] == node]
    if session.json:
        session.output.items(found)
    elif not found:
        session.output.note(session.texts("cards.empty"))
    else:
        session.output.table(COLUMNS, [_row(session, card) for card in found])


def _done(session: Session, card: Card) -> None:
    if session.json:
        session.output.data(card)
    else:
        session.output.table(COLUMNS, [_row(session, card)])


@verb(cards, "fault")
@argument("node")
@argument("index", type=click.IntRange(0, 4095))
@option("--cause", metavar="TEXT", default="", help="nodes.cause")
def cards_fault(session: Session, node: str, index: int, cause: str) -> None:
    """Break a simulated card on purpose."""
    _done(session, session.client.cards.fault(node, index, cause))


@verb(cards, "repair")
@argument("node")
@argument("index", type=click.IntRange(0, 4095))
def cards_repair(session: Session, node: str, index: int) -> None:
    """Take a card out of quarantine."""
    _done(session, session.client.cards.repair(node, index))
