"""Users × routes: one golden file shows what everybody may ask for.  A route that is missing from it fails.

After a change that is meant: ``MILLPOND_GOLDEN=write pytest tests/api/test_authz_matrix.py``, and read the difference.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.types import Message

from millpond.api.app import ROUTERS, routes_make
from millpond.authz.actors import SYSTEM
from millpond.db.session import Tx
from millpond.db.stores.tenants import project_create, tenant_create
from millpond.db.stores.users import member_put, token_create
from millpond.domain.records import Role
from tests.api.desk import DeskEngine
from tests.api.house import House, job_body, seats_of

pytestmark = pytest.mark.postgres

GOLDEN = Path(__file__).parents[1] / "golden" / "authz_routes.txt"

COLUMNS = {
    "none": "",
    "revoked": "revoked",
    "no-role": "nobody",
    "other": "eve",
    "scoped": "scoped",
    "peer": "bea",
    "member": "ann",
    "auditor": "auditor",
    "t-admin": "boss",
    "p-admin": "root",
}
"""Column → user: a member of another tenant, a tenant-admin's token scoped to job.read, a member beside the owner, the
owner, and so on.  The mightiest come last, because what they delete is gone."""


@dataclass(frozen=True)
class Call:
    """One request; ``{user}`` in path and body is the column's user, so that each has things of its own to delete."""

    method: str
    route: str
    path: str
    body: object = None


PRICES = {
    "currency": "CNY",
    "zone": "Asia/Shanghai",
    "prices": [{"version": "{user}", "sku": "A800-80GB", "price": "12.00", "from": "2026-01-01"}],
}

ACCOUNT = {"tenant": "factor", "currency": "CNY", "zone": "Asia/Shanghai"}

CREDIT = {"reason": "r", "card_hours": "1"}

