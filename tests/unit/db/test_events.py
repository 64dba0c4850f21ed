from __future__ import annotations

import threading
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millpond.authz.actors import SYSTEM, Actor
from millpond.db.session import Database, Tx, url_for_libpq
from millpond.db.stores.events import NewEvent, chain_verify, event_list, events_append
from millpond.domain.errors import Forbidden, InvalidInput, NotFound
from millpond.domain.records import EventRecord, Page, Role
from tests.unit.db.builders import ADMIN, ANN, EVE, LEAD, NOW

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.text(st.characters(exclude_categories=["Cs", "Cc"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet="abé", max_size=3), inner, max_size=3),
    max_leaves=6,
)


def event(kind: str = "job.submitted", **more: Any) -> NewEvent:
    return NewEvent(kind, **{"time": NOW, "actor": "ann", "tenant": "alpha", "job": "j1", **more})


def append(house: Database, source: str, *events: NewEvent) -> None:
    house.run("append", lambda tx: events_append(tx, source, events))


def listed(house: Database, actor: Actor = ADMIN, **more: Any) -> Page[EventRecord]:
    return house.run("list", lambda tx: event_list(tx, actor, **more))


def verify(house: Database) -> list[str]:
    return house.run("verify", lambda tx: chain_verify(tx, ADMIN))


def tamper(house: Database, statement: str) -> None:
    with psycopg.connect(url_for_libpq(house.url)) as connection:
        connection.execute("ALTER TABLE events DISABLE TRIGGER events_append_only")
        connection.execute(statement)
        connection.execute("ALTER TABLE events ENABLE TRIGGER events_append_only")


def test_events_chain_per_source(house: Database) -> None:
    append(house, "api", event(data={"n": 1}), event("job.stopped"))
    append(house, "control", event("job.started", attempt="j1-1"))
    append(house, "api", event("job.held"))
    append(house, "api")
    items = listed(house).items
    assert [(item.source, item.source_sequence, item.kind) for item in items] == [
        ("api", 1, "job.submitted"),
        ("api", 2, "job.stopped"),
        ("control", 1, "job.started"),
        ("api", 3, "job.held"),
    ]
    assert items[0].previous == ""
    assert items[1].previous == items[0].hash
    assert items[3].previous == items[1].hash
    assert items[0].data == {"n": 1}
    assert (items[2].attempt, items[2].time) == ("j1-1", NOW)
    assert verify(house) == []


def test_an_event_cannot_be_changed(house: Database) -> None:
    append(house, "api", event())
    for statement in ("UPDATE events SET kind = 'x'", "DELETE FROM events", "TRUNCATE events"):
        with psycopg.connect(url_for_libpq(house.url)) as connection, pytest.raises(psycopg.Error, match="append-only"):
            connection.execute(statement)


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("UPDATE events SET data = '{\"n\": 2}' WHERE source_sequence = 2", ["changed"]),
        ("UPDATE events SET actor = 'eve' WHERE source_sequence = 2", ["changed"]),
        ("UPDATE events SET hash = repeat('0', 64) WHERE source_sequence = 2", ["changed", "continue"]),
        ("DELETE FROM events WHERE source_sequence = 2", ["missing", "continue"]),
        ("DELETE FROM events WHERE source_sequence = 3", ["end"]),
        ("DELETE FROM events", ["end"]),
    ],
)
def test_what_was_changed_behind_our_back_shows(house: Database, statement: str, found: list[str]) -> None:
    append(house, "api", event(data={"n": 1}), event(data={"n": 1}), event(data={"n": 1}))
    tamper(house, statement)
    problems = verify(house)
    assert len(problems) == len(found)
    for word, problem in zip(found, problems, strict=True):
        assert word in problem


@given(data=st.dictionaries(st.text(alphabet="abc", max_size=3), plain, max_size=4))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_plain_data_verifies(house: Database, data: dict[str, object]) -> None:
    append(house, "api", event(data=data))
    assert verify(house) == []


def test_times_of_any_zone_verify(house: Database) -> None:
    zone = timezone(timedelta(hours=8))
    append(house, "api", event(time=datetime(2026, 1, 1, 8, tzinfo=zone)), event(time=NOW.replace(microsecond=0)))
    assert verify(house) == []


@pytest.mark.parametrize("data", [{"x": 0.5}, {"x": {1: 2}}, {"x": [object()]}])
def test_data_that_would_not_come_back_is_a_bug(house: Database, data: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="event"):
        append(house, "api", event(data=data))
    with pytest.raises(InvalidInput):
        append(house, "", event())


def test_a_reader_who_goes_on_misses_nothing(house: Database) -> None:
    """An event that is written first but committed last does not get the smaller number."""
    written, release = threading.Event(), threading.Event()
    order: list[str] = []

    def slow(tx: Tx) -> None:
        events_append(tx, "control", [event("slow")])
        written.set()
        release.wait(20)
        order.append("slow")

    first = threading.Thread(target=lambda: house.run("slow", slow))
    first.start()
    assert written.wait(20)
    second = threading.Thread(target=lambda: (append(house, "api", event("quick")), order.append("quick")))
    second.start()
    second.join(0.3)
    assert listed(house).items == ()
    release.set()
    first.join(20)
    second.join(20)
    assert order == ["slow", "quick"]
    assert [item.kind for item in listed(house).items] == ["slow", "quick"]


def test_pages(house: Database) -> None:
    append(house, "api", *(event(str(number)) for number in range(5)))
    seen: list[str] = []
    after = 0
    while True:
        page = listed(house, after=after, limit=2)
        seen += [item.kind for item in page.items]
        if not page.next:
            break
        after = int(page.next)
    assert seen == ["0", "1", "2", "3", "4"]


def test_who_sees_which_events(house: Database) -> None:
    auditor = Actor("otto", roles={"alpha": Role.AUDITOR})
    append(house, "api", event("a"), event("b", tenant="beta", job="j2"), event("c", tenant="", job=""))

    def kinds(actor: Actor, **more: Any) -> str:
        return "".join(item.kind for item in listed(house, actor, **more).items)

    assert kinds(ADMIN) == "abc"
    assert kinds(auditor) == "a"
    assert kinds(LEAD, tenant="alpha") == "a"
    assert kinds(EVE) == "b"
    assert kinds(ANN, job="j1") == "a"
    assert kinds(ANN, job="j2") == ""
    with pytest.raises(Forbidden):
        kinds(ANN)
    with pytest.raises(NotFound):
        kinds(LEAD, tenant="beta")
    with pytest.raises(Forbidden):
        house.run("verify", lambda tx: chain_verify(tx, LEAD))
    assert house.run("verify", lambda tx: chain_verify(tx, SYSTEM)) == []
