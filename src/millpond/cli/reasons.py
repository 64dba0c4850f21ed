"""Why a job waits, in words.  English sentences are the server's; Chinese ones are made here from the numbers."""

from __future__ import annotations

from string import Formatter

from millpond.cli.texts import Texts
from millpond.cli.values import local
from millpond.domain.amounts import memory_format, milli_format
from millpond.domain.reasons import Code
from millpond.sdk.answers import Reason

_MEMORY = frozenset({Code.INSUFFICIENT_MEMORY.value})


def reason_sentence(texts: Texts, reason: Reason) -> str:
    """One sentence with its numbers."""
    key = f"reason.{reason['code']}"
    if (texts.lang == "en" and reason["text"]) or not texts.has(key):
        return reason["text"]
    values = _values(reason)
    if any(not values.get(name) for name in _placeholders(texts, key)):
        return reason["text"]
    return texts(key, **values)


def reason_short(texts: Texts, reason: Reason) -> str:
    """Code and sentence, for a table."""
    return f"{reason['code']}: {reason_sentence(texts, reason)}"


def _placeholders(texts: Texts, key: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(texts.template(key)) if name}


def _values(reason: Reason) -> dict[str, str]:
    """What the placeholders of a sentence stand for; unknown ones are empty."""
    form = memory_format if reason["code"] in _MEMORY else milli_format
    numbers = {name: reason.get(name) for name in ("need", "have", "limit", "free")}
    values = {name: form(number) for name, number in numbers.items() if isinstance(number, int)}
    return {
        **values,
        "queue": reason.get("queue", ""),
        "jobs": ", ".join(reason.get("jobs", [])),
        "until": local(reason.get("until")),
    }
