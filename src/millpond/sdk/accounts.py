"""Billing accounts: settings, balances, grants, top-ups, payments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypedDict, cast

from millpond.sdk.group import Group, key_make, path_join


class Account(TypedDict):
    tenant: str
    currency: str
    zone: str
    opened_at: str
    sealed_until: str
    tax_rate: str
    inclusive: bool
    mode: str
    minimum_seconds: int
    increment_seconds: int
    bill_lost_work: bool
    notice: int
    stretch: int
    title: str
    address: str
    tax_id: str


class GrantScope(TypedDict):
    skus: list[str]
    classes: list[str]
    projects: list[str]


class Grant(TypedDict):
    id: str
    kind: str
    unit: str
    amount: str
    card_hours: str
    granted_at: str
    expires_at: str | None
    priority: int
    scope: GrantScope
    price: str


class GrantBalance(Grant):
    posted: str
    held: str
    available: str
    live: bool


class CardTime(TypedDict):
    posted: int
    held: int
    available: int
    card_hours: str


class Balance(TypedDict):
    tenant: str
    currency: str
    mode: str
    at: str
    available: str
    posted: str
    held: str
    owed: str
    accrued: str
    deferred: str
    packs: CardTime
    grants: list[GrantBalance]


class LedgerLine(TypedDict):
    account: str
    kind: str
    unit: str
    amount: str
    text: str
    source: list[str]
    transfer: str
    booked_at: str
    created_at: str
    service_from: str | None
    service_to: str | None


class Moved(TypedDict):
    tenant: str
    amount: str
    currency: str
    transfers: list[str]


class Accounts(Group):
    """Amounts are texts with all decimals of the currency (``"12.00"``); times are ISO 8601 with a zone."""

    def list(self) -> Iterator[Account]:
        return self._transport.pages(path_join("accounts"))

    def get(self, tenant: str) -> Account:
        return cast("Account", self._transport.get(path_join("accounts", tenant)))

    def open(self, tenant: str, settings: Mapping[str, object]) -> Account:
        body = {"tenant": tenant, **settings}
        return cast("Account", self._transport.send("POST", path_join("accounts"), body=body, key=key_make()))

    def set(self, tenant: str, settings: Mapping[str, object]) -> Account:
        return cast("Account", self._transport.send("PATCH", path_join("accounts", tenant), body=dict(settings)))

    def balance(self, tenant: str, as_of: str = "", known_at: str = "", *, every: bool = False) -> Balance:
        """Now, or what was booked before ``as_of``, or written before ``known_at``.

        ``every``: also grants of which nothing is left.
        """
        params = {"as_of": as_of, "known_at": known_at, "all": every}
        return cast("Balance", self._transport.get(path_join("accounts", tenant, "balance"), params))

    def lines(
        self, tenant: str, kinds: Sequence[str] = (), grant: str = "", begin: str = "", to: str = ""
    ) -> Iterator[LedgerLine]:
        """Bookings, the last first."""
        params = {"kind": list(kinds), "grant": grant, "from": begin or None, "to": to or None}
        return self._transport.pages(path_join("accounts", tenant, "lines"), params)

    def beancount(self, tenant: str = "", zone: str = "", before: str = "") -> str:
        """The bookings of a tenant, or (empty) of everybody, as beancount text."""
        path = path_join("accounts", tenant, "beancount") if tenant else path_join("ledger", "beancount")
        return self._transport.text(path, {"zone": zone, "before": before})

    def top_up(self, tenant: str, amount: str, provider: str, reference: str, key: str = "") -> Grant:
        """Paid money.  ``key``: give one of your own where the call may be repeated by another process."""
        body = {"amount": amount, "provider": provider, "reference": reference}
        return cast("Grant", self._post(tenant, "top-ups", body, key))

    def trial(self, tenant: str, identity: str, amount: str = "", days: int = 0) -> Grant:
        """``identity``: 64 hex digits, a keyed digest of what was verified."""
        body = {"identity": identity} | ({"amount": amount} if amount else {}) | ({"days": days} if days else {})
        return cast("Grant", self._post(tenant, "trial", body))

    def grant(self, tenant: str, gift: Mapping[str, object]) -> Grant:
        """A voucher or a pack."""
        return cast("Grant", self._post(tenant, "grants", dict(gift)))

    def revoke(self, tenant: str, grant: str) -> Grant:
        path = path_join("accounts", tenant, "grants", grant, "revoke")
        return cast("Grant", self._transport.send("POST", path, key=key_make()))

    def pay(self, tenant: str, amount: str, provider: str, reference: str) -> Moved:
        """A payment of what is owed."""
        body = {"amount": amount, "provider": provider, "reference": reference}
        return cast("Moved", self._post(tenant, "payments", body))

    def pay_back(self, tenant: str, amount: str, provider: str, reference: str) -> Moved:
        """Free paid money goes back to whoever paid it."""
        body = {"amount": amount, "provider": provider, "reference": reference}
        return cast("Moved", self._post(tenant, "paybacks", body))

    def _post(self, tenant: str, what: str, body: Mapping[str, object], key: str = "") -> object:
        path = path_join("accounts", tenant, what)
        return self._transport.send("POST", path, body=dict(body), key=key or key_make())
