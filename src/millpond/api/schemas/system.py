"""The server itself: version and health."""

from __future__ import annotations

from pydantic import Field

from millpond.api.schemas.base import Schema


class Version(Schema):
    """What runs here."""

    version: str = Field(description="Version of the server.")
    api: str = Field(description="Version of the API; the prefix of its paths.")
    engine: str = Field(description="Engine; empty: none is connected.")
    python: str = Field(description="Version of Python.")


class Health(Schema):
    """Alive: the process answers."""

    status: str = Field(description="Always `ok`.")


class Readiness(Schema):
    """Whether the server can do its work."""

    ready: bool = Field(description="Whether every part answers.")
    parts: dict[str, str] = Field(description="`ok`, or what is wrong, for database, leader, engine.")
