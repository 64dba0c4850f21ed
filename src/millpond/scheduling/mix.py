"""The observed mix: which requests a pool sees, and how often (scheduling §6).

A mix is written as ``{request: count}``, where a request is a card request (``A800:8``, ``0.25``), followed by
`` cpu=<milli>`` where it also asks for CPU.  Whoever makes the snapshots counts running, waiting and recent requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from millpond.domain.cards import CardRequest, card_request_parse
from millpond.domain.errors import InvalidInput
from millpond.scheduling.snapshot import Job

_CPU = " cpu="


@dataclass(frozen=True, slots=True)
class Demand:
    """One kind of request: what each node of a job asks for (``cpu`` in milli-CPU), and how often it was seen."""

    gpu: CardRequest
    cpu: int
    count: int

    @property
    def milli(self) -> int:
        """Milli-cards that it needs; the smallest size of an elastic one, 0 for slices."""
        return self.gpu.milli_min


def demand_key(gpu: CardRequest, cpu: int) -> str:
    """A request as it stands in a mix."""
    return f"{gpu}{_CPU}{cpu}" if cpu else str(gpu)


def demand_parse(key: str) -> tuple[CardRequest, int]:
    """Card request and milli-CPU of a key of a mix.  Raises `InvalidInput`."""
    text, separator, cpu = key.partition(_CPU)
    if separator and not cpu.isdecimal():
        raise InvalidInput(f"{key!r} is not a request", hint="write A800:8 or A800:8 cpu=16000, in milli-CPU")
    return card_request_parse(text), int(cpu or "0")


def mix_demands(mix: Mapping[str, int]) -> list[Demand]:
    """What a mix says, in a fixed order."""
    return [Demand(*demand_parse(key), count) for key, count in sorted(mix.items()) if count > 0]


class MixCounter:
    """Counts requests as they come, and says when prices should be made anew.

    Often at first (after 32, 64, 128 … requests), later every ``every`` requests: prices cost some milliseconds and
    change little.
    """

    FIRST = 32

    def __init__(self, every: int = 500) -> None:
        self._every = every
        self._counts: dict[str, int] = {}
        self._seen = 0
        self._next = self.FIRST

    def add(self, gpu: CardRequest, cpu: int, count: int = 1) -> None:
        """`count` requests more; a gang counts once for each of its nodes."""
        key = demand_key(gpu, cpu)
        self._counts[key] = self._counts.get(key, 0) + count
        self._seen += 1

    def jobs_add(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            self.add(job.gpu, job.cpu, job.nodes)

    def due(self) -> bool:
        """Whether enough was seen since the last time that this was true."""
        if self._seen < self._next:
            return False
        while self._next <= self._seen:
            self._next = min(2 * self._next, self._next + self._every)
        return True

    def mix(self) -> dict[str, int]:
        return dict(self._counts)
