from __future__ import annotations

import stat
from pathlib import Path

import psycopg
import pytest

from millpond.authz.actors import SYSTEM
from millpond.db import maintenance
from millpond.db.session import Database, Tx, url_database, url_for_libpq
from millpond.db.stores.attempts import attempts_insert
from millpond.db.stores.events import NewEvent, event_list, events_append
from millpond.db.stores.jobs import job_insert, job_list, jobs_lock, jobs_save
from millpond.domain.errors import Conflict, InvalidInput, Unavailable
from millpond.domain.jobs import JobState
from tests.unit.db.builders import ADMIN, NOW, attempt, job


def fill(tx: Tx) -> None:
    job_insert(tx, SYSTEM, job(1, project="lab"))
    jobs_save(tx, SYSTEM, [job(1, project="lab", state=JobState.STARTING, attempts=1)])
    attempts_insert(tx, SYSTEM, [attempt(job(1))])
    events_append(tx, "api", [NewEvent("job.submitted", NOW, "ann", "alpha", "j1", data={"é": [1, None]})])


def test_a_backup_brings_everything_back(house: Database, empty_url: str, tmp_path: Path) -> None:
    house.run("fill", fill)
    target = tmp_path / "millpond.backup"
    size = maintenance.backup(house.url, target)
    assert size == target.stat().st_size > 1000
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["millpond.backup"]
    maintenance.restore(empty_url, target)
    assert maintenance.check(empty_url) == []
    copy = Database(empty_url)
    for look in (lambda tx: job_list(tx, ADMIN), lambda tx: event_list(tx, ADMIN)):
        assert copy.run("look", look) == house.run("look", look)
    # And it goes on from there: chains continue, and identities are not given twice.
    copy.run("append", lambda tx: events_append(tx, "api", [NewEvent("job.held", NOW, "ann", "alpha", "j1")]))
    assert maintenance.check(empty_url) == []
    with psycopg.connect(url_for_libpq(empty_url)) as connection, pytest.raises(psycopg.Error, match="append-only"):
        connection.execute("DELETE FROM events")
    copy.close()


def test_a_backup_overwrites_nothing(house: Database, tmp_path: Path) -> None:
    target = tmp_path / "there"
    target.write_text("precious")
    with pytest.raises(Conflict):
        maintenance.backup(house.url, target)
    assert target.read_text() == "precious"
    with pytest.raises(InvalidInput, match="no folder"):
        maintenance.backup(house.url, tmp_path / "nowhere" / "file")
    with pytest.raises(Unavailable):
        maintenance.backup(url_database(house.url, "nowhere"), tmp_path / "file")
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_a_restore_is_careful(house: Database, empty_url: str, tmp_path: Path) -> None:
    target = tmp_path / "backup"
    maintenance.backup(house.url, target)
    with pytest.raises(Conflict, match="not empty"):
        maintenance.restore(house.url, target)
    with pytest.raises(InvalidInput, match="cannot read"):
        maintenance.restore(empty_url, tmp_path / "missing")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(InvalidInput, match="not a backup"):
        maintenance.restore(empty_url, tmp_path / "text")
    broken = tmp_path / "broken"
    broken.write_bytes(target.read_bytes()[: target.stat().st_size // 2])
    with pytest.raises(Unavailable, match="pg_restore failed"):
        maintenance.restore(empty_url, broken)
    with psycopg.connect(url_for_libpq(empty_url)) as connection:
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)
    maintenance.restore(empty_url, target)


def test_check_finds_what_no_constraint_can_say(house: Database) -> None:
    house.run("fill", fill)
    assert maintenance.check(house.url) == []

    def disturb(tx: Tx) -> None:
        job_insert(tx, SYSTEM, job(2))
        jobs_save(tx, SYSTEM, [job(2, state=JobState.RUNNING)])
        record = jobs_lock(tx, SYSTEM, ["j1"])["j1"]
        jobs_save(tx, SYSTEM, [job(1, state=JobState.QUEUED, attempts=record.attempts + 1)])

    house.run("disturb", disturb)
    assert maintenance.check(house.url) == [
        "job j2 is under way without a live attempt",
        "attempt j1-1 is live, but its job is not under way",
        "job j1 does not count its attempts right",
    ]
