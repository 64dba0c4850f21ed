from __future__ import annotations

import pytest

from millpond.db.session import Database
from tests.unit.db.builders import furnished


@pytest.fixture
def house(database: Database) -> Database:
    """A database with tenants, projects, queues and nodes."""
    return furnished(database)
