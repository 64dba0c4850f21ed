"""Lists cost the same number of queries however long they are."""

from __future__ import annotations

import pytest

from tests.api.house import House, seats_of

pytestmark = pytest.mark.postgres


def _count(house: House, path: str) -> int:
    with house.database.statements() as seen:
        assert house.ask("root", "GET", path).status_code == 200
    return len(seen)


LISTS = ("/v1/jobs", "/v1/queue", "/v1/queues", "/v1/nodes", "/v1/cards", "/v1/events", "/v1/tenants", "/v1/tokens")


def test_no_query_per_item(house: House, subtests: pytest.Subtests) -> None:
    first = house.submit("ann", "job-0")
    house.run(first["id"], seats_of("n1", 0))
    _count(house, "/v1/queue")
    house.submit("ann", "waiting")  # the answer kept from before is old now, as it will be again below
    before = {path: _count(house, path) for path in LISTS}
    for number in range(1, 9):
        job = house.submit("ann", f"job-{number}")
        if number % 2:
            house.run(job["id"], seats_of("n1", number // 2 + 1))
    for path in LISTS:
        with subtests.test(path):
            assert _count(house, path) == before[path]
            assert before[path] <= 10


def test_submitting_costs_a_handful_of_queries(house: House) -> None:
    house.submit("ann", "job-0")
    with house.database.statements() as seen:
        house.submit("ann", "job-1")
    assert len(seen) <= 12, seen
