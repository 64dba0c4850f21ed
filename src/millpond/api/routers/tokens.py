"""Tokens."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from millpond.api.context import Deps, Who
from millpond.api.schemas.base import Listing
from millpond.api.schemas.tokens import Token, TokenCreate, TokenCreated
from millpond.services import users

router = APIRouter(tags=["tokens"])


@router.get("/v1/tokens")
def token_list(deps: Deps, actor: Who) -> Listing[Token]:
    """The caller's tokens, the newest first; everybody's for a platform-admin."""
    return Listing(items=[Token.of(record) for record in users.token_list(deps, actor)])


@router.post("/v1/tokens", status_code=201)
def token_create(deps: Deps, actor: Who, body: TokenCreate) -> TokenCreated:
    """Create a token.  Its secret is in this answer and nowhere else, so `Idempotency-Key` is not looked at here."""
    record, secret = users.token_create(deps, actor, body.user, body.label, tuple(body.scopes), body.expires_at)
    return TokenCreated(token=Token.of(record), secret=secret)


@router.delete("/v1/tokens/{token}", status_code=204)
def token_revoke(
    deps: Deps, actor: Who, token: Annotated[str, Path(max_length=64, description="Id of the token.")]
) -> None:
    """Revoke a token: it stops working at once."""
    users.token_revoke(deps, actor, token)
