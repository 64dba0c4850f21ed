"""Every store function asks who is asking.  A new one that does not, or takes no actor, fails here."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
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
from millpond.metering.usage import UsageBy, UsageSpan
from tests.unit.billing.books import ACCRUED, CNY, WALLET, grant, moved
from tests.unit.db.builders import ADMIN, NOBODY, NOW, attempt, job, node

WITHOUT_ACTOR = {
    "events_append": "an event records what was allowed elsewhere",
    "event_hash": "pure",
    "token_authenticate": "finds out who the actor is",
    "no_job": "an error, not a query",
    "no_account": "an error, not a query",
    "budget_tenant": "pure",
    "writer_tenant": "pure",
    "report_tenants": "who sees what, not a query",
    "metered_until": "a moment, and nobody's",
}
EVERYBODY = {
    "idempotency_get": "keys belong to whoever sent them",
    "idempotency_put": "keys belong to whoever sent them",
}
RECORD: Any = SimpleNamespace(
    account="alpha", tenant="alpha", id="i1", number="1", period="2026-11", state="issued", owner="alpha",
    path=("alpha",), budget=SimpleNamespace(path=("alpha",), node=("alpha",), id="b1"),
    line=SimpleNamespace(owner="alpha"), lines=1,
)  # fmt: skip
"""Enough of a record to ask about: who may not is refused before anything else of it is looked at."""

BATCH = Batch((moved("a", "5.00", WALLET, ACCRUED),))
ARGUMENTS: dict[str, Any] = {
    "account": WALLET,
    "accounts": [WALLET],
    "after": "",
    "attempts": ["j1-1"],
    "batch": BATCH,
    "batches": [BATCH],
    "before": NOW,
    "booked_before": NOW,
    "budget": RECORD.budget,
    "budgets": ["b1"],
    "by": "user",
    "cards": {},
    "cause": "broken",
    "changed": {},
    "changes": [],
    "currency": CNY,
    "end": NOW,
    "gone": [],
    "holds": [],
    "hours": (NOW, NOW),
    "issued": (NOW, "root"),
    "keys": set(),
    "known_before": NOW,
    "line": RECORD,
    "lines": [],
    "mark": RECORD,
    "note": RECORD,
    "number": 1,
    "path": ("alpha",),
    "payment": RECORD,
    "period": "2026-11",
    "record": RECORD,
    "rows": [],
    "series": "CN2026",
    "span": (NOW, NOW),
    "start": NOW,
    "state": "issued",
    "transfer": "t1",
    "transfers": ["t1"],
    "versions": [],
    "zone": "UTC",
    "alarms": [],
    "alerts": [],
    "booked": (NOW, NOW),
    "begin": NOW,
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
SPAN = UsageSpan("alpha", NOW, NOW, "UTC")
SPECIAL: dict[str, dict[str, Any]] = {
    "price_book": {"account": ACCOUNT},
    "price_books": {"accounts": [ACCOUNT]},
    "usage_sums": {"span": SPAN, "by": UsageBy.USER},
    "alarm_count": {"span": SPAN},
    "alarm_list": {"span": SPAN},
    "usage_total": {"span": SPAN},
    "grant_renew": {"grant": grant(GrantKind.PAID, "1.00")},
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
    "attempts.attempts_insert",
    "attempts.attempts_live",
    "attempts.attempts_lock",
    "attempts.attempts_save",
    "attempts.attempts_unapplied",
    "budgets.alerts_add",
    "budgets.alerts_raised",
    "budgets.counted_read",
    "budgets.funds_any",
    "budgets.spent_mark",
    "budgets.spent_read",
    "cursors.cursor_get",
    "cursors.cursor_set",
    "grants.grants_expired",
    "holds.eviction_add",
    "holds.hold_list",
    "holds.holds_replace",
    "idempotency.idempotency_prune",
    "jobs.jobs_blocked_by",
    "jobs.jobs_recent",
    "meter.alarms_add",
    "meter.attempts_changed",
    "meter.attempts_known",
    "meter.attempts_started",
    "meter.meter_events",
    "meter.meter_mark",
    "meter.meter_mark_set",
    "meter.meter_state_read",
    "meter.meter_state_write",
    "meter.sealed_read",
    "meter.usage_add",
    "money_holds.money_hold_resolve",
    "money_holds.money_holds_add",
    "money_holds.money_holds_due",
    "nodes.node_sync",
    "promises.promise_results",
    "promises.promises_add",
    "promises.promises_prune",
    "promises.run_list",
    "world.eviction_list",
    "world.world_load",
    "world.world_mark",
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


FUNCTIONS = {
    f"{function.__module__.rpartition('.')[2]}.{name}": function
    for name, function in store_functions()
    if name not in WITHOUT_ACTOR
}
"""Several stores have a function of the same name."""


def call(function: Callable[..., Any], tx: object, actor: Actor) -> object:
    """With what `ARGUMENTS` has for each parameter that has no default; what is streamed is read to its end."""
    special = SPECIAL.get(function.__name__, {})
    given = {**ARGUMENTS, **special}
    parameters = list(inspect.signature(function).parameters.values())[2:]
    wanted = [one.name for one in parameters if one.default is one.empty or one.name in special]
    answer = function(tx, actor, **{name: given[name] for name in wanted})
    return list(answer) if isinstance(answer, Iterator) else answer


def test_every_function_takes_a_transaction_and_an_actor() -> None:
    assert len(FUNCTIONS) > 40
    for name, function in FUNCTIONS.items():
        assert list(inspect.signature(function).parameters)[:2] == ["tx", "actor"], name


def admitted(house: Database, actor: Actor) -> list[str]:
    """The functions that let `actor` in."""
    found = []
    for name in guarded():
        try:
            house.run(name, partial(call, FUNCTIONS[name], actor=actor), snapshot=name == SNAPSHOT)
        except Forbidden:
            continue
        except NotFound as error:
            if error.reason == "NO_SUCH_TENANT":  # hides the tenant; any other means that it looked
                continue
        except MillpondError:
            pass
        found.append(name)
    return found


SNAPSHOT = "world.world_load"


def guarded() -> list[str]:
    return sorted(name for name, function in FUNCTIONS.items() if function.__name__ not in EVERYBODY)


def test_an_actor_without_rights_is_refused(house: Database) -> None:
    assert admitted(house, NOBODY) == []


def test_a_token_without_the_scope_is_refused(house: Database) -> None:
    assert admitted(house, Actor("root", Role.PLATFORM_ADMIN, scopes=frozenset({"card.read"}))) == []


def test_what_only_the_platform_may_do(house: Database) -> None:
    """Whether a platform-admin is let in; what happens inside does not matter here."""
    refused = set()
    for name in guarded():
        try:
            house.run(name, partial(call, FUNCTIONS[name], actor=ADMIN), snapshot=name == SNAPSHOT)
        except Forbidden:
            if name != "jobs.job_insert":  # refused only because the record names another user
                refused.add(name)
        except Exception:  # noqa: BLE001, S110
            pass
    assert sorted(refused) == sorted(SYSTEM_ONLY)
