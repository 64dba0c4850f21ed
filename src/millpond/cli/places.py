"""Where a job sits, and whether those cards are real."""

from __future__ import annotations

from collections.abc import Sequence

from millpond.cli.session import Session
from millpond.cli.values import seats
from millpond.domain.errors import MillpondError
from millpond.sdk.answers import Seat


class Places:
    """Placements in words, marked when a node of theirs is simulated.  Asks for the nodes once, when one is needed."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._simulated: frozenset[str] | None = None

    def text(self, placement: Sequence[Seat]) -> str:
        """``n1[0-3] (simulated)``; empty for none."""
        if not placement:
            return ""
        mark = self._session.texts("word.simulated")
        marked = any(seat["node"] in self._nodes() for seat in placement)
        return f"{seats(placement)} ({mark})" if marked else seats(placement)

    def _nodes(self) -> frozenset[str]:
        if self._simulated is None:
            try:
                nodes = list(self._session.client.nodes.list())
            except MillpondError:
                # Whoever may not see nodes still sees where the job is.
                nodes = []
            self._simulated = frozenset(node["name"] for node in nodes if node["simulated"])
        return self._simulated
