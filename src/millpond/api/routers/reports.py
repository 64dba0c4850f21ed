"""Reports, and invoices as files."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from millpond.api.context import Deps, Plans, Who
from millpond.billing.currencies import currency_find
from millpond.billing.money import decimal_parse, money_parse
from millpond.billing.tco import TcoGiven
from millpond.reports.rendering import Format
from millpond.reports.usage import By
from millpond.services import reports

router = APIRouter(tags=["reports"])

Form = Annotated[Format, Query(alias="format", description="How it is written; `json` is JSON lines.")]
Lang = Annotated[str, Query(max_length=16, description="Language of heads and sentences: `en` or `zh`.")]
Month = Annotated[str, Query(max_length=10, description="Such as 2026-11; empty: the one that is not over yet.")]
Tenant = Annotated[str, Query(max_length=63, description="Only this tenant; empty: all that the caller may see.")]
Zone = Annotated[str, Query(max_length=64, description="IANA zone of month and days; empty: the account's, or UTC.")]
Group = Annotated[By, Query(description="What usage is summed by.")]
InvoiceName = Annotated[str, Path(max_length=64, description="Number or id of the invoice.")]
Amount = Annotated[str, Query(max_length=30, description="An amount in `currency`.")]
Number = Annotated[str, Query(max_length=30, description="A plain decimal number.")]

_BYTES = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_FILE: dict[int | str, dict[str, Any]] = {200: {"content": _BYTES, "description": "The file."}}


@router.get("/v1/reports/tco", response_class=StreamingResponse, responses=_FILE)
def tco_get(
    actor: Who,
    server: Amount,
    energy: Amount,
    yearly: Amount,
    power_kw: Number,
    cards: Annotated[int, Query(ge=1, le=1_000_000, description="Cards of the server.")] = 8,
    years: Annotated[int, Query(ge=1, le=30, description="Years of use.")] = 3,
    residual: Number = "0.10",
    pue: Number = "1.3",
    rental: Amount = "",
    currency: Annotated[str, Query(max_length=3, description="ISO 4217.")] = "CNY",
    form: Form = Format.JSON,
    lang: Lang = "en",
) -> StreamingResponse:
    """Cost of own cards over the years, by share sold, and the share at which they are cheaper than renting."""
    unit = currency_find(currency)
    given = TcoGiven(
        server=money_parse(server, unit),
        cards=cards,
        energy=money_parse(energy, unit),
        yearly=money_parse(yearly, unit),
        power_kw=_number(power_kw, "a power in kW"),
        years=years,
        residual=_number(residual, "a residual value"),
        pue=_number(pue, "a PUE"),
        rental=money_parse(rental, unit) if rental else None,
    )
    return _Sent(reports.tco_file(actor, given, form, lang))


@router.get("/v1/reports/{kind}", response_class=StreamingResponse, responses=_FILE)
def report_get(
    deps: Deps,
    standings: Plans,
    actor: Who,
    kind: Annotated[reports.ReportKind, Path(description="Which report.")],
    form: Form = Format.JSON,
    month: Month = "",
    tenant: Tenant = "",
    zone: Zone = "",
    by: Group = By.PROJECT,
    lang: Lang = "en",
) -> StreamingResponse:
    """A report of a month or of now."""
    wish = reports.ReportWish(kind, form, month, tenant, zone, by, lang)
    return _Sent(reports.report_file(deps, standings, actor, wish))


@router.get("/v1/invoices/{invoice}/file", response_class=StreamingResponse, responses=_FILE)
def invoice_file(
    deps: Deps, actor: Who, invoice: InvoiceName, form: Form = Format.PDF, lang: Lang = "en"
) -> StreamingResponse:
    """An issued invoice as PDF, XLSX, CSV, FOCUS 1.2 or JSON lines."""
    return _Sent(reports.invoice_file(deps, actor, invoice, form, lang))


def _number(text: str, what: str) -> Decimal:
    return decimal_parse(text, what)


class _Sent(StreamingResponse):
    """The file goes away with the answer, also when nobody waits for the first piece any more."""

    def __init__(self, made: reports.ReportFile) -> None:
        headers = {"Content-Disposition": f'attachment; filename="{made.name}"'}
        super().__init__(made.pieces(), media_type=made.media, headers=headers)
        self._made = made

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._made.file.close()
