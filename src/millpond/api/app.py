"""The FastAPI application: routes, error answers, streams, metrics.  Built by main and by the tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from anyio import CapacityLimiter
from fastapi import FastAPI
from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp

from millpond import __version__
from millpond.api.context import ApiState
from millpond.api.document import openapi_install
from millpond.api.metrics import HttpMetrics
from millpond.api.middleware import RequestLayer
from millpond.api.problems import problems_install
from millpond.api.routers import (
    accounts,
    budgets,
    events,
    execs,
    identity,
    invoices,
    jobs,
    nodes,
    prices,
    queues,
    reports,
    streams,
    system,
    tenants,
    tokens,
    usage,
)
from millpond.api.streams import StreamHub
from millpond.services.deps import Services
from millpond.services.feed import JobFeed
from millpond.services.outlook import Outlooks
from millpond.services.standing import Standings

BODY_LIMIT = 1_048_576
ROUTERS = (
    identity,
    tenants,
    tokens,
    usage,
    queues,
    nodes,
    jobs,
    budgets,
    prices,
    streams,
    execs,
    events,
    system,
    accounts,
    invoices,
    reports,
)


class Api(RequestLayer):
    """The ASGI application."""

    def __init__(self, app: ASGIApp, body_limit: int, metrics: HttpMetrics, hub: StreamHub) -> None:
        super().__init__(app, body_limit=body_limit, metrics=metrics)
        self._hub = hub

    def streams_end(self) -> None:
        """End every open stream: call it when the server is asked to stop, which otherwise waits for them."""
        self._hub.close()


def app_make(services: Services, registry: CollectorRegistry | None = None, body_limit: int = BODY_LIMIT) -> Api:
    """The whole API as one ASGI application.

    ``registry`` may be shared with the loops, so that `/metrics` shows both.  ``body_limit``: largest body, bytes.
    Run it with ``server_header=False`` (uvicorn), as nobody needs to know what serves it.
    """
    metrics = HttpMetrics(registry if registry is not None else CollectorRegistry())
    feed = JobFeed(services)
    hub = StreamHub(feed)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        feed.start()
        hub.open()
        try:
            yield
        finally:
            hub.close()
            feed.stop()

    app = routes_make(lifespan)
    standings = Standings(services)
    threads = CapacityLimiter(execs.EXECS_MAX)
    app.state.millpond = ApiState(services, hub, standings, Outlooks(standings), metrics, threads)
    return Api(app, body_limit, metrics, hub)


def routes_make(lifespan: Any = None) -> FastAPI:
    """The routes without anything behind them; enough for the OpenAPI document."""
    app = FastAPI(
        title="millpond",
        version=__version__,
        summary="The multi-tenant GPU platform.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
        lifespan=lifespan,
    )
    problems_install(app)
    for module in ROUTERS:
        app.include_router(module.router)
    openapi_install(app)
    return app
