"""The ledger: a projection of accounts, transfers and resolutions, and the rules for adding to them.

Whoever writes reads first: a `Batch` carries the version of each account that its decision rested on, and is refused
when one of them has moved on (`STALE_BALANCE`): two decisions that race for the same money cannot both be carried out.
A batch is added whole or not at all.  Adding the same again changes nothing; the same id with other content is an
error.

In PostgreSQL: ``ledger_accounts`` carries posted, held and version of its account (CHECK: a guarded kind has posted
>= held).  For accounts of a tenant they are updated in the transaction that inserts the rows, behind the lock of
their row; balances of the platform's (cash, earnings) are sums of their entries, so that nobody queues for one row.
The store loads the rows that a batch touches as a `Ledger` and adds the batch to that: what is refused is decided
here.  What this module counts anew (`ledger_check`) is the audit query.  ``accounts.sealed_until`` says how far an
owner's periods are closed, and a trigger on entries refuses earlier ``booked_at``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from millpond.billing.currencies import Currency
from millpond.billing.money import Money, money_sum, money_zero
from millpond.billing.transfers import Account, Entry, Outcome, Resolution, Times, Transfer
from millpond.domain.errors import Conflict, InvalidInput, NotFound, Refused


@dataclass(frozen=True, slots=True)
class Balance:
    """``held`` is what pending transfers will take at most; what they will bring counts when it is posted."""

    posted: Money
    held: Money

    @property
    def available(self) -> Money:
        return self.posted - self.held


class Books(Protocol):
    """What decisions read: balances and the versions that they had.  A `Ledger`, or rows that a store has loaded."""

    def balance(self, account: Account, /) -> Balance: ...

    def version(self, account: Account, /) -> int: ...


@dataclass(frozen=True, slots=True)
class Line:
    """One posted entry of an account, for statements: the transfer and when."""

    transfer: Transfer
    amount: Money
    times: Times


@dataclass(frozen=True, slots=True)
class Batch:
    """What is added in one step.  ``expect``: account id → version that was read; those not named are not checked."""

    transfers: tuple[Transfer, ...] = ()
    resolutions: tuple[Resolution, ...] = ()
    expect: Mapping[str, int] = field(default_factory=dict)

    def joined(self, other: Batch) -> Batch:
        """Both as one step.  Their decisions rested on the same versions, or `Conflict`."""
        for account, version in other.expect.items():
            if self.expect.get(account, version) != version:
                raise _stale(account)
        return Batch(
            self.transfers + other.transfers,
            self.resolutions + other.resolutions,
            {**self.expect, **other.expect},
        )


def _stale(account: str) -> Conflict:
    return Conflict(
        f"{account} has changed since it was read", hint="read it again and decide again", code="STALE_BALANCE"
    )


class Ledger:
    """All records, and the balances that follow from them.  Changed by `add` and `close` only."""

    def __init__(self) -> None:
        self.accounts: dict[str, Account] = {}
        self.transfers: dict[str, Transfer] = {}
        self.resolutions: dict[str, Resolution] = {}
        self.closed: dict[str, datetime] = {}
        self._balances: dict[str, Balance] = {}
        self._versions: dict[str, int] = {}
        self._touching: dict[str, list[Transfer]] = {}

    # Reading

    def version(self, account: Account) -> int:
        """How often the account was written to; 0 for one that never was."""
        return self._versions.get(account.id, 0)

    def balance(
        self, account: Account, booked_before: datetime | None = None, known_before: datetime | None = None
    ) -> Balance:
        """Now, or as of a moment, exclusive: what was booked, or what was known, before it."""
        if booked_before is None and known_before is None:
            return self._balances.get(account.id) or _nothing(account.unit)
        balance = _nothing(account.unit)
        for transfer in self._touching.get(account.id, ()):
            balance = self._counted(balance, account, transfer, booked_before, known_before)
        return balance

    def lines(self, account: Account, booked_from: datetime, booked_before: datetime) -> Iterator[Line]:
        """What was posted to the account in a half-open period, by booking time; equal times in order of writing."""
        found: list[Line] = []
        for transfer in self._touching.get(account.id, ()):
            posted = self._posted(transfer)
            if posted is not None and booked_from <= posted[1].booked_at < booked_before:
                found += [Line(transfer, amount, posted[1]) for amount in _amounts(posted[0], account)]
        return iter(sorted(found, key=lambda line: line.times.booked_at))

    def pending(self) -> Iterator[Transfer]:
        """Transfers that hold something now, oldest first."""
        return (one for one in self.transfers.values() if one.pending and one.id not in self.resolutions)

    def total(self, unit: Currency) -> Money:
        """Over all accounts of a unit: always zero."""
        return money_sum(
            (balance.posted for balance in self._balances.values() if balance.posted.currency == unit), unit
        )

    def _counted(
        self, balance: Balance, account: Account, transfer: Transfer, booked: datetime | None, known: datetime | None
    ) -> Balance:
        if not _seen(transfer.times, booked, known):
            return balance
        if not transfer.pending:
            return _posting(balance, transfer.entries, account)
        resolution = self.resolutions.get(transfer.id)
        if resolution is None or not _seen(resolution.times, booked, known):
            return _holding(balance, transfer, account)
        return _posting(balance, resolution.entries, account)

    def _posted(self, transfer: Transfer) -> tuple[tuple[Entry, ...], Times] | None:
        if not transfer.pending:
            return transfer.entries, transfer.times
        resolution = self.resolutions.get(transfer.id)
        return (resolution.entries, resolution.times) if resolution is not None else None

    # Being a part of a larger one

    def recall(self, account: Account, balance: Balance, version: int) -> None:
        """Take in a balance that stands elsewhere, before anything is added: a store loads what a batch touches.

        Such a part knows balances of now, and decides as the whole would; of the past it knows what it is told.
        """
        self.accounts[account.id] = account
        self._balances[account.id] = balance
        self._versions[account.id] = version

    def recall_transfer(self, transfer: Transfer, resolution: Resolution | None = None) -> None:
        """Take in a record whose effect the balances have already."""
        self.transfers[transfer.id] = transfer
        for account in (entry.account for entry in transfer.entries):
            self.accounts.setdefault(account.id, account)
            self._touching.setdefault(account.id, []).append(transfer)
        if resolution is not None:
            self.resolutions[transfer.id] = resolution

    # Writing

    def close(self, owner: str, until: datetime) -> None:
        """From now on nothing is booked before `until` for `owner`.  Closing less than was closed is refused."""
        before = self.closed.get(owner)
        if before is not None and until < before:
            raise Refused(
                f"the books of {owner} are closed until {before.isoformat()}",
                hint="book corrections in the open period",
                code="PERIOD_CLOSED",
            )
        self.closed[owner] = until

    def add(self, batch: Batch) -> bool:
        """Add all of `batch`, or nothing; whether anything was new.  A batch that is known already is not an error.

        Raises `Conflict` (``TRANSFER_DIFFERS``, ``ALREADY_RESOLVED``, ``STALE_BALANCE``), `Refused` (``OVERDRAWN``,
        ``PERIOD_CLOSED``, ``NOT_EXPIRED``), `NotFound` and `InvalidInput`.
        """
        transfers = self._new_transfers(batch.transfers)
        resolutions = self._new_resolutions(batch.resolutions, transfers)
        if not transfers and not resolutions:
            return False
        for account, version in batch.expect.items():
            if self._versions.get(account, 0) != version:
                raise _stale(account)
        balances = self._balances_after(transfers, resolutions)
        self.transfers.update(transfers)
        self.resolutions.update(resolutions)
        for transfer in transfers.values():
            for entry in transfer.entries:
                self.accounts.setdefault(entry.account.id, entry.account)
                self._touching.setdefault(entry.account.id, []).append(transfer)
        for name, balance in balances.items():
            self._balances[name] = balance
            self._versions[name] = self._versions.get(name, 0) + 1
        return True

    def _new_transfers(self, transfers: Iterable[Transfer]) -> dict[str, Transfer]:
        new: dict[str, Transfer] = {}
        for transfer in transfers:
            known = self.transfers.get(transfer.id) or new.get(transfer.id)
            if known is None:
                self._open_check(transfer.times, transfer.entries)
                new[transfer.id] = transfer
            elif known.digest != transfer.digest:
                raise Conflict(
                    f"{' '.join(transfer.source)} is booked already, with other content",
                    hint="book the difference as a correction with a source of its own",
                    code="TRANSFER_DIFFERS",
                    details={"transfer": transfer.id},
                )
        return new

    def _new_resolutions(
        self, resolutions: Iterable[Resolution], new_transfers: Mapping[str, Transfer]
    ) -> dict[str, Resolution]:
        new: dict[str, Resolution] = {}
        for resolution in resolutions:
            known = self.resolutions.get(resolution.transfer) or new.get(resolution.transfer)
            if known is None:
                transfer = self.transfers.get(resolution.transfer) or new_transfers.get(resolution.transfer)
                _resolution_check(resolution, transfer)
                assert transfer is not None  # noqa: S101  else NotFound was raised
                self._open_check(resolution.times, transfer.entries)
                new[resolution.transfer] = resolution
            elif known.digest != resolution.digest:
                raise Conflict(
                    f"{resolution.transfer} is {known.outcome} already, and a pending transfer is resolved once",
                    hint="book the difference as a transfer of its own",
                    code="ALREADY_RESOLVED",
                    details={"transfer": resolution.transfer, "outcome": known.outcome.value},
                )
        return new

    def _open_check(self, times: Times, entries: Iterable[Entry]) -> None:
        for entry in entries:
            closed = self.closed.get(entry.account.owner)
            if closed is not None and times.booked_at < closed:
                raise Refused(
                    f"the books of {entry.account.owner or 'the platform'} are closed until {closed.isoformat()}",
                    hint="book it in the open period; its service period says when it was used",
                    code="PERIOD_CLOSED",
                )

    def _balances_after(
        self, transfers: Mapping[str, Transfer], resolutions: Mapping[str, Resolution]
    ) -> dict[str, Balance]:
        """New balances of the touched accounts.  `Refused` when a guarded one would be overdrawn at the end."""
        after: dict[str, Balance] = {}
        touched: dict[str, Account] = {}

        def read(account: Account) -> Balance:
            touched[account.id] = account
            return after.get(account.id) or self.balance(account)

        for transfer in transfers.values():
            for account in (entry.account for entry in transfer.entries):
                change = _holding if transfer.pending else _posting_of
                after[account.id] = change(read(account), transfer, account)
        for resolution in resolutions.values():
            held = self.transfers.get(resolution.transfer) or transfers[resolution.transfer]
            for account in (entry.account for entry in held.entries):
                freed = _freeing(read(account), held, account)
                after[account.id] = _posting(freed, resolution.entries, account)
        for name, account in touched.items():
            _guard_check(account, after[name])
        return after


def _nothing(unit: Currency) -> Balance:
    return Balance(money_zero(unit), money_zero(unit))


def _amounts(entries: Iterable[Entry], account: Account) -> Iterator[Money]:
    return (entry.amount for entry in entries if entry.account == account)


def _posting(balance: Balance, entries: Iterable[Entry], account: Account) -> Balance:
    for amount in _amounts(entries, account):
        balance = Balance(balance.posted + amount, balance.held)
    return balance


def _posting_of(balance: Balance, transfer: Transfer, account: Account) -> Balance:
    return _posting(balance, transfer.entries, account)


def _held(transfer: Transfer, account: Account) -> Money:
    """What a pending transfer takes at most from the account."""
    taken = (-amount for amount in _amounts(transfer.entries, account) if amount.amount < 0)
    return money_sum(taken, account.unit)


def _holding(balance: Balance, transfer: Transfer, account: Account) -> Balance:
    return Balance(balance.posted, balance.held + _held(transfer, account))


def _freeing(balance: Balance, transfer: Transfer, account: Account) -> Balance:
    return Balance(balance.posted, balance.held - _held(transfer, account))


def _seen(times: Times, booked: datetime | None, known: datetime | None) -> bool:
    return (booked is None or times.booked_at < booked) and (known is None or times.created_at < known)


def _guard_check(account: Account, balance: Balance) -> None:
    if account.guarded and balance.available.amount < 0:
        raise Refused(
            f"{account.id} would be overdrawn by {-balance.available}",
            hint="hold less, top up, or wait until a hold is freed",
            code="OVERDRAWN",
            details={"account": account.id, "over": (-balance.available).minor()},
        )


def _resolution_check(resolution: Resolution, transfer: Transfer | None) -> None:
    """`NotFound`, `Conflict`, `Refused` or `InvalidInput` unless `resolution` may end `transfer`."""
    if transfer is None:
        raise NotFound(f"there is no transfer {resolution.transfer}", hint="book the pending transfer first")
    if not transfer.pending:
        raise Conflict(
            f"{' '.join(transfer.source)} is not pending",
            hint="take a posted transfer back by one in the other direction",
            code="NOT_PENDING",
        )
    times, before = resolution.times, transfer.times
    if times.booked_at < before.booked_at or times.created_at < before.created_at:
        raise InvalidInput("a transfer cannot be resolved before it was booked", hint="check the times")
    early = transfer.expires_at is None or times.booked_at < transfer.expires_at
    if resolution.outcome is Outcome.EXPIRED and early:
        raise Refused(
            f"{' '.join(transfer.source)} has not expired", hint="void it to free it early", code="NOT_EXPIRED"
        )
    held = {entry.account.id: entry.amount for entry in transfer.entries}
    for entry in resolution.entries:
        limit = held.get(entry.account.id)
        if limit is None or not _within(entry.amount, limit):
            raise InvalidInput(
                f"{entry.amount} on {entry.account.id} is more than was held",
                hint="post at most what was held, and the rest as a transfer of its own",
                code="OVER_HELD",
            )


def _within(amount: Money, limit: Money) -> bool:
    """Whether `amount` has the sign of `limit` and is no larger."""
    return money_zero(limit.currency) <= amount <= limit or limit <= amount <= money_zero(limit.currency)


def ledger_check(ledger: Ledger) -> list[str]:
    """Every broken rule, found by counting all records anew; empty when all is well (the nightly audit)."""
    found: list[str] = []
    balances: dict[str, Balance] = {}
    for transfer in ledger.transfers.values():
        resolution = ledger.resolutions.get(transfer.id)
        entries = () if resolution is None else resolution.entries
        for account in (entry.account for entry in transfer.entries):
            balance = balances.get(account.id) or _nothing(account.unit)
            if not transfer.pending:
                balance = _posting(balance, transfer.entries, account)
            elif resolution is None:
                balance = _holding(balance, transfer, account)
            balances[account.id] = _posting(balance, entries, account)
    for name, account in ledger.accounts.items():
        if ledger.balance(account) != balances.get(name, _nothing(account.unit)):
            found.append(f"{name}: the balance is not the sum of its entries")
        if account.guarded and ledger.balance(account).available.amount < 0:
            found.append(f"{name}: overdrawn")
    units = sorted({account.unit for account in ledger.accounts.values()}, key=lambda unit: unit.code)
    totals = ((unit, ledger.total(unit)) for unit in units)
    found += [f"{unit}: all accounts sum to {total}, not to zero" for unit, total in totals if total]
    return found
