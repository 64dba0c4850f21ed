"""The queue tree with its quotas (scheduling §1): guarantee ≤ deserved ≤ cap per dimension, checked and filled in.

Amounts are milli-cards.  Dimension 0 is all cards; the others are card models, or names that stand for several
(``A100`` covers ``A100-40GB`` and ``A100-80GB``).  `FREE` means no limit in that dimension.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from millpond.domain.amounts import milli_format
from millpond.domain.errors import InvalidInput
from millpond.domain.jobs import QueueClass
from millpond.domain.names import model_matches
from millpond.domain.queues import CARDS, Dequeue, Dimensions, QueueConfig, queue_parent

FREE = 1 << 60
"""No limit: larger than any amount that is let in."""

Vector = list[int]
Dims = tuple[int, ...]


@dataclass(eq=False, slots=True)
class Queue:
    """One queue of the tree.  ``path`` is the queue itself, then its parents up to and including the root.

    ``tenant`` is the queue just below the root on this path; the root's own is itself.
    """

    name: str
    config: QueueConfig
    parent: Queue | None
    index: int = 0
    children: list[Queue] = field(default_factory=list)
    path: tuple[Queue, ...] = ()
    tenant: Queue = field(init=False)
    guarantee: Vector = field(default_factory=list)
    deserved: Vector = field(default_factory=list)
    cap: Vector = field(default_factory=list)

    @property
    def klass(self) -> QueueClass | None:
        return self.config.klass

    @property
    def fifo(self) -> bool:
        return self.config.dequeue is Dequeue.FIFO

    @property
    def word(self) -> str:
        return f"queue {self.name}" if self.name else "the pool"


@dataclass(eq=False, slots=True)
class Tree:
    """All queues by name; ``dims`` names the dimensions; ``models`` maps a pool's model to what it counts in."""

    queues: dict[str, Queue]
    leaves: tuple[Queue, ...]
    root: Queue
    dims: tuple[str, ...]
    models: dict[str, Dims]
    warnings: tuple[str, ...]

    def dims_of(self, model: str) -> Dims:
        """The dimensions in which a card of `model` counts; of no model, all cards only."""
        return self.models.get(model, (0,))


def tree_build(queues: Iterable[QueueConfig], pool: Mapping[str, int], *, strict: bool = True) -> Tree:
    """The tree of `queues` over a pool of milli-cards per model, with every unset amount filled in (§1).

    Raises `InvalidInput` for a configuration that cannot hold; with ``strict`` false only for a tree without sense,
    so that planning goes on when a pool shrank below its promises.
    """
    configs = sorted(queues, key=lambda config: config.name)
    by_name = _nodes_make(configs)
    dims, models, size = _dimensions(configs, pool)
    root = by_name[""]
    warnings: list[str] = []
    for queue in sorted(by_name.values(), key=lambda queue: -len(queue.path)):
        _amounts_fill(queue, dims)
        if strict:
            _queue_check(queue, dims, pool)
    if strict:
        warnings = _root_check(root, dims, size)
    leaves = tuple(queue for queue in by_name.values() if queue.klass is not None)
    return Tree(by_name, leaves, root, dims, models, tuple(warnings))


def fits(left: Vector, milli: int, dims: Dims) -> bool:
    """Whether `milli` fits into `left` in each of `dims`; nothing always fits."""
    if milli:
        for dim in dims:  # plain loop: this is asked more often than anything else
            if left[dim] < milli:
                return False
    return True


def take(left: Vector, milli: int, dims: Dims) -> None:
    for dim in dims:
        left[dim] -= milli


def _nodes_make(configs: list[QueueConfig]) -> dict[str, Queue]:
    given: dict[str, QueueConfig] = {}
    for config in configs:
        if config.name in given:
            raise InvalidInput(f"queue {config.name!r} is configured twice", hint="keep one entry a queue")
        given[config.name] = config
    for name in list(given):
        while name:
            name = queue_parent(name)
            given.setdefault(name, QueueConfig(name))
    given.setdefault("", QueueConfig(""))
    by_name: dict[str, Queue] = {}
    for index, name in enumerate(sorted(given)):
        parent = by_name[queue_parent(name)] if name else None
        queue = Queue(name, given[name], parent, index)
        queue.path = (queue, *(parent.path if parent else ()))
        queue.tenant = queue.path[-2] if parent else queue
        by_name[name] = queue
        if parent is None:
            continue
        if parent.klass is not None:
            raise InvalidInput(
                f"queue {parent.name!r} is a leaf, so {name!r} cannot be inside it", hint="leaves take jobs, not queues"
            )
        parent.children.append(queue)
    return by_name


def _dimensions(
    configs: list[QueueConfig], pool: Mapping[str, int]
) -> tuple[tuple[str, ...], dict[str, Dims], list[int]]:
    """(names of the dimensions, dimensions of each model, milli-cards of the pool in each dimension)."""
    names = {model.lower(): model for model in sorted(pool)}
    for config in configs:
        for amounts in (config.guarantee, config.deserved, config.cap):
            for name in sorted(amounts or ()):
                names.setdefault(name.lower(), name)
    names.pop(CARDS, None)
    dims = (CARDS, *(names[key] for key in sorted(names)))
    models = {
        model: tuple(i for i, name in enumerate(dims) if i == 0 or model_matches(name, model)) for model in sorted(pool)
    }
    size = [0] * len(dims)
    for model, indexes in models.items():
        for index in indexes:
            size[index] += pool[model]
    return dims, models, size


