"""Prints digests of plans, so that two builds of the core can be compared: ``python -m tests.properties.digests``.

One line says which build it is, one a digest of every scenario, one of generated worlds (always the same ones).
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from hypothesis import HealthCheck, given, settings

from millpond.files.snapshots import snapshot_load
from millpond.scheduling import plan as plan_module
from millpond.scheduling.decisions import plan_bytes
from millpond.scheduling.plan import plan
from millpond.scheduling.resident import Resident
from millpond.scheduling.snapshot import Snapshot
from tests.properties.worlds import snapshots

SCENARIOS = Path(__file__).parents[1] / "golden" / "scenarios"
WORLDS = 300


def main() -> None:
    print("build", "compiled" if str(plan_module.__file__).endswith(".so") else "pure")
    for path in sorted(SCENARIOS.glob("*.yaml")):
        snapshot = snapshot_load(path.read_text(), path.name).snapshot
        print(path.stem, hashlib.sha256(plan_bytes(plan(snapshot))).hexdigest())
    print("worlds", _worlds())


def _worlds() -> str:
    digest = hashlib.sha256()

    @settings(
        max_examples=WORLDS, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(snapshots())
    def collect(snapshot: Snapshot) -> None:
        digest.update(plan_bytes(plan(snapshot)))
        digest.update(plan_bytes(Resident(snapshot).plan(waits=False)))

    collect()
    return digest.hexdigest()


if __name__ == "__main__":
    main()
