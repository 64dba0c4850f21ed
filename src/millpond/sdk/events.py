"""The event log, for auditors."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from millpond.sdk.answers import Event
from millpond.sdk.group import Group, path_join


class Events(Group):
    def list(self, *, tenant: str = "", job: str = "", limit: int | None = None) -> Iterator[Event]:
        """Events in order of their number, oldest first; at most `limit` of them."""
        items = self._transport.pages(path_join("events"), {"tenant": tenant, "job": job})
        return islice(items, limit)
