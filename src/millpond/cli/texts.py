"""What the CLI says, in English or Chinese.  Codes, names and JSON are never translated.

The words stand in `millpond.cli.catalogue`, both languages side by side under one key.
"""

from __future__ import annotations

from collections.abc import Mapping

from millpond.cli.catalogue import CATALOGUE

LANGUAGES = ("en", "zh")


def language(environ: Mapping[str, str], wanted: str = "") -> str:
    """``zh`` when asked for, or when the locale is Chinese; else ``en``.

    Order: `wanted` (``--lang``), ``MILLPOND_LANG``, then the locale: ``LC_ALL``, ``LC_MESSAGES``, ``LANG``.
    """
    for value in (wanted, *(environ.get(name, "") for name in ("MILLPOND_LANG", "LC_ALL", "LC_MESSAGES", "LANG"))):
        if value:
            return "zh" if value.lower().startswith("zh") else "en"
    return "en"


class Texts:
    """The catalogue in one language: ``texts("ps.empty")``, ``texts("run.waits", position=3)``."""

    def __init__(self, lang: str) -> None:
        self.lang = lang
        self._column = LANGUAGES.index(lang)

    def __call__(self, key: str, **values: object) -> str:
        return CATALOGUE[key][self._column].format_map(values)

    def template(self, key: str) -> str:
        """The text with its placeholders."""
        return CATALOGUE[key][self._column]

    def has(self, key: str) -> bool:
        return key in CATALOGUE

    def word(self, kind: str, code: str) -> str:
        """The word for a code of some kind (``state``, ``end`` …), or the code itself when it is a new one."""
        key = f"{kind}.{code}"
        return CATALOGUE[key][self._column] if key in CATALOGUE else code
