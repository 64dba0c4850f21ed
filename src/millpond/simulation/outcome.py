"""What one run of a simulation came to: a value that travels between processes, into tables and into reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from millpond.simulation.recorder import Record


@dataclass(frozen=True, slots=True)
class Outcome:
    """``changes`` as they were written; ``summary`` is `Simulation.summary`.  ``stopped``: it was ended early."""

    name: str
    changes: tuple[str, ...]
    summary: Mapping[str, object]
    record: Record
    events: int = 0
    stopped: bool = False

    @property
    def utilisation(self) -> int:
        """Used of available card-time in thousandths, rounded."""
        return _rounded(self.record.total("used") * 1000, self.record.pool * self.record.elapsed)

    @property
    def fragmentation(self) -> int:
        """Free cards that the usual job cannot use, on average, in thousandths of the pool, rounded."""
        return _rounded(self.record.fragmentation() * 1000, self.record.pool)

    def json(self) -> dict[str, object]:
        """The line of a comparison."""
        return {
            "run": self.name,
            "set": list(self.changes),
            **({"interrupted": True} if self.stopped else {}),
            **({"violations": self.record.violations} if self.record.violations else {}),
            "summary": {
                **self.summary,
                "fragmented_milli_cards": self.record.fragmentation(),
                "jobs_done": self.record.total("ended"),
                "tenants": self.record.tenants,
                "wait_seconds": self.record.waits,
            },
        }


def _rounded(part: int, whole: int) -> int:
    return (2 * part + whole) // (2 * whole) if whole else 0