CALLS = (
    Call("GET", "/openapi.json", "/openapi.json"),
    Call("GET", "/healthz", "/healthz"),
    Call("GET", "/readyz", "/readyz"),
    Call("GET", "/metrics", "/metrics"),
    Call("GET", "/v1/version", "/v1/version"),
    Call("GET", "/v1/whoami", "/v1/whoami"),
    Call("GET", "/v1/tenants", "/v1/tenants"),
    Call("POST", "/v1/tenants", "/v1/tenants", {"name": "new-{user}"}),
    Call("GET", "/v1/tenants/{tenant}", "/v1/tenants/trade"),
    Call("GET", "/v1/tenants/{tenant}/projects", "/v1/tenants/trade/projects"),
    Call("POST", "/v1/tenants/{tenant}/projects", "/v1/tenants/trade/projects", {"name": "new-{user}"}),
    Call("DELETE", "/v1/tenants/{tenant}/projects/{project}", "/v1/tenants/trade/projects/p-{user}"),
    Call("GET", "/v1/tenants/{tenant}/members", "/v1/tenants/trade/members"),
    Call("PUT", "/v1/tenants/{tenant}/members/{user}", "/v1/tenants/trade/members/new", {"role": "member"}),
    Call("DELETE", "/v1/tenants/{tenant}/members/{user}", "/v1/tenants/trade/members/m-{user}"),
    Call("GET", "/v1/members", "/v1/members"),
    Call("PUT", "/v1/members/{user}", "/v1/members/new", {"role": "auditor"}),
    Call("DELETE", "/v1/members/{user}", "/v1/members/m-{user}"),
    Call("GET", "/v1/tokens", "/v1/tokens"),
    Call("POST", "/v1/tokens", "/v1/tokens", {"label": "own"}),
    Call("POST", "/v1/tokens", "/v1/tokens", {"user": "zed"}),
    Call("DELETE", "/v1/tokens/{token}", "/v1/tokens/{token}"),
    Call("GET", "/v1/queues", "/v1/queues"),
    Call("GET", "/v1/queues/accuracy", "/v1/queues/accuracy"),
    Call("GET", "/v1/queue", "/v1/queue"),
    Call("PUT", "/v1/quota", "/v1/quota?dry_run=true", {"queues": []}),
    Call("GET", "/v1/nodes", "/v1/nodes"),
    Call("GET", "/v1/nodes/{node}", "/v1/nodes/n1"),
    Call("POST", "/v1/nodes/{node}/cordon", "/v1/nodes/n2/cordon"),
    Call("POST", "/v1/nodes/{node}/drain", "/v1/nodes/n2/drain"),
    Call("POST", "/v1/nodes/{node}/uncordon", "/v1/nodes/n2/uncordon"),
    Call("POST", "/v1/nodes/{node}/fault", "/v1/nodes/n2/fault"),
    Call("POST", "/v1/nodes/{node}/repair", "/v1/nodes/n2/repair"),
    Call("GET", "/v1/cards", "/v1/cards"),
    Call("POST", "/v1/cards/{node}/{index}/fault", "/v1/cards/n2/0/fault"),
    Call("POST", "/v1/cards/{node}/{index}/repair", "/v1/cards/n2/0/repair"),
    Call("POST", "/v1/jobs", "/v1/jobs", job_body("new-{user}", tenant="trade")),
    Call("POST", "/v1/offers", "/v1/offers", job_body("offer", tenant="trade")),
    Call("GET", "/v1/jobs", "/v1/jobs"),
    Call("GET", "/v1/jobs", "/v1/jobs?tenant=trade"),
    Call("GET", "/v1/jobs/{job}", "/v1/jobs/{job}"),
    Call("GET", "/v1/jobs/{job}/attempts", "/v1/jobs/{job}/attempts"),
    Call("GET", "/v1/jobs/{job}/events", "/v1/jobs/{job}/events"),
    Call("GET", "/v1/jobs/{job}/why", "/v1/jobs/{job}/why"),
    Call("GET", "/v1/jobs/{job}/logs", "/v1/jobs/{job}/logs"),
    Call("GET", "/v1/jobs/{job}/logs/stream", "/v1/jobs/{job}/logs/stream"),
    Call("GET", "/v1/jobs/{job}/stream", "/v1/jobs/{job}/stream"),
    Call("GET", "/v1/stream", "/v1/stream"),
    Call("WS", "/v1/jobs/{job}/exec", "/v1/jobs/{job}/exec"),
    Call("POST", "/v1/jobs/{job}/release", "/v1/jobs/{job}/release"),
    Call("POST", "/v1/jobs/{job}/hold", "/v1/jobs/{waiting}/hold"),
    Call("POST", "/v1/jobs/{job}/stop", "/v1/jobs/{job}/stop"),
    Call("GET", "/v1/prices", "/v1/prices"),
    Call("POST", "/v1/prices", "/v1/prices", PRICES),
    Call("GET", "/v1/usage", "/v1/usage"),
    Call("GET", "/v1/usage", "/v1/usage?tenant=trade&by=user"),
    Call("GET", "/v1/usage", "/v1/usage?tenant=trade&format=csv"),
    Call("GET", "/v1/usage/alarms", "/v1/usage/alarms?tenant=trade"),
    Call("GET", "/v1/usage/jobs/{job}", "/v1/usage/jobs/{job}"),
    Call("GET", "/v1/budgets", "/v1/budgets"),
    Call("GET", "/v1/budgets", "/v1/budgets?tenant=trade"),
    Call("POST", "/v1/budgets", "/v1/budgets", {"node": "trade", "card_hours": "100"}),
    Call("GET", "/v1/budgets/{budget}", "/v1/budgets/{budget}"),
    Call("GET", "/v1/accounts", "/v1/accounts"),
    Call("POST", "/v1/accounts", "/v1/accounts", ACCOUNT),
    Call("GET", "/v1/accounts/{tenant}", "/v1/accounts/trade"),
    Call("PATCH", "/v1/accounts/{tenant}", "/v1/accounts/trade", {"notice": 600}),
    Call("GET", "/v1/accounts/{tenant}/balance", "/v1/accounts/trade/balance"),
    Call("GET", "/v1/accounts/{tenant}/lines", "/v1/accounts/trade/lines"),
    Call("GET", "/v1/accounts/{tenant}/beancount", "/v1/accounts/trade/beancount"),
    Call("GET", "/v1/ledger/beancount", "/v1/ledger/beancount"),
    Call(
        "POST",
        "/v1/accounts/{tenant}/top-ups",
        "/v1/accounts/trade/top-ups",
        {"amount": "9.00", "provider": "bank", "reference": "1"},
    ),
    Call("POST", "/v1/accounts/{tenant}/trial", "/v1/accounts/trade/trial", {"identity": "ab" * 32}),
    Call(
        "POST",
        "/v1/accounts/{tenant}/grants",
        "/v1/accounts/trade/grants",
        {"kind": "voucher", "code": "1", "amount": "9.00"},
    ),
    Call("POST", "/v1/accounts/{tenant}/grants/{grant}/revoke", "/v1/accounts/trade/grants/{grant}/revoke"),
    Call(
        "POST",
        "/v1/accounts/{tenant}/payments",
        "/v1/accounts/trade/payments",
        {"amount": "9.00", "provider": "bank", "reference": "2"},
    ),
    Call(
        "POST",
        "/v1/accounts/{tenant}/paybacks",
        "/v1/accounts/trade/paybacks",
        {"amount": "9.00", "provider": "bank", "reference": "3"},
    ),
    Call("GET", "/v1/invoices", "/v1/invoices"),
    Call("GET", "/v1/invoices", "/v1/invoices?tenant=trade"),
    Call("POST", "/v1/invoices", "/v1/invoices", {"tenant": "trade", "period": "2026-11"}),
    Call("POST", "/v1/invoices/close", "/v1/invoices/close", {"period": "2026-11"}),
    Call("GET", "/v1/accounts/{tenant}/draft", "/v1/accounts/trade/draft?period=2026-11"),
    Call("GET", "/v1/invoices/{invoice}", "/v1/invoices/INV-1"),
    Call("GET", "/v1/invoices/{invoice}/lines", "/v1/invoices/INV-1/lines"),
    Call("GET", "/v1/invoices/{invoice}/file", "/v1/invoices/INV-1/file"),
    Call("GET", "/v1/reports/{kind}", "/v1/reports/usage"),
    Call("GET", "/v1/reports/{kind}", "/v1/reports/usage?tenant=trade"),
    Call("GET", "/v1/reports/{kind}", "/v1/reports/waits?tenant=trade"),
    Call("GET", "/v1/reports/{kind}", "/v1/reports/health"),
    Call("GET", "/v1/reports/tco", "/v1/reports/tco?server=1&energy=1&yearly=1&power_kw=1"),
    Call("GET", "/v1/invoices/{invoice}/lines/{line}/explain", "/v1/invoices/INV-1/lines/1/explain"),
    Call("POST", "/v1/invoices/{invoice}/lines/{line}/credit", "/v1/invoices/INV-1/lines/1/credit", CREDIT),
    Call("POST", "/v1/invoices/{invoice}/pay", "/v1/invoices/INV-1/pay", {"amount": "1.00", "reference": "r"}),
    Call("POST", "/v1/invoices/{invoice}/void", "/v1/invoices/INV-1/void", {"reason": "r"}),
    Call("GET", "/v1/events", "/v1/events"),
    Call("GET", "/v1/snapshot", "/v1/snapshot"),
    Call("DELETE", "/v1/budgets/{budget}", "/v1/budgets/{budget}"),
    Call("DELETE", "/v1/tenants/{tenant}", "/v1/tenants/spare"),
)


