"""The queue policy as a document: the configuration that is in force, said in words."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, tzinfo
from typing import Final

from millpond.domain.amounts import milli_format
from millpond.domain.queues import Dequeue, Dimensions, QueueConfig
from millpond.reports.tables import Fact, Field, Kind, Report, Row, Section, rows_of
from millpond.reports.texts import Texts
from millpond.scheduling.snapshot import Settings

QUEUE_FIELDS = (
    Field("queue"),
    Field("class"),
    Field("guaranteed"),
    Field("deserved"),
    Field("maximum"),
    Field("lends"),
    Field("order"),
    Field("budget"),
)
SETTING_FIELDS = (Field("setting"), Field("value"), Field("meaning"))
RULE_FIELDS = (Field("rule"),)
RULES: Final = ("order", "guarantee", "borrow", "reclaim", "save", "fit", "explain")


def policy_report(queues: Sequence[QueueConfig], settings: Settings, made: datetime, zone: tzinfo, lang: str) -> Report:
    """Guarantees and limits of each queue, the scheduler's settings, and the rules that they enter."""
    texts = Texts(lang)
    ordered = sorted(queues, key=lambda queue: queue.name)
    return Report(
        "policy", zone,
        (Fact("made", made, Kind.MOMENT), Fact("digest", policy_digest(ordered, settings))),
        (
            Section("policy_rules", RULE_FIELDS, rows_of((texts(f"rule.{key}"),) for key in RULES)),
            Section("policy_queues", QUEUE_FIELDS, rows_of(_queue(queue, texts) for queue in ordered)),
            Section("policy_settings", SETTING_FIELDS, rows_of(
                _setting(item, texts) for item in asdict(settings).items()
            )),
        ),
        ("policy",),
    )  # fmt: skip


def policy_digest(queues: Sequence[QueueConfig], settings: Settings) -> str:
    """Sixteen hex digits that change when the configuration does."""
    given = {"queues": [_plain(queue) for queue in queues], "settings": asdict(settings)}
    return hashlib.sha256(json.dumps(given, sort_keys=True).encode()).hexdigest()[:16]


def _plain(queue: QueueConfig) -> Mapping[str, object]:
    return {
        "name": queue.name,
        "class": queue.klass.value if queue.klass else "",
        "amounts": [
            dict(sorted(part.items())) if part is not None else None
            for part in (queue.guarantee, queue.deserved, queue.cap)
        ],
        "lend": queue.lend,
        "dequeue": queue.dequeue.value,
        "card_hours": queue.card_hours.limit if queue.card_hours else None,
    }


def _queue(queue: QueueConfig, texts: Texts) -> Row:
    return (
        queue.name,
        queue.klass.value if queue.klass else "",
        _amounts(queue.guarantee),
        _amounts(queue.deserved),
        _amounts(queue.cap) or texts("no_limit"),
        texts("yes" if queue.lend else "no"),
        texts("order.fifo" if queue.dequeue is Dequeue.FIFO else "order.traverse") if queue.leaf else "",
        milli_format(queue.card_hours.limit) if queue.card_hours else "",
    )


def _amounts(given: Dimensions | None) -> str:
    return ", ".join(f"{name} {milli_format(milli)}" for name, milli in sorted((given or {}).items()))


def _setting(item: tuple[str, object], texts: Texts) -> Row:
    name, value = item
    return name, texts("off") if value is None else str(value), texts(f"setting.{name}")
