"""Every window in which a supervisor can die, made by hand: the journal and the keepers' files as then left."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from millpond.engines.base import Fact, FactKind
from millpond.engines.local.engine import LocalEngine
from millpond.engines.local.launch import supervisor_ensure, supervisor_stop
from millpond.engines.local.supervisor.child import Launch
from millpond.engines.local.supervisor.keeper import CLAIM_LOST, keeper_fork
from millpond.engines.local.supervisor.process import boot_id, start_time
from tests.conformance.bench import SUCCEED, Scenario, order_make

ATTEMPT = "w-1"
LAST = (FactKind.EXITED, FactKind.START_FAILED, FactKind.EVICTED)


@pytest.fixture
def root() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="millpond-windows-"))
    (made / "engine" / "ranks").mkdir(parents=True)
    yield made
    supervisor_stop(made / "run")
    shutil.rmtree(made)


def _journal(root: Path, *records: dict[str, Any], torn: str = "") -> None:
    lines = [json.dumps(record) + "\n" for record in records]
    (root / "engine" / "journal.1").write_text("".join(lines) + torn)


def _order(root: Path, boot: str = "") -> dict[str, Any]:
    scenario = Scenario(("echo ran >> ran; exit 6",), SUCCEED.behaviour)
    order = order_make(ATTEMPT, scenario, root / "job", isolated=False)
    for folder in (order.work_dir, order.checkpoint_dir, order.log_dir):
        Path(folder).mkdir(parents=True, exist_ok=True)
    state = {"started": False, "ready": False, "mark": 0, "ports": [0], "master_port": 0, "boot": boot or boot_id()}
    return {"r": "order", "order": asdict(order), **state}


def _file(root: Path, kind: str, value: dict[str, Any]) -> None:
    (root / "engine" / "ranks" / f"{ATTEMPT}.0.{kind}").write_text(json.dumps(value))


def _outcome(root: Path) -> tuple[Fact, int]:
    """How the attempt ended under a new supervisor, and how often its command ran."""
    supervisor_ensure(root / "engine", root / "run", isolation="none")
    engine = LocalEngine(root / "engine", root / "run")
    end = time.monotonic() + 20
    while True:
        facts = [fact for fact in engine.observe(0, 0.2).facts if fact.attempt == ATTEMPT]
        if facts and facts[-1].kind in LAST:
            break
        assert time.monotonic() < end, facts
    time.sleep(0.2)
    last = [fact for fact in engine.observe(0).facts if fact.kind in LAST]
    assert len(last) == 1
    engine.close()
    ran = root / "job" / "work" / "ran"
    return last[0], len(ran.read_text().splitlines()) if ran.exists() else 0


def test_between_journal_and_fork(root: Path) -> None:
    _journal(root, _order(root))
    last, runs = _outcome(root)
    assert (last.code, runs) == (6, 1)


def test_order_not_wholly_written_never_was(root: Path) -> None:
    _journal(root, _order(root), torn=json.dumps(_order(root))[:200])
    last, runs = _outcome(root)
    assert (last.code, runs) == (6, 1)


def test_keeper_died_before_it_left_a_status(root: Path) -> None:
    _journal(root, _order(root))
    _file(root, "keeper", {"pid": 2**22 - 1, "start": 12345})
    last, runs = _outcome(root)
    assert (last.code, runs) == (None, 0)


def test_pid_of_the_keeper_used_again_by_another(root: Path) -> None:
    _journal(root, _order(root))
    _file(root, "keeper", {"pid": os.getpid(), "start": start_time(os.getpid()) + 1})
    last, runs = _outcome(root)
    assert (last.code, runs) == (None, 0)
    assert start_time(os.getpid()) > 0


def test_between_status_and_fact(root: Path) -> None:
    _journal(root, _order(root))
    _file(root, "keeper", {"pid": 2**22 - 1, "start": 12345})
    _file(root, "main", {"pid": 2**22 - 2, "start": 12346, "time_ms": 1})
    _file(root, "status", {"code": 3, "time_ms": 2, "began": True, "detail": ""})
    last, runs = _outcome(root)
    assert (last.code, last.natural, runs) == (3, True, 0)


def test_between_fact_and_clearing_away(root: Path) -> None:
    fact = {"sequence": 1, "time_ms": 5, "kind": "exited", "attempt": ATTEMPT, "code": 3, "natural": True}
    _journal(root, _order(root), {"r": "fact", "fact": fact})
    _file(root, "keeper", {"pid": 2**22 - 1, "start": 12345})
    _file(root, "status", {"code": 3, "time_ms": 2, "began": True, "detail": ""})
    last, runs = _outcome(root)
    assert (last.code, last.sequence, runs) == (3, 1, 0)
    assert list((root / "engine" / "ranks").iterdir()) == []


def test_machine_restarted(root: Path) -> None:
    """What ran before cannot be known and is not run again, even if no keeper had claimed it."""
    _journal(root, _order(root, boot="an earlier one"))
    last, runs = _outcome(root)
    assert (last.kind, last.code, runs) == (FactKind.EVICTED, None, 0)
    assert last.detail == "the machine was restarted"


def test_machine_restarted_after_the_end(root: Path) -> None:
    _journal(root, _order(root, boot="an earlier one"))
    _file(root, "status", {"code": 0, "time_ms": 2, "began": True, "detail": ""})
    last, runs = _outcome(root)
    assert (last.code, runs) == (0, 0)


def test_of_two_keepers_one_starts_the_rank(tmp_path: Path) -> None:
    """A supervisor killed between fork and noting the pid, and its successor, may both have forked one."""
    launch = Launch(
        attempt=ATTEMPT,
        rank=0,
        base=tmp_path / "w-1.0",
        run_dir=tmp_path,
        program="/bin/sh",
        arguments=("sh", "-c", "echo ran >> ran; exit 6"),
        env={},
        work_dir=str(tmp_path),
        log=tmp_path / "log",
        uid=0,
        sandboxed=False,
        doors=(),
    )
    keepers = [keeper_fork(launch) for _ in range(6)]
    codes = sorted(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in keepers)
    assert codes == [0, *[CLAIM_LOST] * 5]
    assert (tmp_path / "ran").read_text() == "ran\n"
    assert json.loads((tmp_path / "w-1.0.status").read_text())["code"] == 6
