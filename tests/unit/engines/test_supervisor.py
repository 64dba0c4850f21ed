"""Parts of the supervisor that need no running one."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.engines.local.supervisor import process
from millpond.engines.local.supervisor.attempts import JUMP, Drain, Memory
from millpond.engines.local.supervisor.cgroups import Limits, Version2
from millpond.engines.local.supervisor.checkpoints import newest
from millpond.engines.local.supervisor.folders import folder_make
from millpond.engines.local.supervisor.index import STOPPED, Index, attempt_valid
from millpond.engines.local.supervisor.journal import SEGMENT_BYTES, Journal
from millpond.engines.local.supervisor.ports import FIRST, LAST, Ports
from millpond.engines.local.supervisor.sandbox import Sandbox, View, bwrap_arguments

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it gives folders away")


def test_folder_and_its_parents(tmp_path: Path) -> None:
    folder_make(tmp_path / "a" / "b" / "work", 0o700)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o711
    assert (tmp_path / "a" / "b" / "work").stat().st_mode & 0o777 == 0o700
    folder_make(tmp_path / "a" / "b" / "other", 0o750)
    folder_make(tmp_path / "a" / "b" / "work", 0o750)
    assert (tmp_path / "a" / "b" / "work").stat().st_mode & 0o777 == 0o700


@as_root
def test_folder_is_given_away(tmp_path: Path) -> None:
    folder_make(tmp_path / "job" / "work", 0o700, 20_001)
    folder_make(tmp_path / "job" / "work" / "x" / "y", 0o700, 20_001)
    owners = [path.stat().st_uid for path in (tmp_path / "job", *sorted((tmp_path / "job").rglob("*")))]
    assert owners == [0, 20_001, 20_001, 20_001]


@as_root
def test_folder_left_half_made_is_finished(tmp_path: Path) -> None:
    """A kill -9 between making a folder and settling it leaves this; under its own name nothing half-made is found."""
    (tmp_path / ".job.new").mkdir(mode=0o700)
    folder_make(tmp_path / "job" / "work", 0o700, 20_001)
    (tmp_path / "job" / ".logs.new").mkdir(mode=0o700)
    folder_make(tmp_path / "job" / "logs", 0o750, 20_001)
    (tmp_path / "job" / "work" / "x").mkdir(mode=0o700)
    folder_make(tmp_path / "job" / "work" / "x" / "y", 0o700, 20_001)
    found = {path.name: (path.stat().st_mode & 0o777, path.stat().st_uid) for path in (tmp_path / "job").rglob("*")}
    assert found == {
        "work": (0o700, 20_001),
        "logs": (0o750, 20_001),
        "x": (0o700, 20_001),
        "y": (0o700, 20_001),
    }
    assert (tmp_path / "job").stat().st_mode & 0o777 == 0o711
    assert [path.name for path in tmp_path.iterdir()] == ["job"]


@as_root
def test_links_of_a_tenant_are_not_followed(tmp_path: Path) -> None:
    """A job may leave a link where its next attempt's folder will be made, by root."""
    folder_make(tmp_path / "job" / "work", 0o700, 20_001)
    secret = tmp_path / "secret"
    secret.mkdir(mode=0o700)
    (tmp_path / "job" / "work" / "x").symlink_to(secret)
    with pytest.raises(OSError, match=r"directory|symbolic"):
        folder_make(tmp_path / "job" / "work" / "x", 0o700, 20_001)
    with pytest.raises(OSError, match=r"directory|symbolic"):
        folder_make(tmp_path / "job" / "work" / "x" / "y", 0o700, 20_001)
    assert list(secret.iterdir()) == []
    assert secret.stat().st_uid == 0


def test_own_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    folder_make(tmp_path / "link" / "work", 0o700)
    assert (tmp_path / "real" / "work").is_dir()


def test_ports_are_never_given_twice() -> None:
    ports = Ports()
    taken = [ports.take() for _ in range(200)]
    assert len(set(taken)) == 200
    assert all(FIRST <= port <= LAST for port in taken)


def test_port_in_use_is_passed_over() -> None:
    ports = Ports()
    first = ports.take()
    ports.release([first])
    with socket.socket() as other:
        following = first + 1 if first < LAST else FIRST
        other.bind(("127.0.0.1", following))
        other.listen()
        assert ports.take() != following


def test_newest_checkpoint(tmp_path: Path) -> None:
    assert newest(str(tmp_path / "none")) == (0, "")
    for name, time in (("a", 10), ("b", 20), ("c.tmp", 30), (".d", 40)):
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, ns=(time, time))
    assert newest(str(tmp_path)) == (20, "b")


def test_index(tmp_path: Path) -> None:
    index = Index(tmp_path)
    index.put("j1-1", "/logs/j1")
    index.put("j1-1", "/elsewhere")
    index.put("j2-1", STOPPED)
    index.sync()
    again = Index(tmp_path)
    assert [again.get(name) for name in ("j1-1", "j2-1", "j3-1")] == ["/logs/j1", STOPPED, None]


@pytest.mark.parametrize("name", ["", "..", "a/b", "-a", "a\0", "a" * 101, "a b", "ä"])
def test_attempt_ids_that_are_no_names(name: str) -> None:
    assert not attempt_valid(name)


