"""``millpond invoice export``: an issued invoice as a file."""

from __future__ import annotations

import click

from millpond.cli.invoice import invoice
from millpond.cli.lazy import argument, option, verb
from millpond.cli.report import SUFFIX, form_of, pieces_put
from millpond.cli.session import Session

FORMATS = ("pdf", "xlsx", "csv", "focus", "json")


@verb(invoice, "export")
@argument("number")
@option("--format", "form", type=click.Choice(FORMATS), default=None, help="invoice.export_format")
@option("-o", "--output", "path", metavar="FILE", default="", help="invoice.export_output")
def invoice_export(session: Session, number: str, form: str | None, path: str) -> None:
    """PDF unless another format is named, or the file's name says one."""
    form = form or (form_of(path) if path not in ("", "-") else "pdf")
    target = path or f"{number}.{SUFFIX.get(form, form)}"
    pieces_put(session, target, lambda: session.client.reports.invoice(number, form, session.texts.lang))
