"""The server itself: who am I, its version, a snapshot of its world."""

from __future__ import annotations

from typing import cast

from millpond.sdk.answers import Version, Whoami
from millpond.sdk.group import Group, path_join


class System(Group):
    def whoami(self) -> Whoami:
        return cast("Whoami", self._transport.get(path_join("whoami")))

    def version(self) -> Version:
        return cast("Version", self._transport.get(path_join("version")))

    def snapshot(self) -> str:
        """All that the scheduler sees, as YAML (the form that ``millpond plan`` reads)."""
        return self._transport.text(path_join("snapshot"))
