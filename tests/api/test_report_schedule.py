"""Reports of a month that is over, written into a folder, once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import insert

from millpond.authz.actors import SYSTEM
from millpond.db.session import Tx
from millpond.db.stores.events import NewEvent, events_append
from millpond.db.tables.usage import METER_MARK
from millpond.services.schedules import reports_write
from tests.api.house import House
from tests.api.test_reports import use

pytestmark = pytest.mark.postgres


def settled(house: House, until: datetime) -> None:
    """Let the meter stand there, of a platform that is two months old."""

    def work(tx: Tx) -> None:
        tx.execute(METER_MARK.delete())
        tx.execute(insert(METER_MARK), {"id": 1, "cursor": 0, "settled_until": until})

    house.database.run("mark", work)


@pytest.fixture
def old(house: House) -> House:
    """A house whose clock is in the middle of a month, with events since the one before last."""
    now = datetime.now(UTC)
    house.clock.ahead = now.replace(day=15) + timedelta(days=31) - now
    begun = house.clock() - timedelta(days=75)
    house.database.run("old", lambda tx: events_append(tx, "engine", [NewEvent("node.lost", begun, SYSTEM.user)]))
    return house


def test_a_month_that_is_metered_whole_is_written_once(old: House, tmp_path: Path) -> None:
    use(old)
    now = old.clock()
    first = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    month = f"{first - timedelta(days=1):%Y-%m}"
    settled(old, first - timedelta(seconds=1))
    assert not [path for path in reports_write(old.services, tmp_path, "zh") if path.name == "usage.xlsx"]
    settled(old, first)
    made = reports_write(old.services, tmp_path, "zh")
    names = {str(path.relative_to(tmp_path)) for path in made}
    assert {f"{month}/{kind}.xlsx" for kind in ("usage", "waits", "idle", "health")} <= names
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.*")}
    assert f"{month}/trade-metering.pdf" in {str(path.relative_to(tmp_path)) for path in kept}
    assert reports_write(old.services, tmp_path, "zh") == []
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.*")} == kept
    made[0].unlink()
    assert reports_write(old.services, tmp_path, "zh") == [made[0]]


def test_nothing_is_due_where_nothing_has_happened(house: House, tmp_path: Path) -> None:
    assert reports_write(house.services, tmp_path / "none", "en") == []
    assert not (tmp_path / "none").exists()
