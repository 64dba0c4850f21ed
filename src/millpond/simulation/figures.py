"""What a simulation adds up: card-time, waits and lost work, of the pool and of every leaf."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from millpond.scheduling.snapshot import Snapshot


def waits_json(waits: Sequence[int]) -> dict[str, int]:
    """Mean, median, 95th percentile and maximum in seconds; percentiles by nearest rank."""
    ordered = sorted(waits)
    if not ordered:
        return {"mean": 0, "p50": 0, "p95": 0, "max": 0}
    count = len(ordered)
    return {
        "mean": sum(ordered) // count,
        "p50": ordered[(count - 1) // 2],
        "p95": ordered[-(-count * 95 // 100) - 1],
        "max": ordered[-1],
    }


@dataclass(slots=True)
class QueueFigures:
    """``evicted`` without those who were ``moved`` to other cards; ``lost`` in milli-card-seconds; ``waits`` in seconds
    from submission to the first start.
    """

    arrived: int = 0
    started: int = 0
    ended: int = 0
    evicted: int = 0
    moved: int = 0
    used: int = 0
    lost: int = 0
    waits: list[int] = field(default_factory=list)
    load: int = 0
    """Milli-cards in use; ``used`` is what they add up to, less `load` times the moment at which it is read."""

    def begin(self, milli: int, time: int) -> None:
        """So many milli-cards are in use from now on."""
        self.load += milli
        self.used -= milli * time

    def end(self, milli: int, time: int) -> None:
        """They are free again."""
        self.load -= milli
        self.used += milli * time

    def leave(self, why: str) -> None:
        """Somebody is asked to leave; who only moves is not counted among the evicted."""
        if why == "consolidate":
            self.moved += 1
        else:
            self.evicted += 1

    def used_by(self, time: int) -> int:
        """Milli-card-seconds used up to a moment."""
        return self.used + self.load * time

    def json(self, running: int, waiting: int, time: int) -> dict[str, object]:
        return {
            "arrived": self.arrived,
            "started": self.started,
            "ended": self.ended,
            "evicted": self.evicted,
            **({"moved": self.moved} if self.moved else {}),
            "running": running,
            "waiting": waiting,
            "card_seconds": self.used_by(time) // 1000,
            "lost_milli_seconds": self.lost,
            "wait_seconds": waits_json(self.waits),
        }


@dataclass(slots=True)
class Figures:
    """``pool`` is the milli-cards of every configured card."""

    pool: int
    queues: dict[str, QueueFigures]
    passes: int = 0

    @classmethod
    def of(cls, snapshot: Snapshot) -> Figures:
        cards = sum(state.spec.cards.count for state in snapshot.nodes if state.spec.cards)
        return cls(cards * 1000, {queue.name: QueueFigures() for queue in snapshot.queues if queue.leaf})

    def summary(self, elapsed: int, running: dict[str, int], waiting: dict[str, int], time: int) -> dict[str, object]:
        """``utilisation``: used of available card-time, to four places.  ``time`` is the present moment."""
        used = sum(figures.used_by(time) for figures in self.queues.values())
        available = self.pool * elapsed
        moves = sum(figures.moved for figures in self.queues.values())
        return {
            "elapsed": elapsed,
            "passes": self.passes,
            "utilisation": used * 10_000 // available / 10_000 if available else 0.0,
            "card_seconds": used // 1000,
            "evictions": sum(figures.evicted for figures in self.queues.values()),
            **({"moves": moves} if moves else {}),
            "lost_milli_seconds": sum(figures.lost for figures in self.queues.values()),
            "queues": {
                name: figures.json(running.get(name, 0), waiting.get(name, 0), time)
                for name, figures in sorted(self.queues.items())
            },
        }
