"""Queues: the tree with its usage, the pool view, and the quota document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from millpond.sdk.answers import Accuracy, PoolView, QueueTree, QuotaResult
from millpond.sdk.group import Group, path_join


class Queues(Group):
    def tree(self) -> QueueTree:
        """Every queue that the caller may see, parents before children."""
        return cast("QueueTree", self._transport.get(path_join("queues")))

    def pool(self, leaf: str = "") -> PoolView:
        """Running and waiting jobs in order, of the whole pool or of one leaf."""
        return cast("PoolView", self._transport.get(path_join("queue"), {"leaf": leaf}))

    def accuracy(self) -> Accuracy:
        """How often promised starts lay in their interval, by leaf."""
        return cast("Accuracy", self._transport.get(path_join("queues", "accuracy")))

    def replace(self, document: Mapping[str, object], *, dry_run: bool = False) -> QuotaResult:
        """Put the whole set of queues in force: ``{"queues": [...]}``.  With `dry_run` only says what would change."""
        return cast(
            "QuotaResult",
            self._transport.send("PUT", path_join("quota"), params={"dry_run": dry_run or None}, body=document),
        )
