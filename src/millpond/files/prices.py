"""Price versions in files and bodies: the same keys in a rating file, in ``millpond price import`` and in the API."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import tzinfo
from typing import Final

from millpond.billing.currencies import Currency, currency_find
from millpond.billing.money import Money, decimal_parse
from millpond.billing.prices import ANY, PriceVersion, version_check
from millpond.domain.errors import InvalidInput, MillpondError
from millpond.files.fields import Fields, datetime_parse, listing_read, text_parse
from millpond.files.tree import Node
from millpond.metering.hours import Hours, instant

PRICE_KEYS: Final = ("version", "sku", "class", "price", "from", "to")
FILE_KEYS: Final = ("currency", "zone", "tenant", "prices")
MAX_PRICES: Final = 100_000

_DATE = re.compile(r"\d{4}-\d\d-\d\d\Z", re.ASCII)


class PriceReader:
    """Reads versions in one currency; their dates are those of ``zone``.  ``contract``: agreed with one tenant."""

    def __init__(self, currency: Currency, zone: tzinfo, *, contract: bool = False) -> None:
        self._currency = currency
        self._zone = zone
        self._hours = Hours(zone)
        self._contract = contract

    def read(self, node: Node, add: Callable[[PriceVersion], None]) -> None:
        """Give the version in a block of keys to `add`; what either refuses is `InvalidInput` with its position."""
        fields = Fields(node, PRICE_KEYS, "a price")
        name = text_parse(200, "name")
        price = fields.required("price", self._amount, '"12.00"')
        try:
            add(
                PriceVersion(
                    fields.required("version", name, "v1"),
                    fields.required("sku", name, "A800-80GB"),
                    fields.value("class", name, ANY),
                    price,
                    fields.required("from", self._moment, "2026-01-01"),
                    fields.optional("to", self._moment),
                    self._contract,
                )
            )
        except MillpondError as error:
            if isinstance(error, InvalidInput) and error.position is not None:
                raise
            where = fields.entry("to" if error.reason == "EMPTY" else "from").value.pos
            raise InvalidInput(error.message, hint=error.hint, code=error.reason, position=where) from error

    def _amount(self, text: str) -> Money:
        amount = decimal_parse(text, "a price")
        if amount < 0:
            raise InvalidInput(
                f"the price {text} is negative",
                hint="give a credit note for what was charged too much",
                code="NEGATIVE_PRICE",
            )
        return Money(amount, self._currency)

    def _moment(self, text: str) -> int:
        """A date or a full hour, in the zone unless the text names one."""
        text = text.strip()
        try:
            time = datetime_parse(f"{text}T00:00" if _DATE.match(text) else text)
        except InvalidInput as error:
            raise InvalidInput(f"{text[:80]!r} is not a date", hint="write it like 2026-12-01") from error
        moment = instant(time.replace(tzinfo=self._zone) if time.tzinfo is None else time)
        if self._hours.around(moment)[0] != moment:
            raise InvalidInput(f"{text!r} is not a full hour", hint="prices change at full hours of the account's zone")
        return moment


@dataclass(frozen=True, slots=True)
class PriceFile:
    """A price list, or the contract prices of ``tenant``; ``zone`` may be empty; `prices_read` reads ``prices``."""

    currency: Currency
    zone: str
    tenant: str
    prices: Node


def price_file_read(node: Node) -> PriceFile:
    """The tree of a price file, or of a body.  Raises `InvalidInput` with the position."""
    fields = Fields(node, FILE_KEYS, "a price list")
    return PriceFile(
        fields.required("currency", currency_find, "CNY"),
        fields.value("zone", text_parse(100, "zone"), ""),
        fields.value("tenant", text_parse(63, "name"), ""),
        fields.required_node("prices", '[{version: v1, sku: A800-80GB, price: "12.00", from: 2026-01-01}]'),
    )


def prices_read(file: PriceFile, zone: tzinfo, add: Callable[[PriceVersion], None]) -> None:
    """Give every version of a price file to `add`, in order."""
    reader = PriceReader(file.currency, zone, contract=bool(file.tenant))
    listing_read(file.prices, lambda item: reader.read(item, add), MAX_PRICES)


def price_file_check(node: Node, zones: Callable[[str], tzinfo]) -> None:
    """What is wrong in a price file by itself, with its position; what else there is only the server knows."""
    file = price_file_read(node)
    known: list[PriceVersion] = []

    def add(version: PriceVersion) -> None:
        version_check(known, version)
        known.append(version)

    prices_read(file, zones(file.zone or "UTC"), add)
