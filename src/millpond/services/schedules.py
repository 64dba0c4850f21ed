"""Reports of each month, written into a folder once the month is over and metered whole.

What is there is left alone, so that looking twice, or on two servers, writes nothing anew; a file that was removed is
written again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Final

import structlog

from millpond.authz.actors import SYSTEM
from millpond.db.session import Tx
from millpond.db.stores.accounts import account_list
from millpond.db.stores.occupancy import platform_began
from millpond.db.stores.usage import metered_until
from millpond.domain.errors import MillpondError
from millpond.metering.hours import instant, month_period
from millpond.reports.rendering import SUFFIX, Format
from millpond.services.deps import Services
from millpond.services.reports import ReportKind, ReportWish, report_file
from millpond.services.standing import Standings
from millpond.zones import zone_find

LOOK_S: Final = 600.0
"""Between two looks for a month that is over."""

POOL: Final = (ReportKind.USAGE, ReportKind.WAITS, ReportKind.IDLE, ReportKind.HEALTH)
_log = structlog.get_logger("millpond.schedules")


class ReportSchedule:
    """A thread that writes what is due; `start` it once."""

    def __init__(self, deps: Services, folder: Path, lang: str) -> None:
        self._deps = deps
        self._folder = folder
        self._lang = lang
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="report-schedule", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Ask the thread to end, and wait for it."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                reports_write(self._deps, self._folder, self._lang)
            except (MillpondError, OSError) as error:
                _log.warning("reports were not written", folder=str(self._folder), error=str(error))
            self._stopping.wait(LOOK_S)


def reports_write(deps: Services, folder: Path, lang: str) -> list[Path]:
    """Write what is due and not there: ``folder/2026-11/usage.xlsx`` …  The new files.

    Of the pool usage, waits, idle cards and health, in months of UTC; of each account its metering report, in months of
    its zone.  One that cannot be written is logged and does not hinder the others.
    """
    wishes = deps.database.run("reports_due", lambda tx: list(_due(tx, deps.clock(), lang)), snapshot=True)
    standings = Standings(deps)
    made: list[Path] = []
    for wish in wishes:
        name = f"{wish.tenant}-{wish.kind.value}" if wish.tenant else wish.kind.value
        path = folder / wish.month / f"{name}.{SUFFIX[wish.form]}"
        if path.exists():
            continue
        try:
            _write(deps, standings, wish, path)
        except MillpondError as error:
            _log.warning("a report was not written", path=str(path), error=str(error))
        else:
            made.append(path)
    return made


def _due(tx: Tx, now: datetime, lang: str) -> Iterator[ReportWish]:
    settled, began = metered_until(tx), platform_began(tx, SYSTEM)
    if began is None:
        return
    month = _over(now, UTC, settled, began)
    if month:
        for kind in POOL:
            yield ReportWish(kind, Format.XLSX, month, zone="UTC", lang=lang)
    for account in account_list(tx, SYSTEM):
        month = _over(now, zone_find(account.zone), settled, max(began, account.opened_at))
        if month:
            for form in (Format.PDF, Format.XLSX):
                yield ReportWish(ReportKind.METERING, form, month, account.tenant, lang=lang)


def _over(now: datetime, zone: tzinfo, settled: int, began: datetime) -> str:
    """The last month of `zone` if it is metered whole and there was anything in it; else empty."""
    last = now.astimezone(zone).replace(day=1) - timedelta(days=1)
    period = month_period(f"{last:%Y-%m}", zone)
    return period.name if settled >= period.end > instant(began) else ""


def _write(deps: Services, standings: Standings, wish: ReportWish, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            for piece in report_file(deps, standings, SYSTEM, wish).pieces():
                file.write(piece)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
