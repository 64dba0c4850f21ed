"""What `plan` and `simulate` share: reading the file, saying seats and numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from millpond.cli.job_input import file_read
from millpond.cli.session import Session
from millpond.cli.values import ranges
from millpond.domain.amounts import milli_format
from millpond.files.overrides import Override
from millpond.files.snapshots import SnapshotFile, snapshot_load
from millpond.files.tree import SNAPSHOT_FILE_LIMIT
from millpond.scheduling.snapshot import Seat


def snapshot_read(session: Session, path: str, overrides: Sequence[Override] = ()) -> SnapshotFile:
    """The snapshot in a file (``-``: standard input), with what-if changes; warnings about queues go to stderr."""
    text, source = file_read(path, SNAPSHOT_FILE_LIMIT)
    loaded = snapshot_load(text, source, overrides)
    for warning in loaded.warnings:
        session.output.note(session.texts("plan.warning", text=warning), "yellow")
    return loaded


def seats_text(seats: Iterable[Seat]) -> str:
    """``n1[0-3,6] n2[0]``, a fraction with its share: ``n1[2]*0.25``, a slice with its slot: ``n1[2:mig-1g.5gb@4]``."""
    return " ".join(_seat(seat.node, seat.cards, seat.milli, seat.slice, seat.slot) for seat in seats)


def placement_text(placement: Iterable[Mapping[str, object]]) -> str:
    """As `seats_text`, of the JSON form (whose ``milli`` is that of all its cards)."""
    texts = []
    for seat in placement:
        cards = tuple(card for card in _list(seat["cards"]) if isinstance(card, int))
        milli = seat.get("milli")
        each = milli // len(cards) if cards and isinstance(milli, int) else 1000
        slot = seat.get("slot")
        start = slot if isinstance(slot, int) else None
        texts.append(_seat(str(seat["node"]), cards, each, str(seat.get("slice", "")), start))
    return " ".join(texts)


def card_seconds(milli_seconds: int) -> str:
    """``960`` of 960000 milli-card-seconds."""
    return milli_format(milli_seconds)


def _seat(node: str, cards: tuple[int, ...], milli: int, profile: str, slot: int | None) -> str:
    if not cards:
        return node
    if profile:
        return f"{node}[{ranges(cards)}:mig-{profile}{'' if slot is None else f'@{slot}'}]"
    share = f"*{milli_format(milli)}" if milli < 1000 else ""
    return f"{node}[{ranges(cards)}]{share}"


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
