"""Rating files: account, month, rules, prices, and the facts or where they are.

`rating_load` reads YAML (and JSON, which is YAML); a file of JSON lines has all but the facts in its first line, and a
fact in each of the others (`rating_lines`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import tzinfo
from decimal import Decimal
from typing import Final

from millpond.billing.currencies import currency_find
from millpond.billing.money import decimal_parse
from millpond.billing.pipeline import Account
from millpond.billing.prices import PriceBook
from millpond.billing.rating import Rules
from millpond.domain.errors import InvalidInput
from millpond.files.fields import (
    Fields,
    boolean_parse,
    integer_between,
    listing_read,
    scalar_read,
    text_parse,
)
from millpond.files.prices import MAX_PRICES, PriceReader
from millpond.files.rating_facts import fact_read
from millpond.files.tree import SNAPSHOT_FILE_LIMIT, Node, Scalar, tree_from_yaml
from millpond.metering.facts import Fact
from millpond.metering.hours import Period, month_period

FILE_KEYS: Final = ("account", "period", "rules", "prices", "facts")
ACCOUNT_KEYS: Final = ("name", "zone", "currency", "tax_rate")
RULE_KEYS: Final = ("minimum_seconds", "increment_seconds", "bill_lost_work")

MAX_FACTS: Final = 1_000_000
DAY: Final = 86_400

Zones = Callable[[str], tzinfo]
"""Finds a zone by its name; raises `InvalidInput`."""


@dataclass(frozen=True, slots=True)
class RatingFile:
    """``facts`` as they stand in the file, unsorted; ``facts_path``: they are JSON lines in another file."""

    account: Account
    period: Period
    rules: Rules
    book: PriceBook
    facts: tuple[Fact, ...] = ()
    facts_path: str = ""


def rating_load(text: str, source: str, zones: Zones) -> RatingFile:
    """A rating file.  Raises `InvalidInput` with line and key."""
    return rating_read(tree_from_yaml(text, source, SNAPSHOT_FILE_LIMIT), zones)


def rating_read(node: Node, zones: Zones, *, facts_follow: bool = False) -> RatingFile:
    """The tree of a rating file; ``facts_follow``: of the first line of JSON lines, which has no facts itself."""
    known = FILE_KEYS[:-1] if facts_follow else FILE_KEYS
    fields = Fields(node, known, "a rating file")
    account = _account(fields.required_node("account", "{name: broker, zone: Asia/Shanghai, currency: CNY}"), zones)
    period = fields.required("period", lambda text: month_period(text, account.zone), "2026-11")
    rules = _rules(fields.node("rules"))
    book = _prices(fields.node("prices"), account)
    if facts_follow:
        return RatingFile(account, period, rules, book)
    facts = fields.required_node("facts", "[{id: f1, time: 2026-11-30T14:20:00+08:00, event: started, ...}]")
    if isinstance(facts, Scalar):
        return RatingFile(account, period, rules, book, facts_path=scalar_read(facts, text_parse(1000, "path")))
    return RatingFile(account, period, rules, book, listing_read(facts, fact_read, MAX_FACTS))


def _account(node: Node, zones: Zones) -> Account:
    fields = Fields(node, ACCOUNT_KEYS, "an account")
    return Account(
        fields.value("name", text_parse(200, "name"), ""),
        fields.required("zone", zones, "Asia/Shanghai"),
        fields.required("currency", currency_find, "CNY"),
        fields.value("tax_rate", _tax_rate, Decimal(0)),
    )


def _tax_rate(text: str) -> Decimal:
    rate = decimal_parse(text, "a tax rate")
    if not 0 <= rate <= 1:
        raise InvalidInput(f"a tax rate of {text} is out of range", hint='from 0 to 1: write "0.06" for 6 %')
    return rate


def _rules(node: Node | None) -> Rules:
    if node is None:
        return Rules()
    fields = Fields(node, RULE_KEYS, "rules")
    return Rules(
        fields.value("minimum_seconds", integer_between("number of seconds", 0, DAY), 0),
        fields.value("increment_seconds", integer_between("number of seconds", 1, DAY), 1),
        fields.value("bill_lost_work", boolean_parse, default=False),
    )


def _prices(node: Node | None, account: Account) -> PriceBook:
    book = PriceBook()
    reader = PriceReader(account.currency, account.zone)
    if node is not None:
        listing_read(node, lambda item: reader.read(item, book.add), MAX_PRICES)
    return book
