"""Idempotency keys: the same key and body give the stored answer; the work is done once, also by concurrent callers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from millpond.authz.actors import Actor
from millpond.db.session import Tx
from millpond.db.stores.idempotency import idempotency_get, idempotency_put
from millpond.domain.errors import Conflict, InvalidInput, Refused
from millpond.services.deps import Services

T = TypeVar("T")
KEY_LIMIT = 255


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer as it is stored and sent: status and JSON text.  ``replayed``: it was stored before."""

    status: int
    body: str
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class Once:
    """A caller's key and what it asked for; an empty key means that nothing is stored."""

    key: str
    fingerprint: str


def once_make(key: str, route: str, body: object) -> Once:
    """The key with a fingerprint of the request.  Raises `InvalidInput` for a key that cannot be stored."""
    if key and (len(key) > KEY_LIMIT or not key.isascii() or not key.isprintable()):
        raise InvalidInput(
            "this Idempotency-Key cannot be used",
            hint=f"use 1 to {KEY_LIMIT} printable ASCII characters, such as a UUID",
        )
    text = json.dumps([route, body], sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return Once(key, hashlib.sha256(text.encode()).hexdigest())


def once_run(
    deps: Services,
    name: str,
    actor: Actor,
    once: Once,
    work: Callable[[Tx], T],
    render: Callable[[T], object],
    *,
    status: int = 201,
) -> Reply:
    """Do `work` and store its rendered answer under the key, in one transaction; or give back what is stored.

    `render` gives a JSON value.  Refusals are not stored: the same key may be tried again after one.
    """

    def run(tx: Tx) -> Reply:
        if once.key:
            stored = _stored(tx, actor, once)
            if stored is not None:
                return stored
        reply = Reply(status, json.dumps(render(work(tx)), ensure_ascii=False, separators=(",", ":")))
        if once.key:
            idempotency_put(tx, actor, once.key, once.fingerprint, reply.status, reply.body)
        return reply

    return deps.database.run(name, run)


def _stored(tx: Tx, actor: Actor, once: Once) -> Reply | None:
    """The stored answer.  Waits for a concurrent request with the same key; another body is `Refused`."""
    try:
        answer = idempotency_get(tx, actor, once.key, once.fingerprint)
    except Conflict as error:
        raise Refused(
            "this Idempotency-Key was used for a different request", code="IDEMPOTENCY_MISMATCH", hint="use a fresh key"
        ) from error
    return None if answer is None else Reply(answer.status, answer.body, replayed=True)