def test_every_route_is_in_the_matrix() -> None:
    asked = {(call.method, call.route) for call in CALLS}
    routes = [*routes_make().routes, *(route for module in ROUTERS for route in module.router.routes)]
    known = {pair for route in routes for pair in _pairs(route)}
    assert known - asked == set(), "routes without a row"
    assert asked - known == set(), "rows without a route"


def test_the_matrix_is_the_golden_one(staffed: House, desk: DeskEngine) -> None:
    things = _prepare(staffed, desk)
    lines = [f"{'':60}" + "".join(f"{column:>9}" for column in COLUMNS)]
    for call in CALLS:
        cells = "".join(f"{_status(staffed, column, call, things):>9}" for column in COLUMNS)
        lines.append(f"{_row_name(call):60}{cells}")
    text = "\n".join(lines) + "\n"
    if os.environ.get("MILLPOND_GOLDEN") == "write":
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()


def _row_name(call: Call) -> str:
    other = " (for somebody else)" if call.body == {"user": "zed"} else ""
    query = f"?{call.path.partition('?')[2]}" if "?" in call.path else ""
    return f"{call.method} {call.route}{query}{other}"


def _pairs(route: BaseRoute) -> set[tuple[str, str]]:
    if isinstance(route, WebSocketRoute):
        return {("WS", route.path)}
    if not isinstance(route, Route | APIRoute):
        return set()  # an included router, whose own routes are looked at
    return {(method, route.path) for method in route.methods or () if method != "HEAD"}