def _amounts_fill(queue: Queue, dims: tuple[str, ...]) -> None:
    """Children come first, so that an inner queue can add them up."""
    config, leaf = queue.config, queue.klass is not None
    zero = [0] * len(dims)
    sums = [
        [_sum(amounts) for amounts in zip(zero, *(getattr(child, field_name) for child in queue.children), strict=True)]
        for field_name in ("guarantee", "deserved")
    ]
    queue.guarantee = _promise(config.guarantee, dims) if config.guarantee is not None else list(zero)
    if config.guarantee is None and not leaf:
        queue.guarantee = sums[0]
    if config.deserved is not None:
        queue.deserved = _promise(config.deserved, dims)
    else:
        queue.deserved = list(queue.guarantee) if leaf else sums[1]
    named = {name.lower(): amount for name, amount in (config.cap or {}).items()}
    queue.cap = [named.get(name.lower(), FREE) for name in dims]


def _sum(amounts: tuple[int, ...]) -> int:
    return min(FREE, sum(amounts))


def _promise(amounts: Dimensions, dims: tuple[str, ...]) -> Vector:
    """Guarantee or deserved: an unnamed model is 0 unless ``cards`` is named (or a name that covers it)."""
    named = {name.lower(): amount for name, amount in amounts.items()}
    values: Vector = []
    for name in dims[1:]:
        amount = named.get(name.lower())
        if amount is None:
            covered = any(wanted != CARDS and model_matches(wanted, name) for wanted in named)
            covers = any(wanted != CARDS and model_matches(name, wanted) for wanted in named)
            amount = FREE if CARDS in named or covered or covers else 0
        values.append(amount)
    cards = named.get(CARDS)
    return [sum(named.values()) if cards is None else cards, *values]


def _queue_check(queue: Queue, dims: tuple[str, ...], pool: Mapping[str, int]) -> None:
    if queue.klass is QueueClass.BESTEFFORT and (any(queue.guarantee) or any(queue.deserved)):
        raise InvalidInput(
            f"{queue.word} is besteffort, so its guarantee and deserved amounts are 0",
            hint="remove them, or make it a batch queue",
        )
    if not queue.name:
        return
    for smaller, larger, low, high in (
        ("guarantee", "deserved", queue.guarantee, queue.deserved),
        ("guarantee", "cap", queue.guarantee, queue.cap),
        ("deserved", "cap", queue.deserved, queue.cap),
    ):
        for dim, a, b in zip(dims, low, high, strict=True):
            if a != FREE and a > b:
                raise _error(
                    f"{queue.word}: its {smaller} of {_cards(a, dim)} is above its {larger} of {_cards(b, dim)}", a, b
                )
    _models_check(queue, pool)
    _children_check(queue, dims)


def _models_check(queue: Queue, pool: Mapping[str, int]) -> None:
    amounts = queue.config.guarantee or {}
    if sum(1 for milli in pool.values() if milli) < 2:
        return
    named = sum(amount for name, amount in amounts.items() if name != CARDS)
    cards = amounts.get(CARDS, 0)
    if cards > named:
        raise _error(
            f"{queue.word}: a guarantee of {milli_format(cards)} cards names models for only {milli_format(named)}, "
            "but the pool has several models",
            cards,
            named,
            hint=f"name them, such as {{{min(pool)}: {milli_format(cards)}}}",
        )


def _children_check(queue: Queue, dims: tuple[str, ...]) -> None:
    if not queue.children:
        return
    for word in ("guarantee", "deserved"):
        own: Vector = getattr(queue, word)
        for index, dim in enumerate(dims):
            total = sum(amount for child in queue.children if (amount := getattr(child, word)[index]) != FREE)
            if total > own[index]:
                raise _error(
                    f"{queue.word}: the {word} amounts of its children add up to {_cards(total, dim)}, "
                    f"more than its own {_cards(own[index], dim)}",
                    total,
                    own[index],
                )


def _root_check(root: Queue, dims: tuple[str, ...], size: list[int]) -> list[str]:
    warnings: list[str] = []
    for index, dim in enumerate(dims):
        guaranteed, deserved = (
            sum(amount for child in root.children if (amount := getattr(child, word)[index]) != FREE)
            for word in ("guarantee", "deserved")
        )
        if guaranteed > size[index]:
            raise _error(
                f"the guarantees add up to {_cards(guaranteed, dim)}, but the pool has {_cards(size[index], dim)}",
                guaranteed,
                size[index],
            )
        if deserved > size[index]:
            warnings.append(
                f"the deserved amounts add up to {_cards(deserved, dim)}, but the pool has {_cards(size[index], dim)}"
            )
    return warnings


def _cards(milli: int, dim: str) -> str:
    return f"{milli_format(milli)} {'cards' if dim == CARDS else dim}"


def _error(message: str, need: int, limit: int, hint: str = "lower the one or raise the other") -> InvalidInput:
    return InvalidInput(message, hint=hint, code="QUOTA", details={"need": need, "limit": limit})
