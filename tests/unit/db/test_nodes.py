from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from millpond.authz.actors import SYSTEM
from millpond.db.session import Database
from millpond.db.stores.attempts import attempts_insert, attempts_lock, attempts_save
from millpond.db.stores.jobs import job_insert
from millpond.db.stores.nodes import NodeChanges, card_mark, node_get, node_list, node_mark, node_sync
from millpond.domain.errors import Conflict, Forbidden, InvalidInput, NotFound
from millpond.domain.nodes import NodeSpec
from tests.unit.db.builders import ADMIN, ANN, NOW, attempt, ended, job, node


def sync(house: Database, *specs: NodeSpec, seconds: int = 0, engine: str = "local") -> NodeChanges:
    return house.run("sync", lambda tx: node_sync(tx, SYSTEM, engine, specs, NOW + timedelta(seconds=seconds)))


def test_an_inventory_adds_changes_and_removes(house: Database) -> None:
    changes = sync(house, node("n10"), node("n2", 4), node("n9"))
    assert changes == NodeChanges(added=("n9", "n10"), changed=("n2",), removed=("n1",))
    records = house.run("list", lambda tx: node_list(tx, ANN))
    assert [record.spec for record in records] == [node("n2", 4), node("n9"), node("n10")]
    assert {(record.engine, record.seen_at) for record in records} == {("local", NOW)}


def test_the_same_inventory_writes_nothing_within_a_minute(house: Database) -> None:
    with house.statements() as seen:
        assert sync(house, node("n1"), node("n2"), seconds=59) == NodeChanges()
    assert len(seen) == 1
    sync(house, node("n1"), node("n2"), seconds=60)
    record = house.run("get", lambda tx: node_get(tx, ANN, "n1"))
    assert record.seen_at == NOW + timedelta(seconds=60)


def test_what_operators_said_survives_an_inventory(house: Database) -> None:
    house.run("mark", lambda tx: node_mark(tx, ADMIN, "n1", cordoned=True, lost=True))
    house.run("mark", lambda tx: card_mark(tx, ADMIN, "n1", 3, "ECC"))
    sync(house, node("n1"), node("n2"), seconds=100)
    record = house.run("get", lambda tx: node_get(tx, ANN, "n1"))
    assert (record.cordoned, record.draining, record.lost, record.bad_cards) == (True, False, True, {3: "ECC"})
    record = house.run("mark", lambda tx: node_mark(tx, ADMIN, "n1", lost=False))
    assert (record.cordoned, record.lost) == (True, False)
    assert house.run("mark", lambda tx: card_mark(tx, ADMIN, "n1", 3, None)).bad_cards == {}


def test_a_node_with_attempts_is_lost_before_it_is_gone(house: Database) -> None:
    house.run("job", lambda tx: job_insert(tx, SYSTEM, job(1)))
    house.run("attempt", lambda tx: attempts_insert(tx, SYSTEM, [attempt(job(1))]))
    assert sync(house, node("n2")) == NodeChanges(missing=("n1",))
    assert sync(house, node("n2")) == NodeChanges()
    assert house.run("get", lambda tx: node_get(tx, ANN, "n1")).lost
    assert sync(house, node("n1"), node("n2")) == NodeChanges(back=("n1",))
    assert not house.run("get", lambda tx: node_get(tx, ANN, "n1")).lost
    sync(house, node("n2"))

    def end(tx: object) -> None:
        attempts_save(tx, SYSTEM, [ended(attempts_lock(tx, SYSTEM, ["j1-1"])["j1-1"])])

    house.run("end", end)
    assert sync(house, node("n2")) == NodeChanges(removed=("n1",))


def test_engines_keep_to_their_own_nodes(house: Database) -> None:
    sync(house, node("k1"), engine="kubernetes")
    assert sync(house, node("n1"), node("n2")) == NodeChanges()
    with pytest.raises(Conflict, match="belongs to engine"):
        sync(house, node("n1"), engine="kubernetes")
    with pytest.raises(InvalidInput, match="twice"):
        sync(house, node("n1"), replace(node("n1"), cpu=1))


def test_marks_are_for_who_may_and_for_what_there_is(house: Database) -> None:
    with pytest.raises(Forbidden):
        house.run("mark", lambda tx: node_mark(tx, ANN, "n1", cordoned=True))
    with pytest.raises(NotFound):
        house.run("mark", lambda tx: node_mark(tx, ADMIN, "n7", cordoned=True))
    for node_name, index in (("n7", 0), ("n1", 8), ("n1", -1)):
        with pytest.raises(NotFound):
            house.run("mark", lambda tx, n=node_name, i=index: card_mark(tx, ADMIN, n, i, "x"))
