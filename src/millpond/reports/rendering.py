"""A report or an invoice in the format that was asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum

from millpond.billing.documents import InvoiceDocument, document_check
from millpond.domain.errors import InvalidInput
from millpond.reports.csv_file import report_csv
from millpond.reports.focus import focus_csv
from millpond.reports.invoices import invoice_report
from millpond.reports.json_lines import report_json
from millpond.reports.pdf_file import report_pdf
from millpond.reports.tables import Report
from millpond.reports.xlsx_file import report_xlsx


class Format(StrEnum):
    """``focus``: FOCUS 1.2 as CSV, of invoices only."""

    JSON = "json"
    CSV = "csv"
    XLSX = "xlsx"
    PDF = "pdf"
    FOCUS = "focus"


MEDIA: dict[Format, str] = {
    Format.JSON: "application/x-ndjson",
    Format.CSV: "text/csv; charset=utf-8",
    Format.FOCUS: "text/csv; charset=utf-8",
    Format.XLSX: "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    Format.PDF: "application/pdf",
}
SUFFIX: dict[Format, str] = {
    Format.JSON: "jsonl",
    Format.CSV: "csv",
    Format.FOCUS: "focus.csv",
    Format.XLSX: "xlsx",
    Format.PDF: "pdf",
}

_WRITERS: dict[Format, Callable[[Report, str], Iterator[bytes]]] = {
    Format.JSON: report_json,
    Format.CSV: report_csv,
    Format.XLSX: report_xlsx,
    Format.PDF: report_pdf,
}


def report_render(report: Report, form: Format, lang: str) -> Iterator[bytes]:
    """The file in pieces.  `InvalidInput` for a format that only invoices have."""
    if form not in _WRITERS:
        raise InvalidInput(f"a report cannot be {form.value}", hint="focus is for invoices: millpond invoice export")
    return _WRITERS[form](report, lang)


def invoice_render(document: InvoiceDocument, form: Format, lang: str) -> Iterator[bytes]:
    """The file in pieces.  `Conflict` (``DOES_NOT_RECONCILE``) if its figures contradict each other.

    The lines are summed once before the first piece is given away.
    """
    document_check(document)
    if form is Format.FOCUS:
        return focus_csv(document)
    return report_render(invoice_report(document, lang, paper=form is Format.PDF), form, lang)
