from __future__ import annotations

import pytest

from millpond.db.session import Database
from tests.unit.db.bank import accounted
from tests.unit.db.builders import furnished


@pytest.fixture
def house(database: Database) -> Database:
    """A database with tenants, projects, queues and nodes."""
    return furnished(database)


@pytest.fixture
def bank(house: Database) -> Database:
    """A house whose tenants have prepaid accounts in yuan."""
    return accounted(house)
