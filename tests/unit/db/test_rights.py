"""Every store function asks who is asking.  A new one that does not, or takes no actor, fails here."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any

from millpond.authz.actors import Actor
from millpond.billing.accounts import AccountRecord
from millpond.billing.grants import GrantKind
from millpond.billing.ledger import Batch
from millpond.db import stores
from millpond.db.session import Database
from millpond.domain.errors import Forbidden, MillpondError, NotFound
from millpond.domain.jobs import JobState
from millpond.domain.records import EvictionRecord, HoldRecord, Role
from tests.unit.billing.books import ACCRUED, CNY, WALLET, grant, moved
from tests.unit.db.builders import ADMIN, NOBODY, NOW, attempt, job, node

WITHOUT_ACTOR = {
    "events_append": "an event records what was allowed elsewhere",
    "event_hash": "pure",
    "token_authenticate": "finds out who the actor is",
    "no_job": "an error, not a query",
    "no_account": "an error, not a query",
}
EVERYBODY = {
    "idempotency_get": "keys belong to whoever sent them",
    "idempotency_put": "keys belong to whoever sent them",
}
BATCH = Batch((moved("a", "5.00", WALLET, ACCRUED),))
ARGUMENTS: dict[str, Any] = {
    "account": WALLET,
    "accounts": [WALLET],
    "after": "",
    "attempts": ["j1-1"],
    "batch": BATCH,
    "batches": [BATCH],
    "before": NOW,
    "cause": "broken",
    "created_at": NOW,
    "cursor": 1,
    "drop": ["j1"],
    "engine": "local",
    "evictions": [EvictionRecord("alpha/prod", "beta/batch", NOW, True)],
    "expires_at": NOW + timedelta(days=99_999),
    "grant": "g1",
    "horizon": timedelta(days=14),
    "index": 0,
    "job": "j1",
    "jobs": ["j1"],
    "label": "laptop",
    "limit": 10,
    "mode": None,
    "name": "alpha",
    "node": "n1",
    "now": NOW,
    "owner": "alpha",
    "owners": ["alpha"],
    "project": "lab",
    "promises": [],
    "put": [HoldRecord("j1", (), NOW, ())],
    "queue": "alpha/batch",
    "queues": [],
    "role": Role.MEMBER,
    "scopes": (),
    "service_from": NOW,
    "service_to": NOW,
    "shares": (0, 1000),
    "since": NOW,
    "specs": [node("n9")],
    "states": [JobState.QUEUED],
    "tenant": "alpha",
    "tenants": ["alpha"],
    "then": (),
    "title": "Alpha",
    "token": "t1",
    "user": "ann",
    "values": {"cooldown": 1},
}
ACCOUNT = AccountRecord("alpha", CNY, "UTC", NOW, NOW)
SPECIAL: dict[str, dict[str, Any]] = {
    "account_add": {"record": ACCOUNT},
    "account_save": {"record": ACCOUNT},
    "grant_add": {"grant": grant(GrantKind.PAID, "1.00")},
    "job_insert": {"record": job(1)},
    "job_save": {"record": job(1)},
    "jobs_save": {"records": [job(1)]},
    "attempts_insert": {"records": [attempt(job(1))]},
    "attempts_save": {"records": [attempt(job(1))]},
    "event_list": {"after": 0, "job": "", "tenant": ""},
    "node_mark": {"cordoned": True, "draining": None, "lost": None},
}
SYSTEM_ONLY = {
    "attempts_insert",
    "attempts_live",
    "attempts_lock",
    "attempts_save",
    "attempts_unapplied",
    "cursor_get",
    "cursor_set",
    "eviction_add",
    "eviction_list",
    "grants_expired",
    "hold_list",
    "holds_replace",
    "idempotency_prune",
    "jobs_blocked_by",
    "jobs_recent",
    "node_sync",
    "promise_results",
    "promises_add",
    "promises_prune",
    "run_list",
    "world_load",
    "world_mark",
}
"""Changing this list is a decision: what only the platform itself may do, no person."""


def store_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    for module in pkgutil.iter_modules(stores.__path__):
        if module.name in {"rows", "ledger_rows"}:
            continue
        loaded = importlib.import_module(f"millpond.db.stores.{module.name}")
        for name, value in vars(loaded).items():
            if inspect.isfunction(value) and value.__module__ == loaded.__name__ and not name.startswith("_"):
                yield name, value


FUNCTIONS = {name: function for name, function in store_functions() if name not in WITHOUT_ACTOR}


def call(function: Callable[..., Any], tx: object, actor: Actor) -> object:
    given = {**ARGUMENTS, **SPECIAL.get(function.__name__, {})}
    names = list(inspect.signature(function).parameters)[2:]
    return function(tx, actor, **{name: given[name] for name in names})


def test_every_function_takes_a_transaction_and_an_actor() -> None:
    assert len(FUNCTIONS) > 40
    for name, function in FUNCTIONS.items():
        assert list(inspect.signature(function).parameters)[:2] == ["tx", "actor"], name


def admitted(house: Database, actor: Actor) -> list[str]:
    """The functions that let `actor` in."""
    found = []
    for name in sorted(set(FUNCTIONS) - set(EVERYBODY)):
        try:
            house.run(name, partial(call, FUNCTIONS[name], actor=actor), snapshot=name == "world_load")
        except Forbidden:
            continue
        except NotFound as error:
            if error.reason == "NO_SUCH_TENANT":  # hides the tenant; any other means that it looked
                continue
        except MillpondError:
            pass
        found.append(name)
    return found


def test_an_actor_without_rights_is_refused(house: Database) -> None:
    assert admitted(house, NOBODY) == []


def test_a_token_without_the_scope_is_refused(house: Database) -> None:
    assert admitted(house, Actor("root", Role.PLATFORM_ADMIN, scopes=frozenset({"card.read"}))) == []


def test_what_only_the_platform_may_do(house: Database) -> None:
    refused = set()
    for name in set(FUNCTIONS) - set(EVERYBODY):
        try:
            house.run(name, partial(_ask, FUNCTIONS[name]), snapshot=name == "world_load")
        except Forbidden:
            refused.add(name)
    assert refused == SYSTEM_ONLY


def _ask(function: Callable[..., Any], tx: object) -> None:
    """Whether a platform-admin is let in; what happens inside does not matter here."""
    try:
        call(function, tx, ADMIN)
    except Forbidden:
        if function.__name__ != "job_insert":  # refused only because the record names another user
            raise
    except Exception:  # noqa: BLE001, S110
        pass
