"""Fixtures of the tests of control."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from millpond.db.session import Database
from tests.unit.control.desk import Desk


@pytest.fixture
def desk(database: Database, tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(database, tmp_path)
    yield desk
    desk.leader.release()
