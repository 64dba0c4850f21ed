"""What every schema shares: the base model, pages and problem documents."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

T = TypeVar("T")


class Schema(BaseModel):
    """Base of all schemas.  Times are ISO 8601 in UTC; amounts are whole milli-cards, milli-CPU, MiB and seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Listing(Schema, Generic[T]):
    """One page of a list."""

    items: list[T] = Field(description="The things of this page, in the order of the list.")
    next: str = Field(default="", description="Pass as `cursor` to get the next page; empty at the end.")


class ProblemPosition(Schema):
    """Where in the body something is wrong."""

    line: int = Field(description="1-based line; 0 for a JSON body, whose `path` says where.")
    column: int = Field(description="1-based column; 0 for a JSON body.")
    path: str = Field(default="", description="Key path, such as `resources.gpu`.")
    source: str = Field(default="", description="Name of the file, or `body`.")


class Problem(Schema):
    """RFC 9457 problem document (`application/problem+json`)."""

    type: str = Field(
        description="URN of the kind of problem, `urn:millpond:problem:<kind>`: invalid, refused, conflict …"
    )
    title: str = Field(description="Short name of the kind of problem.")
    status: int = Field(description="HTTP status, repeated.")
    detail: str = Field(description="One sentence about this case.")
    code: str = Field(description="Stable machine-readable code, such as NOT_FOUND or TOO_LARGE.")
    hint: str = Field(default="", description="The next thing to try.")
    position: ProblemPosition | None = Field(default=None, description="Where in the body, when known.")
    details: dict[str, Any] = Field(default_factory=dict, description="Numbers and names that make it true.")
    request_id: str = Field(default="", description="Also in the `Request-Id` header and in the server's log.")
