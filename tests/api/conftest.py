"""Fixtures of the API tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from millpond.db.session import Database
from tests.api.desk import DeskEngine
from tests.api.house import House, house_open


@pytest.fixture
def house(database: Database) -> Iterator[House]:
    """The API without an engine."""
    with ExitStack() as stack:
        yield house_open(stack, database)


@pytest.fixture
def desk() -> DeskEngine:
    """The engine behind `staffed`."""
    return DeskEngine()


@pytest.fixture
def staffed(database: Database, desk: DeskEngine) -> Iterator[House]:
    """The API with an engine."""
    with ExitStack() as stack:
        yield house_open(stack, database, desk)


@pytest.fixture
def served(database: Database, desk: DeskEngine) -> Iterator[House]:
    """The API with an engine, on a real port."""
    with ExitStack() as stack:
        yield house_open(stack, database, desk, served=True)
