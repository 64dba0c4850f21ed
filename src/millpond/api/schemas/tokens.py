"""Tokens: bearer secrets of users.  The secret is shown once, when the token is created."""

from __future__ import annotations

from datetime import datetime

from pydantic import AwareDatetime, Field

from millpond.api.schemas.base import Schema
from millpond.domain.records import TokenRecord


class TokenCreate(Schema):
    """A new token."""

    user: str = Field(default="", max_length=128, description="Whose token; empty: the caller's own.")
    label: str = Field(default="", max_length=200, description="What it is for.")
    scopes: list[str] = Field(
        default_factory=list, max_length=64, description="Actions it is limited to, such as job.read; empty: all."
    )
    expires_at: AwareDatetime | None = Field(default=None, description="When it stops working; null: never.")


class Token(Schema):
    """A token without its secret."""

    id: str = Field(description="Id, for revoking it.")
    user: str = Field(description="Whose token.")
    label: str = Field(description="What it is for.")
    scopes: list[str] = Field(description="Actions it is limited to; empty: all that its user may do.")
    created_at: datetime = Field(description="When it was created.")
    expires_at: datetime | None = Field(description="When it stops working; null: never.")
    revoked_at: datetime | None = Field(description="When it was revoked; null: it was not.")

    @classmethod
    def of(cls, record: TokenRecord) -> Token:
        return cls(
            id=record.id,
            user=record.user,
            label=record.label,
            scopes=list(record.scopes),
            created_at=record.created_at,
            expires_at=record.expires_at,
            revoked_at=record.revoked_at,
        )


class TokenCreated(Schema):
    """The only answer that ever holds the secret."""

    token: Token = Field(description="The token.")
    secret: str = Field(description="Send as `Authorization: Bearer <secret>`.  It cannot be shown again.")
