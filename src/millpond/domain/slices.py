"""How NVIDIA cards divide into slices (Multi-Instance GPU): the vendor's tables as data.

A card has memory slots; a profile takes some of them side by side and may begin only where the vendor says.  Compute
slices follow from the placement: whatever fits the memory slots also fits the seven (A30: four) compute slices.

Sources: NVIDIA Multi-Instance GPU User Guide r580, "Supported MIG Profiles" (names, memory fractions, SM fractions,
instances) and "Getting Started with MIG" (``nvidia-smi mig -lgip``: GiB of each profile; ``-lgipp``: placements).
NVIDIA AI Enterprise documentation, vGPU types, for the profiles of A800, H800 and H20.  Memory is what ``-lgip``
prints, in MiB: for H200 in github.com/NVIDIA/mig-parted, issue 120, for B200 in github.com/NVIDIA/gpu-operator, pull
request 1351.  H20-141GB, of which no print-out was found, is taken to be as H200.  Drivers differ by up to 256 MiB (a
B200's 1g.23gb by 1.5 GiB); the figures here are what quotas count by, whatever driver a node has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from millpond.domain.amounts import CARD
from millpond.domain.names import model_matches
from millpond.domain.nodes import CardKind

MEDIA: Final = 1 << 16
"""The bit of a card's media engines in a mask of slots: only one slice of a card may have them (``+me``)."""


@dataclass(frozen=True, slots=True)
class SliceProfile:
    """One way to cut a slice.  ``slots`` memory slots, beginning at one of ``starts``; ``memory`` in MiB.

    ``compute`` are its compute slices and ``instances`` how many of it one card can hold.
    """

    name: str
    memory: int
    compute: int
    slots: int
    starts: tuple[int, ...]
    instances: int

    @property
    def media(self) -> bool:
        """Whether it takes the media engines of the card."""
        return self.name.endswith("+me")

    def mask(self, start: int) -> int:
        """The slots that it takes when it begins at `start`, as bits, and `MEDIA`."""
        return ((1 << self.slots) - 1) << start | (MEDIA if self.media else 0)


