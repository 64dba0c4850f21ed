"""Nodes and cards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from millpond.sdk.answers import Card, Node
from millpond.sdk.group import Group, path_join


class Nodes(Group):
    def list(self) -> Iterator[Node]:
        return self._transport.pages(path_join("nodes"))

    def get(self, node: str) -> Node:
        return cast("Node", self._transport.get(path_join("nodes", node)))

    def cordon(self, node: str) -> Node:
        """Nothing new starts there."""
        return self._act(node, "cordon")

    def uncordon(self, node: str) -> Node:
        """Takes back `cordon` and `drain`."""
        return self._act(node, "uncordon")

    def drain(self, node: str) -> Node:
        """Cordon it, and ask its jobs to leave."""
        return self._act(node, "drain")

    def fault(self, node: str, cause: str = "") -> Node:
        """Lose a *simulated* node on purpose."""
        return self._act(node, "fault", {"cause": cause} if cause else {})

    def repair(self, node: str) -> Node:
        """Bring a lost simulated node back."""
        return self._act(node, "repair")

    def _act(self, node: str, verb: str, body: dict[str, str] | None = None) -> Node:
        return cast("Node", self._transport.send("POST", path_join("nodes", node, verb), body=body))


class Cards(Group):
    def list(self) -> Iterator[Card]:
        return self._transport.pages(path_join("cards"))

    def fault(self, node: str, index: int, cause: str = "") -> Card:
        """Break a *simulated* card on purpose: it is quarantined and its jobs run elsewhere."""
        return self._act(node, index, "fault", {"cause": cause} if cause else {})

    def repair(self, node: str, index: int) -> Card:
        """Take a card out of quarantine."""
        return self._act(node, index, "repair")

    def _act(self, node: str, index: int, verb: str, body: dict[str, str] | None = None) -> Card:
        return cast("Card", self._transport.send("POST", path_join("cards", node, index, verb), body=body))
