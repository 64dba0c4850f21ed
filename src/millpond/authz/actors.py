"""Actors: who asks.  Built by `stores.users.token_authenticate`, passed to every store function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from millpond.domain.records import Role


@dataclass(frozen=True, slots=True)
class Actor:
    """``platform``: a role for the whole platform; ``roles``: one per tenant.

    ``scopes`` empty: everything that the roles allow; else the names of actions (``job.read``, ``job.*``) that this
    token is limited to.  ``expires_at``: when its token ceases to work, ``None``: never.  ``system``: the platform
    itself (control loops, first start); it may do everything.
    """

    user: str
    platform: Role | None = None
    roles: Mapping[str, Role] = field(default_factory=dict)
    scopes: frozenset[str] = frozenset()
    system: bool = False
    expires_at: datetime | None = None


SYSTEM = Actor(user="system", system=True)
"""The platform itself.  Only `control` and `main` act as it; never on behalf of a request."""
