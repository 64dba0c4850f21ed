"""What the use cases need, built once by main."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from millpond.billing.documents import Party
from millpond.db.session import Database
from millpond.engines.base import Engine
from millpond.scheduling.desk import Newest
from millpond.services.possible import EmptyPool

SOURCE = "api"
"""The event chain that the use cases write to."""

PartCheck = Callable[[], str]
"""``"ok"``, or one sentence about what is wrong.  Must answer within a second or so."""


@dataclass(frozen=True, slots=True)
class Services:
    """``engine`` is only asked for logs, exec and faults on simulated pools; ``None``: there is none yet.

    ``clock`` gives aware UTC time and ``random`` that many random bytes, for ids.  ``parts`` are checked by `/readyz`.
    ``max_grace``: the longest grace of a job that is asked to stop, seconds.  ``newest``: where the scheduling loop of
    this server, if it leads, puts what it has judged.  ``empty_pool`` says what could never run.  ``seller`` stands on
    invoices.
    """

    database: Database
    engine: Engine | None
    clock: Callable[[], datetime]
    random: Callable[[int], bytes]
    parts: Mapping[str, PartCheck] = field(default_factory=dict)
    max_grace: int = 86_400
    newest: Newest = field(default_factory=Newest)
    empty_pool: EmptyPool = field(default_factory=EmptyPool)
    seller: Party = field(default_factory=lambda: Party(""))
