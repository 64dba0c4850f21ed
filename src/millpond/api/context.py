"""What the routes are given: the services, the caller, and parameters that several routes share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from anyio import CapacityLimiter
from fastapi import Depends, Header, Path, Query, Request
from fastapi.security import HTTPBearer
from starlette.requests import HTTPConnection
from starlette.responses import Response

from millpond.api.metrics import HttpMetrics
from millpond.api.streams import StreamHub
from millpond.authz.actors import Actor
from millpond.domain.errors import InvalidInput, Unauthenticated
from millpond.services.deps import Services
from millpond.services.idempotency import Once, Reply, once_make
from millpond.services.identity import actor_authenticate
from millpond.services.jobs import JobRef
from millpond.services.outlook import Outlooks
from millpond.services.standing import Standings

PAGE = 100
PAGE_MAX = 1000
_KEY_TEXT = "The same key and body give the same answer, and the work is done once.  1 to 255 printable characters."
_BEARER = re.compile(r"Bearer +(\S+)\Z", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ApiState:
    """Kept in ``app.state.millpond``; built by `app_make`."""

    services: Services
    hub: StreamHub
    standings: Standings
    outlooks: Outlooks
    metrics: HttpMetrics
    exec_threads: CapacityLimiter


def state_of(connection: HTTPConnection) -> ApiState:
    state = connection.app.state.millpond
    assert isinstance(state, ApiState)  # noqa: S101 - narrows what Starlette keeps untyped
    return state


def _services(request: Request) -> Services:
    return state_of(request).services


def _standings(request: Request) -> Standings:
    return state_of(request).standings


def secret_of(headers: Mapping[str, str]) -> str:
    """The bearer secret of a request.  `Unauthenticated` if there is none."""
    match = _BEARER.match(headers.get("authorization", ""))
    if match is None:
        raise Unauthenticated("a token is needed", hint="send Authorization: Bearer <token>; millpond login gets one")
    return match.group(1)


def _actor(request: Request) -> Actor:
    actor = actor_authenticate(state_of(request).services, secret_of(request.headers))
    request.scope["millpond.user"] = actor.user
    return actor


def _once(request: Request, key: Annotated[str, Header(alias="Idempotency-Key", description=_KEY_TEXT)] = "") -> Once:
    # The body was read and checked by the middleware; its parsed form is part of what the key stands for.
    return once_make(key, f"{request.method} {request.url.path}", request.scope.get("millpond.body"))


async def _body(request: Request) -> Any:
    if "application/json" not in request.headers.get("content-type", ""):
        raise InvalidInput("the body is not JSON", hint="send Content-Type: application/json")
    return request.scope.get("millpond.body")


def _ref(
    job: Annotated[str, Path(max_length=128, description="Id of the job, or its name.")],
    tenant: Annotated[str, Query(max_length=63, description="Tenant, when a name does not say which job.")] = "",
    project: Annotated[str, Query(max_length=63, description="Project, when a name does not say which job.")] = "",
) -> JobRef:
    return JobRef(job, tenant, project)


def reply_response(reply: Reply) -> Response:
    """A stored or fresh answer as a response; a replayed one says so."""
    headers = {"Idempotency-Replayed": "true"} if reply.replayed else {}
    return Response(reply.body, reply.status, headers, "application/json")


bearer = HTTPBearer(auto_error=False, description="A token: `mp_…`.  `millpond login` stores one.")
"""Only for the OpenAPI document; `Who` does the work."""

Deps = Annotated[Services, Depends(_services)]
Plans = Annotated[Standings, Depends(_standings)]
Who = Annotated[Actor, Depends(_actor)]
OnceKey = Annotated[Once, Depends(_once)]
JsonBody = Annotated[Any, Depends(_body)]
Ref = Annotated[JobRef, Depends(_ref)]
Cursor = Annotated[str, Query(max_length=1024, description="`next` of the page before; empty: the first page.")]
Limit = Annotated[int, Query(ge=1, le=PAGE_MAX, description="Most items on the page.")]
TenantName = Annotated[str, Path(max_length=63, description="Name of the tenant.")]
NodeName = Annotated[str, Path(max_length=63, description="Name of the node.")]
