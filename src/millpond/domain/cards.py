"""Cards and requests for cards: the ``gpu`` grammar of a job file.

    gpu := <vendor>:<model,model…>:<memory range>:<amount>     every part optional, in that order

An amount is ``2`` (whole cards), ``1..4`` (elastic), ``0.25`` (a fraction of one card) or ``mig-1g.5gb``,
``mig-1g.5gb x2`` (slices).  Examples: ``A800:8``, ``24GB..:1``,
``nvidia:A100,H100:40GB..:0.25``, ``ascend:910B:4``, ``8``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from millpond.domain.amounts import CARD, memory_format, memory_parse, milli_format, milli_parse
from millpond.domain.errors import InvalidInput
from millpond.domain.names import model_matches
from millpond.domain.slices import slice_hint

VENDORS = ("nvidia", "amd", "ascend", "cambricon", "hygon", "iluvatar", "moorethreads", "metax")
MAX_CARDS = 4096

_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,62}\Z")
_SLICE = re.compile(r"mig-(\d+g\.\d+gb(?:\+me)?)(?:\s*x\s*(\d{1,4}))?\Z", re.IGNORECASE)
_SIZE = r"\d+(?:\.\d+)?\s*(?:M|G|T)i?B"
_MEMORY_PART = re.compile(rf"(?:{_SIZE}|{_SIZE}\s*\.\.(?:\s*{_SIZE})?|\.\.\s*{_SIZE})\Z", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CardRequest:
    """What one node of a job asks for.

    ``milli`` is the amount in milli-cards (for an elastic request the largest, for slices 0: their worth depends on
    the card, see `millpond.domain.slices`).  ``milli_min`` equals it unless the request is elastic.  ``slice`` and
    ``slices`` name MIG instances.
    ``models`` empty means any; ``memory_min``/``memory_max`` are MiB of one card.
    """

    milli: int = 0
    milli_min: int = 0
    vendor: str = ""
    models: tuple[str, ...] = ()
    memory_min: int = 0
    memory_max: int | None = None
    slice: str = ""
    slices: int = 0

    @property
    def elastic(self) -> bool:
        return self.milli_min != self.milli

    @property
    def fraction(self) -> bool:
        """A share of one card, which other fractions may use too."""
        return 0 < self.milli < CARD

    @property
    def none(self) -> bool:
        """No cards at all."""
        return self.milli == 0 and not self.slice

    def model_matches(self, model: str) -> bool:
        """``A800`` matches itself and ``A800-80GB``, case aside (scheduling §9)."""
        return not self.models or any(model_matches(wanted, model) for wanted in self.models)

    def card_matches(self, vendor: str, model: str, memory: int) -> bool:
        """Whether a card of that vendor, model and memory (MiB) would do."""
        return (
            (not self.vendor or self.vendor == vendor.lower())
            and self.model_matches(model)
            and memory >= self.memory_min
            and (self.memory_max is None or memory <= self.memory_max)
        )

    def __str__(self) -> str:
        parts = [self.vendor, ",".join(self.models), self._memory_text(), self._amount_text()]
        return ":".join(part for part in parts if part)

    def _memory_text(self) -> str:
        if self.memory_min == self.memory_max:
            return memory_format(self.memory_min)
        low = memory_format(self.memory_min) if self.memory_min else ""
        high = memory_format(self.memory_max) if self.memory_max is not None else ""
        return f"{low}..{high}" if low or high else ""

    def _amount_text(self) -> str:
        if self.slice:
            return f"mig-{self.slice}" + (f" x{self.slices}" if self.slices > 1 else "")
        if self.elastic:
            return f"{milli_format(self.milli_min)}..{milli_format(self.milli)}"
        return milli_format(self.milli)


def card_request_parse(text: str) -> CardRequest:
    """Read the ``gpu`` grammar.  Raises `InvalidInput` that names the part and what it should look like."""
    parts = [part.strip() for part in text.strip().split(":")]
    if len(parts) > 4 or not all(parts):
        raise InvalidInput(
            f"{text!r} is not a card request",
            hint="write vendor:model:memory:amount, such as A800:8 or nvidia:A100:40GB..:0.25",
        )
    fields: dict[str, str] = {}
    order = ("vendor", "models", "memory", "amount")
    place = 0
    for index, part in enumerate(parts):
        kind = _part_kind(part, last=index == len(parts) - 1)
        if kind in fields or order.index(kind) < place:
            raise InvalidInput(f"{part!r} in {text!r} is out of order", hint="the order is vendor:model:memory:amount")
        place = order.index(kind)
        fields[kind] = part
    milli_min, milli, name, slices = _amount(fields.get("amount", "1"))
    low, high = _memory_range(fields.get("memory", ""))
    models = _models(fields.get("models", ""))
    hint = slice_hint(name, models) if name else None
    if hint is not None:
        raise InvalidInput(f"no {' or '.join(models) or 'card'} has slices of mig-{name}", hint=hint)
    return CardRequest(
        milli=milli,
        milli_min=milli_min,
        vendor=fields.get("vendor", "").lower(),
        models=models,
        memory_min=low,
        memory_max=high,
        slice=name,
        slices=slices,
    )


def _part_kind(part: str, *, last: bool) -> str:
    if part.lower() in VENDORS:
        return "vendor"
    if not part.lower().startswith("mig-") and _MEMORY_PART.match(part):
        return "memory"
    if last and (part.lower().startswith("mig-") or re.fullmatch(r"[\d.+-]+(?:e\d+)?", part)):
        return "amount"
    return "models"


def _models(text: str) -> tuple[str, ...]:
    models = tuple(model.strip() for model in text.split(",")) if text else ()
    for model in models:
        if not _MODEL.match(model):
            raise InvalidInput(f"{model!r} is not a card model", hint="a model looks like A800 or A100-40GB")
    return tuple(sorted(set(models), key=str.lower))


def _memory_range(text: str) -> tuple[int, int | None]:
    if not text:
        return 0, None
    if ".." not in text:
        exact = memory_parse(text)
        return exact, exact
    low_text, _, high_text = text.partition("..")
    low = memory_parse(low_text) if low_text else 0
    high = memory_parse(high_text) if high_text else None
    if high is not None and high < low:
        raise InvalidInput(f"{text!r} is an empty memory range", hint="write the smaller size first")
    return low, high


def _amount(text: str) -> tuple[int, int, str, int]:
    """(smallest, largest, slice profile, slices), in milli-cards."""
    if text.lower().startswith("mig-"):
        match = _SLICE.match(text)
        if match is None:
            raise InvalidInput(f"{text!r} is not a slice", hint="write mig-1g.5gb or mig-1g.5gb x2")
        count = int(match.group(2) or 1)
        if not 1 <= count <= 64:
            raise InvalidInput(f"{text!r} asks for {count} slices", hint="from 1 to 64")
        return 0, 0, match.group(1).lower(), count
    if ".." in text:
        low_text, _, high_text = text.partition("..")
        low, high = milli_parse(low_text, "card amount"), milli_parse(high_text, "card amount")
        if low % CARD or high % CARD or not 0 < low <= high:
            raise InvalidInput(
                f"{text!r} is not an elastic amount", hint="write whole cards, smaller first, such as 1..4"
            )
    else:
        low = high = milli_parse(text, "card amount")
        if high > CARD and high % CARD:
            raise InvalidInput(f"{text!r} is neither a fraction of one card nor whole cards", hint="write 0.25, 1 or 2")
    if high > MAX_CARDS * CARD:
        raise InvalidInput(f"{text!r} is more than {MAX_CARDS} cards on one node")
    return low, high, "", 0
