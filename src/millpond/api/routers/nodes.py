"""Nodes and cards."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from millpond.api.context import PAGE_MAX, Cursor, Deps, Limit, NodeName, Who
from millpond.api.schemas.base import Listing
from millpond.api.schemas.nodes import Card, FaultCreate, Node
from millpond.api.shapes import card_shape, node_shape
from millpond.services import nodes

router = APIRouter(tags=["nodes"])

CardIndex = Annotated[int, Path(ge=0, le=4096, description="Index of the card on its node.")]
Fault = FaultCreate | None


@router.get("/v1/nodes")
def node_list(deps: Deps, actor: Who, cursor: Cursor = "", limit: Limit = PAGE_MAX) -> Listing[Node]:
    """Nodes, n2 before n10."""
    page = nodes.node_page(deps, actor, cursor, limit)
    return Listing(items=[node_shape(view) for view in page.items], next=page.next)


@router.get("/v1/nodes/{node}")
def node_get(deps: Deps, actor: Who, node: NodeName) -> Node:
    """One node."""
    return node_shape(nodes.node_view(deps, actor, node))


@router.post("/v1/nodes/{node}/cordon")
def node_cordon(deps: Deps, actor: Who, node: NodeName) -> Node:
    """Nothing new starts there; what runs stays."""
    return node_shape(nodes.node_cordon(deps, actor, node))


@router.post("/v1/nodes/{node}/uncordon")
def node_uncordon(deps: Deps, actor: Who, node: NodeName) -> Node:
    """The node takes jobs again, also after a drain."""
    return node_shape(nodes.node_uncordon(deps, actor, node))


@router.post("/v1/nodes/{node}/drain")
def node_drain(deps: Deps, actor: Who, node: NodeName) -> Node:
    """Nothing new starts there, and what runs is asked to save, leaves with its grace and is queued again."""
    return node_shape(nodes.node_drain(deps, actor, node))


@router.post("/v1/nodes/{node}/fault")
def node_fault(deps: Deps, actor: Who, node: NodeName, body: Fault = None) -> Node:
    """Lose a simulated node on purpose."""
    return node_shape(nodes.node_fault(deps, actor, node, (body or FaultCreate()).cause))


@router.post("/v1/nodes/{node}/repair")
def node_repair(deps: Deps, actor: Who, node: NodeName) -> Node:
    """Bring a simulated node back."""
    return node_shape(nodes.node_repair(deps, actor, node))


@router.get("/v1/cards", tags=["cards"])
def card_list(deps: Deps, actor: Who, cursor: Cursor = "", limit: Limit = PAGE_MAX) -> Listing[Card]:
    """Cards by node and index, with who uses them as far as the caller may see."""
    page = nodes.card_page(deps, actor, cursor, limit)
    return Listing(items=[card_shape(view) for view in page.items], next=page.next)


@router.post("/v1/cards/{node}/{index}/fault", tags=["cards"])
def card_fault(deps: Deps, actor: Who, node: NodeName, index: CardIndex, body: Fault = None) -> Card:
    """Break a simulated card on purpose."""
    return card_shape(nodes.card_fault(deps, actor, node, index, (body or FaultCreate()).cause))


@router.post("/v1/cards/{node}/{index}/repair", tags=["cards"])
def card_repair(deps: Deps, actor: Who, node: NodeName, index: CardIndex) -> Card:
    """Take a simulated card out of quarantine."""
    return card_shape(nodes.card_repair(deps, actor, node, index))
