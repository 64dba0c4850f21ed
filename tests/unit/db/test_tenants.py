from __future__ import annotations

from dataclasses import replace

import pytest

from millpond.authz.actors import SYSTEM
from millpond.db.session import Database
from millpond.db.stores.jobs import job_get, job_insert, jobs_lock, jobs_save
from millpond.db.stores.queues import queue_list, queues_replace
from millpond.db.stores.tenants import (
    project_create,
    project_delete,
    project_get,
    project_list,
    tenant_create,
    tenant_delete,
    tenant_get,
    tenant_list,
)
from millpond.db.stores.users import member_list, member_put
from millpond.domain.errors import Conflict, Forbidden, InvalidInput, NotFound
from millpond.domain.jobs import JobState, QueueClass
from millpond.domain.queues import QueueConfig
from millpond.domain.records import Role
from tests.unit.db.builders import ADMIN, ANN, BOB, EVE, LEAD, NOW, job


def finish(house: Database, name: str) -> None:
    def work(tx: object) -> None:
        record = jobs_lock(tx, SYSTEM, [name])[name]
        jobs_save(tx, SYSTEM, [replace(record, state=JobState.CANCELLED, finished_at=NOW)])

    house.run("finish", work)


def test_each_tenant_has_a_user_id_of_its_own(house: Database) -> None:
    tenants = house.run("list", lambda tx: tenant_list(tx, ADMIN))
    assert [tenant.name for tenant in tenants] == ["alpha", "beta"]
    assert len({tenant.uid for tenant in tenants}) == 2
    assert all(tenant.uid >= 210_000 for tenant in tenants)
    assert all(tenant.created_at.tzinfo is not None for tenant in tenants)


def test_everybody_sees_their_own(house: Database) -> None:
    def names(actor: object) -> list[str]:
        return [tenant.name for tenant in house.run("list", lambda tx: tenant_list(tx, actor))]

    assert names(ANN) == ["alpha"]
    assert names(BOB) == ["alpha", "beta"]
    assert house.run("get", lambda tx: tenant_get(tx, ANN, "alpha")).title == "Alpha"
    for name in ("beta", "nowhere"):
        with pytest.raises(NotFound) as caught:
            house.run("get", lambda tx, name=name: tenant_get(tx, ANN, name))
        assert caught.value.message == f"no tenant {name!r}"


def test_names_are_checked_and_taken_once(house: Database) -> None:
    with pytest.raises(InvalidInput):
        house.run("create", lambda tx: tenant_create(tx, ADMIN, "Alpha Team"))
    with pytest.raises(Conflict, match="exists already"):
        house.run("create", lambda tx: tenant_create(tx, ADMIN, "alpha"))
    with pytest.raises(Forbidden):
        house.run("create", lambda tx: tenant_create(tx, LEAD, "gamma"))


def test_a_tenant_without_history_goes_without_a_trace(house: Database) -> None:
    house.run("member", lambda tx: member_put(tx, ADMIN, "eve", "beta", Role.MEMBER))
    house.run("delete", lambda tx: tenant_delete(tx, ADMIN, "beta"))
    assert [queue.name for queue in house.run("queues", lambda tx: queue_list(tx, ADMIN))] == [
        "alpha/prod",
        "alpha/batch",
        "alpha/besteffort",
    ]
    assert house.run("create", lambda tx: tenant_create(tx, ADMIN, "beta")).uid > 210_001
    assert house.run("members", lambda tx: member_list(tx, ADMIN, "beta")) == ()


def test_a_tenant_with_history_is_kept_out_of_sight(house: Database) -> None:
    house.run("job", lambda tx: job_insert(tx, SYSTEM, job(1, project="lab")))
    with pytest.raises(Conflict, match="1 live jobs"):
        house.run("delete", lambda tx: tenant_delete(tx, ADMIN, "alpha"))
    finish(house, "j1")
    house.run("delete", lambda tx: tenant_delete(tx, ADMIN, "alpha"))
    assert [tenant.name for tenant in house.run("list", lambda tx: tenant_list(tx, ADMIN))] == ["beta"]
    with pytest.raises(NotFound):
        house.run("get", lambda tx: tenant_get(tx, ADMIN, "alpha"))
    with pytest.raises(Conflict, match="was deleted"):
        house.run("create", lambda tx: tenant_create(tx, ADMIN, "alpha"))
    assert house.run("job", lambda tx: job_get(tx, ADMIN, "j1")).tenant == "alpha"


def test_projects(house: Database) -> None:
    house.run("create", lambda tx: project_create(tx, LEAD, "alpha", "ads"))
    with pytest.raises(Conflict):
        house.run("again", lambda tx: project_create(tx, LEAD, "alpha", "ads"))
    with pytest.raises(NotFound):
        house.run("elsewhere", lambda tx: project_create(tx, EVE, "alpha", "x"))
    assert [project.name for project in house.run("list", lambda tx: project_list(tx, ANN, "alpha"))] == ["ads", "lab"]
    house.run("delete", lambda tx: project_delete(tx, LEAD, "alpha", "ads"))
    with pytest.raises(NotFound):
        house.run("get", lambda tx: project_get(tx, ANN, "alpha", "ads"))


def test_a_project_with_jobs_or_queues_stays(house: Database) -> None:
    house.run("job", lambda tx: job_insert(tx, SYSTEM, job(1, project="lab")))
    with pytest.raises(Conflict, match="live jobs"):
        house.run("delete", lambda tx: project_delete(tx, LEAD, "alpha", "lab"))
    finish(house, "j1")
    leaves = [*house.run("queues", lambda tx: queue_list(tx, ADMIN)), QueueConfig("alpha/lab/prod", QueueClass.PROD)]
    house.run("queues", lambda tx: queues_replace(tx, ADMIN, leaves))
    with pytest.raises(Conflict, match="queues of its own"):
        house.run("delete", lambda tx: project_delete(tx, LEAD, "alpha", "lab"))
    house.run("queues", lambda tx: queues_replace(tx, ADMIN, leaves[:-1]))
    house.run("delete", lambda tx: project_delete(tx, LEAD, "alpha", "lab"))
    assert house.run("list", lambda tx: project_list(tx, LEAD, "alpha")) == ()
    house.run("back", lambda tx: project_create(tx, LEAD, "alpha", "lab"))
    assert house.run("get", lambda tx: project_get(tx, LEAD, "alpha", "lab")).name == "lab"
