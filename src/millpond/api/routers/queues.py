"""Queues, the pool view and the quota document."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from millpond.api.bodies import body_schema
from millpond.api.context import Deps, JsonBody, Plans, Who
from millpond.api.schemas.queues import Accuracy, PoolView, QueueTree, QuotaPut, QuotaResult
from millpond.api.shapes import accuracy_shape, pool_view_shape, queue_tree_shape, quota_shape
from millpond.services import promises, queues, quotas

router = APIRouter(tags=["queues"])


@router.get("/v1/queues")
def queue_tree(deps: Deps, actor: Who) -> QueueTree:
    """The queues that the caller may see, with limits in force and usage."""
    return queue_tree_shape(queues.queue_tree(deps, actor))


@router.get("/v1/queues/accuracy")
def queue_accuracy(deps: Deps, actor: Who) -> Accuracy:
    """How often promised starts of the last 30 days lay in their interval, of the queues that the caller may see."""
    return accuracy_shape(promises.accuracy_read(deps, actor))


@router.get("/v1/queue")
def pool_view(
    deps: Deps,
    plans: Plans,
    actor: Who,
    leaf: Annotated[str, Query(max_length=200, description="Only this queue (an inner one: all below it).")] = "",
) -> PoolView:
    """Who runs and who waits, in order, with the first reason of each."""
    return pool_view_shape(queues.pool_view(deps, plans, actor, leaf))


@router.put("/v1/quota", openapi_extra=body_schema(QuotaPut))
def quota_put(
    deps: Deps,
    actor: Who,
    body: JsonBody,
    dry_run: Annotated[bool, Query(description="Only say what would change.")] = False,
) -> QuotaResult:
    """Make these queues the whole set.  What cannot hold is refused as a whole, and names both numbers."""
    return quota_shape(quotas.quota_apply(deps, actor, body, dry_run=dry_run))
