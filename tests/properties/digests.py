"""Prints digests of plans, so that two builds of the core can be compared: ``python -m tests.properties.digests``.

The first line says which build it is; each other names a scenario or a generated world, and the digest of its plan.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings

from millpond.files.snapshots import snapshot_load
from millpond.scheduling import plan as plan_module
from millpond.scheduling.decisions import plan_bytes
from millpond.scheduling.plan import plan
from millpond.scheduling.resident import Resident
from millpond.scheduling.snapshot import Snapshot
from tests.properties.worlds import snapshots

SCENARIOS = Path(__file__).parents[1] / "golden" / "scenarios"
WORLDS = 300

_CHECKS = list(HealthCheck)


def main() -> None:
    print("build", "compiled" if str(plan_module.__file__).endswith(".so") else "pure")
    for path in sorted(SCENARIOS.glob("*.yaml")):
        snapshot = snapshot_load(path.read_text(), path.name).snapshot
        print(path.stem, hashlib.sha256(plan_bytes(plan(snapshot))).hexdigest())
    for world, digest in _worlds().items():
        print(world, digest)


def _worlds() -> dict[str, str]:
    """Digest of each world → digest of its plans.

    Each seed begins anew: what Hypothesis draws later on depends on what it saw before, and not alike in every build.
    """
    found: dict[str, str] = {}
    for number in range(WORLDS):

        @seed(number)
        @settings(max_examples=3, phases=[Phase.generate], database=None, deadline=None, suppress_health_check=_CHECKS)
        @given(snapshots())
        def collect(snapshot: Snapshot) -> None:
            plans = plan_bytes(plan(snapshot)) + plan_bytes(Resident(snapshot).plan(waits=False))
            found[hashlib.sha256(repr(snapshot).encode()).hexdigest()] = hashlib.sha256(plans).hexdigest()

        collect()
    return found


if __name__ == "__main__":
    main()
