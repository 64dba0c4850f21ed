"""The golden scenarios on the live local engine: a real pool decides as the plan file says.

One millpond a pool.  The scenarios that need more than a plan (S08, S10, S16, S19 and the evening of S01) follow
below or stand in ``test_loop``.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from millpond.files.snapshots import snapshot_load, snapshot_write
from millpond.scheduling.decisions import plan_bytes
from millpond.scheduling.plan import plan
from millpond.scheduling.snapshot import NodeState, Snapshot
from tests.golden.scenario_files import FOLDER
from tests.live import Millpond
from tests.stage import Stage, lost_work_cap

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]

NAMES = (
    *("S01-night", "S01-bell", "S01-more-firm", "S01-more-preemptible", "S09", "S09-fifth", "S26", "S26-family"),
    *("S02", "S20", "S03", "S22", "S04", "S05", "S11-higher", "S11-equal", "S25", "S06", "S19-card-bad"),
    *("S19-node-lost", "S23", "S24"),
)


def snapshot_of(name: str) -> Snapshot:
    return snapshot_load((FOLDER / f"{name}.yaml").read_text(), name).snapshot


class Ponds:
    """The present millpond; another pool means another one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key: tuple[object, ...] = ()
        self.pond: Millpond | None = None

    def get(self, name: str) -> Millpond:
        snapshot = snapshot_of(name)
        specs = tuple(node.spec for node in snapshot.nodes)
        cap = lost_work_cap(snapshot)
        if self.pond is None or (specs, cap) != self.key:
            self.close()
            home = self.folder / name
            home.mkdir(mode=0o755)
            pool = home / "pool.yaml"
            pool.write_text(snapshot_write(Snapshot(0, nodes=tuple(NodeState(spec) for spec in specs))))
            self.pond = Millpond(home / "state", str(pool), cooldown="0", lost_work_cap=str(cap))
            self.key = (specs, cap)
            self.pond.up()
        return self.pond

    def close(self) -> None:
        if self.pond is not None:
            self.pond.down("--grace", "0")
            self.pond = None


@pytest.fixture(scope="module")
def ponds() -> Iterator[Ponds]:
    with tempfile.TemporaryDirectory(prefix="millpond-scenarios-") as folder:
        Path(folder).chmod(0o755)
        made = Ponds(Path(folder))
        try:
            yield made
        finally:
            made.close()


@pytest.mark.parametrize("name", NAMES)
def test_a_live_pool_decides_as_the_plan_says(ponds: Ponds, name: str) -> None:
    pond = ponds.get(name)
    kept = json.loads((FOLDER / f"{name}.plan.json").read_text())
    with pond.client() as client:
        stage = Stage(client, pond.state_dir, snapshot_of(name), kept)
        stage.clear()
        stage.furnish()
        stage.play()
        planned = stage.planned_seats()
        assert {job: stage.seats(job) for job in planned} == planned
        assert stage.evicted() == {(item["job"], item["for"], item["why"]) for item in kept["evict"]}
        for job, reasons in stage.planned_reasons():
            assert stage.reasons(job) == reasons, job
        _s21(client.system.snapshot(), name)


def _s21(exported: str, name: str) -> None:
    """S21: what the live pool says of itself, in any order, is one plan."""
    snapshot = snapshot_load(exported, "export").snapshot
    expected = plan_bytes(plan(snapshot))
    chance = random.Random(name)
    for _ in range(10):
        shuffled = replace(
            snapshot,
            nodes=tuple(chance.sample(snapshot.nodes, len(snapshot.nodes))),
            queues=tuple(chance.sample(snapshot.queues, len(snapshot.queues))),
            jobs=tuple(chance.sample(snapshot.jobs, len(snapshot.jobs))),
        )
        assert plan_bytes(plan(shuffled)) == expected


def test_every_plan_scenario_has_its_turn() -> None:
    """S07, S10, S13 and S16 need time to pass: the first two and S16 are in `test_loop`, S13 is simulated."""
    rest = {path.stem for path in FOLDER.glob("*.yaml")} - set(NAMES)
    assert rest <= {"S01-day", "S07", "S10", "S12", "S13", "S16", "S17"}
