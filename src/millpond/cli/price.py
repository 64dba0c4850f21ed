"""``millpond price``: what a card-hour costs, and adding to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from millpond.cli.job_input import file_read
from millpond.cli.lazy import argument, group, option, verb
from millpond.cli.output import Column
from millpond.cli.session import Session
from millpond.cli.values import local
from millpond.files.prices import price_file_check
from millpond.files.tree import JOB_FILE_LIMIT, Listing, Node, Scalar, tree_from_yaml
from millpond.files.tree import Mapping as Block
from millpond.zones import zone_find

if TYPE_CHECKING:
    from millpond.sdk.prices import Price

COLUMNS = (
    Column("price_version"),
    Column("sku"),
    Column("class"),
    Column("amount", right=True),
    Column("currency"),
    Column("from_time"),
    Column("to_time"),
    Column("agreed"),
)

price = group("price")


@verb(price, "list")
def price_list(session: Session) -> None:
    """List prices, and what was agreed with the tenants that the caller may see."""
    found = list(session.client.prices.list(session.tenant))
    if session.json:
        session.output.items(found)
    elif not found:
        session.output.note(session.texts("price.empty"))
    else:
        _show(session, found)


@verb(price, "add")
@argument("version")
@option("--sku", metavar="MODEL", required=True, help="price.sku")
@option("--class", "klass", metavar="CLASS", default="*", show_default=True, help="price.class")
@option("--price", "amount", metavar="AMOUNT", required=True, help="price.amount")
@option("--currency", metavar="CODE", required=True, help="price.currency")
@option("--from", "start", metavar="DATE", required=True, help="price.from")
@option("--to", "end", metavar="DATE", help="price.to")
@option("--zone", metavar="ZONE", default="", help="price.zone")
@option("--contract", metavar="TENANT", default="", help="price.contract")
def price_add(
    session: Session,
    version: str,
    sku: str,
    klass: str,
    amount: str,
    currency: str,
    start: str,
    end: str | None,
    zone: str,
    contract: str,
) -> None:
    """One version."""
    item = {"version": version, "sku": sku, "class": klass, "price": amount, "from": start}
    if end:
        item["to"] = end
    document: dict[str, object] = {"currency": currency, "prices": [item]}
    document |= {key: value for key, value in (("zone", zone), ("tenant", contract)) if value}
    _add(session, document)


@verb(price, "import")
@argument("file")
def price_import(session: Session, file: str) -> None:
    """All versions of a file, or none.  What is wrong in the file itself is found here, with its line."""
    text, source = file_read(file)
    tree = tree_from_yaml(text, source, JOB_FILE_LIMIT)
    price_file_check(tree, zone_find)
    document = _plain(tree)
    assert isinstance(document, dict)  # noqa: S101  a price file is a block of keys
    _add(session, document)


def _add(session: Session, document: Mapping[str, object]) -> None:
    added = session.client.prices.add(document)["items"]
    if session.json:
        session.output.items(added)
        return
    _show(session, added)
    session.output.note(session.texts("price.added", count=len(added)), "green")


def _show(session: Session, found: Sequence[Price]) -> None:
    rows = [
        [
            item["version"],
            item["sku"],
            item["class"],
            item["price"],
            item["currency"],
            local(item["starts_at"]),
            local(item["ends_at"]),
            item["tenant"],
        ]
        for item in found
    ]
    session.output.table(COLUMNS, rows)


def _plain(node: Node) -> object:
    """A tree as JSON; the server checks it, and says where something is wrong."""
    if isinstance(node, Block):
        return {entry.key: _plain(entry.value) for entry in node.entries}
    if isinstance(node, Listing):
        return [_plain(item) for item in node.items]
    return node.text if isinstance(node, Scalar) else None
