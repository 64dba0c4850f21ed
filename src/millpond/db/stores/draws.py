"""Who paid a line of a prepaid invoice: what its job's holds took from grants, out of the ledger."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Text, and_, case, func, or_, select, type_coerce
from sqlalchemy.dialects.postgresql import ARRAY

from millpond.authz.actions import Action
from millpond.authz.actors import Actor
from millpond.authz.policy import authorize
from millpond.billing.burning import Draw
from millpond.billing.currencies import Currency
from millpond.billing.documents import DocumentLine, LineKind
from millpond.billing.issued import InvoiceRecord
from millpond.billing.money import Money, money_of_minor, money_zero
from millpond.billing.transfers import CARD_SECONDS, AccountKind, card_time
from millpond.db.session import Tx
from millpond.db.stores.grants import grant_list
from millpond.db.tables.invoices import INVOICE_LINES
from millpond.db.tables.ledger import LEDGER_ACCOUNTS, LEDGER_ENTRIES, LEDGER_RESOLUTIONS, LEDGER_TRANSFERS, POSTED

_GRANTED = (AccountKind.WALLET, AccountKind.CREDIT, AccountKind.PACK)


def draws_of(tx: Tx, actor: Actor, record: InvoiceRecord, line: DocumentLine) -> tuple[Draw, ...]:
    """What grants paid for a line, in burn order: money, or for a line of packs their card time.

    What a job's holds took in the month paid its lines one after the other, in the order in which they stand.
    """
    authorize(actor, Action.ACCOUNT_READ, record.account)
    unit = CARD_SECONDS if line.kind is LineKind.PACK else record.currency
    taken = _taken(tx, record, line.job, unit)
    grants = [grant for grant in grant_list(tx, actor, record.account) if grant.id in taken]
    grants.sort(key=lambda grant: grant.burn_key)
    skipped = _before(tx, record, line)
    left = card_time(line.milli_seconds) if line.kind is LineKind.PACK else line.net + line.tax
    nothing = money_zero(unit)
    draws: list[Draw] = []
    for grant in grants:
        amount = taken[grant.id]
        passed = min(amount, skipped)
        skipped -= passed
        part = min(amount - passed, left)
        if part > nothing:
            draws.append(Draw(grant, part))
            left -= part
    return tuple(draws)


def packs_taken(tx: Tx, actor: Actor, tenant: str, begin: datetime, end: datetime) -> dict[str, int]:
    """Job → milli-card-seconds that packs of card time have paid of use that began in a half-open time."""
    authorize(actor, Action.ACCOUNT_READ, tenant)
    held = LEDGER_TRANSFERS.alias()
    kind, named = (type_coerce(LEDGER_TRANSFERS.c.source, ARRAY(Text))[place] for place in (1, 2))
    job = case((kind == "hold", named), else_=type_coerce(held.c.source, ARRAY(Text))[2])
    begun = case((LEDGER_TRANSFERS.c.pending, LEDGER_RESOLUTIONS.c.service_from), else_=LEDGER_TRANSFERS.c.service_from)
    statement = (
        select(job.label("of_job"), func.sum(-LEDGER_ENTRIES.c.amount))
        .select_from(LEDGER_ACCOUNTS)
        .join(LEDGER_ENTRIES, LEDGER_ENTRIES.c.account == LEDGER_ACCOUNTS.c.id)
        .join(LEDGER_TRANSFERS, LEDGER_TRANSFERS.c.id == LEDGER_ENTRIES.c.transfer)
        .outerjoin(LEDGER_RESOLUTIONS, LEDGER_RESOLUTIONS.c.transfer == LEDGER_ENTRIES.c.transfer)
        .outerjoin(held, and_(kind == "over", held.c.id == named))
        .where(
            LEDGER_ACCOUNTS.c.owner == tenant,
            LEDGER_ACCOUNTS.c.kind == AccountKind.PACK,
            LEDGER_ACCOUNTS.c.unit == CARD_SECONDS,
            LEDGER_ENTRIES.c.phase == POSTED,
            kind.in_(("hold", "over")),
            begun >= begin,
            begun < end,
        )
        .group_by("of_job")
    )
    return {str(name): int(amount) for name, amount in tx.execute(statement)}


def _taken(tx: Tx, record: InvoiceRecord, job: str, unit: Currency) -> dict[str, Money]:
    """Grant → what holds of the job took from it in the month."""
    kind, named = (type_coerce(LEDGER_TRANSFERS.c.source, ARRAY(Text))[place] for place in (1, 2))
    held = select(LEDGER_TRANSFERS.c.id).where(kind == "hold", named == job)
    mine = or_(
        and_(kind == "hold", named == job),
        and_(kind == "over", named.in_(held)),
    )
    begun = case((LEDGER_TRANSFERS.c.pending, LEDGER_RESOLUTIONS.c.service_from), else_=LEDGER_TRANSFERS.c.service_from)
    statement = (
        select(LEDGER_ACCOUNTS.c.of, func.sum(-LEDGER_ENTRIES.c.amount))
        .join(LEDGER_ENTRIES, LEDGER_ENTRIES.c.account == LEDGER_ACCOUNTS.c.id)
        .join(LEDGER_TRANSFERS, LEDGER_TRANSFERS.c.id == LEDGER_ENTRIES.c.transfer)
        .outerjoin(LEDGER_RESOLUTIONS, LEDGER_RESOLUTIONS.c.transfer == LEDGER_ENTRIES.c.transfer)
        .where(
            LEDGER_ACCOUNTS.c.owner == record.account,
            LEDGER_ACCOUNTS.c.kind.in_(_GRANTED),
            LEDGER_ACCOUNTS.c.unit == unit,
            LEDGER_ENTRIES.c.phase == POSTED,
            mine,
            or_(begun.is_(None), and_(begun >= record.starts_at, begun < record.ends_at)),
        )
        .group_by(LEDGER_ACCOUNTS.c.of)
    )
    return {grant: money_of_minor(int(amount), unit) for grant, amount in tx.execute(statement)}


def _before(tx: Tx, record: InvoiceRecord, line: DocumentLine) -> Money:
    """What earlier lines of the same job come to."""
    packed = line.kind is LineKind.PACK
    amount = INVOICE_LINES.c.milli_seconds if packed else INVOICE_LINES.c.net + INVOICE_LINES.c.tax
    statement = select(func.coalesce(func.sum(amount), 0)).where(
        INVOICE_LINES.c.invoice == record.id,
        INVOICE_LINES.c.job == line.job,
        INVOICE_LINES.c.line < int(line.name),
        (INVOICE_LINES.c.kind == LineKind.PACK) == packed,
    )
    unit = CARD_SECONDS if packed else record.currency
    return money_of_minor(int(tx.execute(statement).scalar_one()), unit)
