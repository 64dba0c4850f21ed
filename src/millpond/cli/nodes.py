"""``millpond nodes``: machines of the pool."""

from __future__ import annotations

from millpond.cli.lazy import argument, group, option, verb
from millpond.cli.output import Cell, Column
from millpond.cli.session import Session
from millpond.cli.values import cards, memory, state
from millpond.domain.amounts import milli_format
from millpond.sdk.answers import Node

COLUMNS = (
    Column("node"),
    Column("state"),
    Column("model"),
    Column("cards", right=True),
    Column("used", right=True),
    Column("bad", right=True),
    Column("cpu", right=True),
    Column("memory", right=True),
    Column("jobs", right=True),
    Column("kind"),
)


nodes = group("nodes")


def _row(session: Session, node: Node) -> list[Cell | str]:
    kind = node["cards"]
    return [
        node["name"],
        state(session.texts, node["condition"]),
        f"{kind['model']} {memory(kind['memory'])}".strip() if kind else "",
        str(kind["count"]) if kind else "0",
        cards(node["used"]),
        str(len(node["bad_cards"])),
        f"{milli_format(node['used_cpu'])}/{milli_format(node['cpu'])}" if node["cpu"] else "",
        f"{memory(node['used_memory']) or '0'}/{memory(node['memory'])}" if node["memory"] else "",
        str(node["jobs"]),
        session.texts("word.simulated") if node["simulated"] else session.texts("word.real"),
    ]


@verb(nodes, "list")
def nodes_list(session: Session) -> None:
    """Every node with what is taken of it."""
    found = list(session.client.nodes.list())
    if session.json:
        session.output.items(found)
    elif not found:
        session.output.note(session.texts("nodes.empty"))
    else:
        session.output.table(COLUMNS, [_row(session, node) for node in found])


def _done(session: Session, node: Node) -> None:
    if session.json:
        session.output.data(node)
    else:
        session.output.table(COLUMNS, [_row(session, node)])


@verb(nodes, "cordon")
@argument("node")
def nodes_cordon(session: Session, node: str) -> None:
    """Nothing new starts there."""
    _done(session, session.client.nodes.cordon(node))


@verb(nodes, "uncordon")
@argument("node")
def nodes_uncordon(session: Session, node: str) -> None:
    """Jobs may start there again."""
    _done(session, session.client.nodes.uncordon(node))


@verb(nodes, "drain")
@argument("node")
def nodes_drain(session: Session, node: str) -> None:
    """Cordon it, and ask its jobs to leave; they continue elsewhere."""
    _done(session, session.client.nodes.drain(node))


@verb(nodes, "fault")
@argument("node")
@option("--cause", metavar="TEXT", default="", help="nodes.cause")
def nodes_fault(session: Session, node: str, cause: str) -> None:
    """Lose a simulated node on purpose."""
    _done(session, session.client.nodes.fault(node, cause))


@verb(nodes, "repair")
@argument("node")
def nodes_repair(session: Session, node: str) -> None:
    """Bring a simulated node back."""
    _done(session, session.client.nodes.repair(node))
