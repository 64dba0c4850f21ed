"""Every text of the command line: key → (English, Chinese), with the same placeholders in both."""

from __future__ import annotations

from millpond.cli.catalogue.accounts import ACCOUNTS
from millpond.cli.catalogue.billing import BILLING
from millpond.cli.catalogue.budgets import BUDGETS
from millpond.cli.catalogue.helps import HELPS
from millpond.cli.catalogue.invoices import INVOICES
from millpond.cli.catalogue.machine import MACHINE
from millpond.cli.catalogue.messages import MESSAGES
from millpond.cli.catalogue.offline import OFFLINE
from millpond.cli.catalogue.options import OPTIONS
from millpond.cli.catalogue.prices import PRICES
from millpond.cli.catalogue.reasons import ADVICE, REASONS
from millpond.cli.catalogue.reports import REPORTS
from millpond.cli.catalogue.usage import USAGE
from millpond.cli.catalogue.words import FIELDS, HEADS, WORDS

CATALOGUE: dict[str, tuple[str, str]] = {
    **HELPS,
    **OPTIONS,
    **HEADS,
    **FIELDS,
    **WORDS,
    **REASONS,
    **ADVICE,
    **MESSAGES,
    **OFFLINE,
    **MACHINE,
    **BILLING,
    **ACCOUNTS,
    **PRICES,
    **BUDGETS,
    **INVOICES,
    **REPORTS,
    **USAGE,
}