def _prepare(house: House, desk: DeskEngine) -> dict[str, str]:
    """Something of everything, and for each column what it may delete."""

    def work(tx: Tx) -> dict[str, str]:
        tenant_create(tx, SYSTEM, "spare")
        tokens: dict[str, str] = {}
        for user in ("boss", "ann", "bea"):
            member_put(tx, SYSTEM, user, "spare", Role.TENANT_ADMIN if user == "boss" else Role.MEMBER)
        for column in COLUMNS:
            project_create(tx, SYSTEM, "trade", f"p-{column}")
            member_put(tx, SYSTEM, f"m-{column}", "trade", Role.MEMBER)
            member_put(tx, SYSTEM, f"m-{column}", "", Role.AUDITOR)
            tokens[f"token:{column}"] = token_create(tx, SYSTEM, "ann", column)[0].id
        return tokens

    things = house.database.run("test_prepare", work)
    opened = house.ask("root", "POST", "/v1/accounts", {**ACCOUNT, "tenant": "trade"})
    assert opened.status_code == 201
    gift = {"kind": "voucher", "code": "prepared", "amount": "9.00"}
    things["grant"] = house.ask("root", "POST", "/v1/accounts/trade/grants", gift).json()["id"]
    budget = {"node": "trade", "card_hours": "1000", "period": "year"}
    things["budget"] = house.ask("root", "POST", "/v1/budgets", budget).json()["id"]
    job = house.submit("ann", "train", tenant="trade")["id"]
    attempt = house.run(job, seats_of("n1", 0))
    desk.say(attempt, b"hello\n")
    waiting = house.submit("ann", "later", tenant="trade")["id"]
    return {**things, "job": job, "waiting": waiting}


def _status(house: House, column: str, call: Call, things: dict[str, str]) -> int:
    """The status of one call: of a stream as soon as it begins, of a WebSocket 101 if it opens."""

    def fill(text: str) -> str:
        for key, value in {"user": column, "token": things[f"token:{column}"], **things}.items():
            text = text.replace(f"{{{key}}}", value)
        return text

    path, _, query = fill(call.path).partition("?")
    body = fill(json.dumps(call.body)).encode() if call.body is not None else b""
    user = COLUMNS[column]
    headers = [(b"host", b"test"), (b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if user:
        headers.append((b"authorization", f"Bearer {house.tokens[user]}".encode()))
    socket = call.method == "WS"
    scope = {
        "type": "websocket" if socket else "http",
        "http_version": "1.1",
        "scheme": "ws" if socket else "http",
        "method": call.method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": headers,
        "client": ("test", 1),
        "server": ("test", 80),
        "extensions": {"websocket.http.response": {}},
        "state": {},
    }
    return _asgi_status(house, scope, body)


def _asgi_status(house: House, scope: dict[str, object], body: bytes) -> int:
    socket = scope["type"] == "websocket"
    incoming: list[Message] = (
        [{"type": "websocket.connect"}, {"type": "websocket.disconnect", "code": 1001}]
        if socket
        else [{"type": "http.request", "body": body, "more_body": False}]
    )
    seen: list[int] = []

    async def receive() -> Message:
        return incoming.pop(0) if incoming else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message["type"] in {"http.response.start", "websocket.http.response.start"}:
            seen.append(message["status"])
        elif message["type"] == "websocket.accept":
            seen.append(101)

    async def ask() -> None:
        await house.app(scope, receive, send)

    assert isinstance(house.client, TestClient)
    assert house.client.portal is not None
    house.client.portal.call(ask)
    return seen[0]
