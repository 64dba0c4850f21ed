"""What reports and invoices say, in English and Chinese."""

from __future__ import annotations

from typing import Final

from millpond.domain.jobs import EndReason
from millpond.reports.catalogue import FACTS, FIELDS, NOTES, SECTIONS, TITLES, WORDS
from millpond.reports.catalogue_pool import REASONS

LANGUAGES: Final = ("en", "zh")


class Texts:
    """Texts in one language; ``zh`` for anything that begins with it."""

    def __init__(self, lang: str) -> None:
        self.lang = "zh" if lang.startswith("zh") else "en"
        self._place = LANGUAGES.index(self.lang)

    def __call__(self, key: str) -> str:
        return WORDS[key][self._place]

    def title(self, key: str) -> str:
        return TITLES[key][self._place]

    def section(self, key: str) -> str:
        return SECTIONS[key][self._place]

    def field(self, key: str) -> str:
        return FIELDS[key][self._place]

    def fact(self, key: str) -> str:
        return FACTS[key][self._place]

    def note(self, key: str) -> str:
        return NOTES[key][self._place]

    def reason(self, reason: EndReason) -> str:
        """Why an attempt ended, with its code, which is what the API and the files say."""
        said = REASONS.get(reason.value)
        return f"{said[self._place]} ({reason.value})" if said is not None else reason.value
