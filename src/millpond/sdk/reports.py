"""Reports, and invoices as files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from millpond.sdk.errors import ServerFailed
from millpond.sdk.group import Group, path_join


class Reports(Group):
    def file(self, kind: str, form: str = "pdf", **wish: object) -> Iterator[bytes]:
        """A report in pieces.  ``wish``: month, tenant, zone, by, lang; of ``tco`` its figures."""
        return self._transport.download(path_join("reports", kind), {**wish, "format": form})

    def lines(self, kind: str, **wish: object) -> Iterator[dict[str, Any]]:
        """A report as JSON lines, one object each.  `ServerFailed` when it ends before its end."""
        return lines_read(self.file(kind, "json", **wish))

    def invoice(self, invoice: str, form: str = "pdf", lang: str = "en") -> Iterator[bytes]:
        """An issued invoice in pieces: pdf, xlsx, csv, focus or json."""
        params: Mapping[str, object] = {"format": form, "lang": lang}
        return self._transport.download(path_join("invoices", invoice, "file"), params)


def lines_read(pieces: Iterator[bytes]) -> Iterator[dict[str, Any]]:
    """Objects of JSON lines, whatever the pieces are cut like."""
    rest = b""
    ended = False
    for piece in pieces:
        whole, newline, rest = (rest + piece).rpartition(b"\n")
        for text in (whole + newline).splitlines():
            value = json.loads(text)
            ended = "end" in value
            yield value
    if rest or not ended:
        raise ServerFailed("the report was cut off", hint="ask for it again")