@dataclass(frozen=True, slots=True)
class SliceTable:
    """The profiles of one kind of card.  ``memory`` in MiB as sold, ``slots`` memory slots, ``compute`` slices."""

    models: tuple[str, ...]
    memory: int
    slots: int
    compute: int
    profiles: tuple[SliceProfile, ...]

    def find(self, name: str) -> SliceProfile | None:
        for profile in self.profiles:
            if profile.name == name:
                return profile
        return None

    def milli(self, profile: SliceProfile) -> int:
        """What a slice counts in quotas: its share of the card's memory, rounded up (scheduling §1)."""
        return -(-profile.memory * CARD // self.memory)


def _seven(models: tuple[str, ...], memory: int, names: str, sizes: tuple[int, ...]) -> SliceTable:
    """A card of seven compute slices and eight memory slots.

    `names` are the profiles of 1, 1 (wide), 2, 3, 4 and 7 compute slices, `sizes` their MiB.
    """
    shapes = (
        (1, 1, (0, 1, 2, 3, 4, 5, 6), 7),
        (1, 2, (0, 2, 4, 6), 4),
        (2, 2, (0, 2, 4), 3),
        (3, 4, (0, 4), 2),
        (4, 4, (0,), 1),
        (7, 8, (0,), 1),
    )
    profiles = [
        SliceProfile(name, size, compute, slots, starts, instances)
        for name, size, (compute, slots, starts, instances) in zip(names.split(), sizes, shapes, strict=True)
    ]
    media = SliceProfile(f"{profiles[0].name}+me", profiles[0].memory, 1, 1, profiles[0].starts, 1)
    return SliceTable(models, memory * 1024, 8, 7, (profiles[0], media, *profiles[1:]))


_SMALL = "1g.5gb 1g.10gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb"
_LARGE = "1g.10gb 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb"
_H94 = "1g.12gb 1g.24gb 2g.24gb 3g.47gb 4g.47gb 7g.94gb"
_H96 = "1g.12gb 1g.24gb 2g.24gb 3g.48gb 4g.48gb 7g.96gb"
_H141 = "1g.18gb 1g.35gb 2g.35gb 3g.71gb 4g.71gb 7g.141gb"
_B180 = "1g.23gb 1g.45gb 2g.45gb 3g.90gb 4g.90gb 7g.180gb"

_A30 = SliceTable(
    ("A30",),
    24 * 1024,
    4,
    4,
    (
        SliceProfile("1g.6gb", 5952, 1, 1, (0, 1, 2, 3), 4),
        SliceProfile("1g.6gb+me", 5952, 1, 1, (0, 1, 2, 3), 1),
        SliceProfile("2g.12gb", 11_968, 2, 2, (0, 2), 2),
        SliceProfile("2g.12gb+me", 11_968, 2, 2, (0, 2), 1),
        SliceProfile("4g.24gb", 24_000, 4, 4, (0,), 1),
    ),
)

SLICE_TABLES = (
    _seven(("A100", "A800"), 40, _SMALL, (4864, 9856, 9856, 19_968, 19_968, 40_192)),
    _seven(("A100", "A800"), 80, _LARGE, (9728, 19_968, 19_968, 40_192, 40_192, 80_896)),
    _A30,
    _seven(("H100", "H800"), 80, _LARGE, (9984, 20_096, 20_096, 40_448, 40_448, 81_152)),
    _seven(("H100", "H800"), 94, _H94, (11_008, 22_144, 22_144, 47_488, 47_488, 95_360)),
    _seven(("H100", "GH200", "H20"), 96, _H96, (11_264, 23_552, 23_552, 47_616, 47_616, 95_232)),
    _seven(("H200", "H20"), 141, _H141, (16_384, 33_024, 33_024, 71_168, 71_168, 143_104)),
    _seven(("B200",), 180, _B180, (20_992, 45_312, 45_312, 91_136, 91_136, 182_784)),
)
"""Every table, in the order of the vendor's guide."""

_SIZE = re.compile(r"-(\d+)GB\Z", re.IGNORECASE)

_PARTS = re.compile(r"(\d+)g\.(\d+)gb")

_CLOSE = 20
"""A card belongs to a table if its memory differs by at most one part in so many: NVML and data sheets round apart."""


@lru_cache(maxsize=1024)
def slice_table(model: str, memory: int) -> SliceTable | None:
    """The table of a card of that model and memory (MiB); None if it cannot be divided, or nobody wrote how."""
    tables = [
        (abs(table.memory - memory), index)
        for index, table in enumerate(SLICE_TABLES)
        if any(model_matches(name, model) for name in table.models)
        and abs(table.memory - memory) * _CLOSE <= table.memory
    ]
    return SLICE_TABLES[min(tables)[1]] if tables else None


def slice_table_of(kind: CardKind) -> SliceTable | None:
    """How the cards of a node divide.  Those that a driver found, which have UUIDs, say themselves whether (`mig`)."""
    return slice_table(kind.model, kind.memory) if kind.mig or not kind.uuids else None


def cards_divide(kind: CardKind) -> bool:
    """Whether the cards of a node can be divided."""
    return slice_table_of(kind) is not None


def slice_milli(model: str, memory: int, name: str) -> int | None:
    """Milli-cards of a slice on such a card; None if the card has no such profile."""
    table = slice_table(model, memory)
    profile = table.find(name) if table is not None else None
    return table.milli(profile) if table is not None and profile is not None else None


def slice_names(models: Iterable[str] = ()) -> Iterator[str]:
    """All profiles of cards that a request for `models` may get (all if empty), smallest card first."""
    wanted = tuple(models)
    seen: set[str] = set()
    for table in SLICE_TABLES:
        if wanted and not any(_related(one, name, table.memory) for one in wanted for name in table.models):
            continue
        for profile in table.profiles:
            if profile.name not in seen:
                seen.add(profile.name)
                yield profile.name


def _related(wanted: str, name: str, memory: int) -> bool:
    """Whether a request for the model `wanted` may get a card `name` of that memory."""
    size = _SIZE.search(wanted)
    named = size is None or int(size.group(1)) * 1024 == memory
    return named and (model_matches(wanted, name) or model_matches(name, wanted))


def slice_hint(name: str, models: Iterable[str] = ()) -> str | None:
    """None if some card that `models` allows has the profile `name`; else which one was probably meant."""
    known = list(slice_names(models))
    if name in known or not known:
        return None  # models of which no table is known are judged against the pool
    return f"did you mean mig-{min(known, key=lambda other: _distance(name, other))}?"


def _distance(name: str, other: str) -> tuple[int, int, int]:
    """How far another profile is from what was written: in compute, in memory, in what follows."""
    mine, theirs = _PARTS.match(name), _PARTS.match(other)
    longer = abs(len(name) - len(other))
    if mine is None or theirs is None:
        return (0, 0, longer)
    compute, memory = (abs(int(mine.group(part)) - int(theirs.group(part))) for part in (1, 2))
    return (compute, memory, longer)