def test_journal_keeps_whole_lines_only(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.rewrite([])
    journal.add({"r": "x", "n": 1})
    journal.add({"r": "x", "n": 2})
    journal.flush()
    with (tmp_path / "journal.1").open("ab") as file:
        file.write(b'{"r":"x","n":3')
    assert [record["n"] for record in Journal(tmp_path).records()] == [1, 2]


def test_journal_rewrites_when_it_has_grown(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.rewrite([])
    journal.add({"r": "x", "text": "y" * SEGMENT_BYTES})
    journal.flush()
    assert journal.grown
    journal.rewrite([{"r": "x", "n": 1}])
    assert not journal.grown
    assert [path.name for path in tmp_path.iterdir()] == ["journal.2"]
    assert [record["n"] for record in Journal(tmp_path).records()] == [1]


_NAMES = ("a-1", "b-1", "c-1")


def _order(name: str, epoch: int) -> dict[str, Any]:
    rank = {"rank": 0, "local_rank": 0, "node": "n1", "cards": [0]}
    order = {"attempt": name, "epoch": epoch, "ranks": [rank], "service": False}
    state = {"ports": [1], "master_port": 2, "boot": "b", "started": False, "ready": False, "mark": 0}
    return {"r": "order", "order": order, **state}


@st.composite
def _histories(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Records as a supervisor would write them."""
    records: list[dict[str, Any]] = []
    sequence = 0
    for _ in range(draw(st.integers(0, 25))):
        name = draw(st.sampled_from(_NAMES))
        kind = draw(st.sampled_from(["order", "drain", "sent", "ack", "started", "ready", "checkpointed", "exited"]))
        if kind == "order":
            records.append(_order(name, draw(st.integers(1, 3))))
        elif kind == "drain":
            deadline = draw(st.integers(10, 50))
            records.append({"r": "drain", "attempt": name, "what": "USR1", "begun_ms": 5, "deadline_ms": deadline})
        elif kind == "sent":
            records.append({"r": "sent", "attempt": name, "time_ms": draw(st.integers(1, 9)), "kill": True})
        elif kind == "ack":
            records.append({"r": "ack", "cursor": draw(st.integers(0, sequence))})
        else:
            sequence += 1
            fact = {"sequence": sequence, "kind": kind, "attempt": name}
            records.append({"r": "fact", "fact": fact, "mark": sequence if kind == "checkpointed" else None})
    return records


def _memory(records: list[dict[str, Any]]) -> Memory:
    memory = Memory()
    for record in records:
        memory.apply(record)
    return memory


@given(_histories())
def test_rewritten_memory_is_equal(history: list[dict[str, Any]]) -> None:
    """What a new segment says is all that the old ones said."""
    memory = _memory(history)
    again = _memory(list(memory.records()))
    assert again.live == memory.live
    assert again.facts == memory.facts
    assert (again.epoch, again.sequence, again.cursor) == (memory.epoch, memory.sequence, memory.cursor)


def test_numbers_jump_after_a_crash_of_the_machine() -> None:
    """Facts are not forced to the disk one by one, so a reader may have seen some that are gone."""
    memory = _memory([{"r": "head", "epoch": 1, "sequence": 7, "cursor": 7, "boot": "first"}])
    memory.boot_set("first")
    assert memory.sequence == 7
    memory.boot_set("second")
    assert memory.sequence == 7 + JUMP
    assert next(memory.records())["boot"] == "second"


@given(_histories(), st.integers(0, 40))
def test_reader_ahead_of_us_is_followed(history: list[dict[str, Any]], ahead: int) -> None:
    memory = _memory(history)
    waiting, cursor = len(memory.facts), memory.sequence + ahead
    memory.skip(cursor)
    assert [fact["sequence"] for fact in memory.facts] == list(range(cursor + 1, cursor + 1 + waiting))
    assert memory.sequence == cursor + waiting


@pytest.mark.parametrize(
    ("grace", "term"), [(20_000, 15_000), (8000, 3000), (5000, 3750), (1000, 750), (0, 0), (-5, -5)]
)
def test_term_before_the_deadline(grace: int, term: int) -> None:
    assert Drain("USR1", 100, 100 + grace).term_ms == 100 + term


def test_sandbox_shows_only_the_rank_s_own(tmp_path: Path) -> None:
    view = View(("/jobs/j/work",), str(tmp_path), ("/dev/nvidia3",), 64)
    words = bwrap_arguments(Sandbox("/usr/bin/bwrap", "/usr/bin/setpriv", ("/venv",), ""), view, 20_001)
    text = " ".join(words)
    assert "--dev-bind-try /dev/nvidia3 /dev/nvidia3" in text
    assert "--bind /jobs/j/work /jobs/j/work" in text
    assert "--size 67108864 --tmpfs /dev/shm" in text
    assert "--ro-bind-try /venv /venv" in text
    assert text.count("--bind ") == 1
    assert "--setenv" not in text


def test_process_identity() -> None:
    me = os.getpid()
    started = process.start_time(me)
    descriptor = process.pidfd_open(me, started)
    assert descriptor is not None
    os.close(descriptor)
    assert process.pidfd_open(me, started + 1) is None
    assert process.start_time(2**22 - 1) == 0


def _unified() -> Path | None:
    """A folder for groups in the version 2 hierarchy, if one can be made."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        if line.split()[2] == "cgroup2":
            folder = Path(line.split()[1]) / f"millpond-test-{os.getpid()}"
            try:
                folder.mkdir()
            except OSError:
                continue
            return folder
    return None


def test_version_2_groups_kill_everything() -> None:
    folder = _unified()
    if folder is None:
        pytest.skip("needs a cgroup v2 hierarchy that may be written")
    groups = Version2(folder, frozenset())
    groups.make("a-1")
    groups.limit("a-1", Limits(cpu=1000, memory=100))
    assert groups.names() == ["a-1"]
    child = os.fork()
    if child == 0:
        for door in groups.doors("a-1"):
            door.write_text("0")
        os.fork()
        while True:
            os.read(os.pipe()[0], 1)
    while len(groups.pids("a-1")) < 2:
        os.sched_yield()
    assert not groups.remove("a-1")
    groups.kill("a-1")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -9
    while not groups.remove("a-1"):
        os.sched_yield()
    folder.rmdir()
