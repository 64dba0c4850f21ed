"""Who asks."""

from __future__ import annotations

from millpond.authz.actors import Actor
from millpond.db.stores.users import token_authenticate
from millpond.domain.errors import Unauthenticated
from millpond.services.deps import Services

_LIMIT = 256


def actor_authenticate(deps: Services, secret: str) -> Actor:
    """The user that a bearer secret stands for.  `Unauthenticated` for anything that is not a valid token now."""
    if not secret or len(secret) > _LIMIT or not secret.isascii():
        raise Unauthenticated("this is not a token", hint="millpond login, or set MILLPOND_TOKEN")
    return deps.database.run("token_authenticate", lambda tx: token_authenticate(tx, secret))
