"""The server itself: version, health, metrics, snapshot."""

from __future__ import annotations

import platform

from fastapi import APIRouter, Request, Response
from starlette.responses import JSONResponse, PlainTextResponse

from millpond import __version__
from millpond.api.context import Deps, Who, state_of
from millpond.api.metrics import CONTENT_TYPE, JobMetrics, metrics_text
from millpond.api.schemas.system import Health, Readiness, Version
from millpond.services import counts, readiness, snapshots

router = APIRouter(tags=["system"])


@router.get("/v1/version")
def version_get(deps: Deps) -> Version:
    """What runs here.  No token needed."""
    return Version(version=__version__, api="v1", engine=readiness.engine_name(deps), python=platform.python_version())


@router.get("/healthz")
def health_get() -> Health:
    """Whether the process is alive.  No token needed."""
    return Health(status="ok")


@router.get("/readyz", responses={503: {"model": Readiness, "description": "Something is missing; `parts` says what."}})
def ready_get(deps: Deps) -> Response:
    """Whether database, leader and engine answer.  No token needed."""
    parts = readiness.parts_check(deps)
    ready = all(text == readiness.OK for text in parts.values())
    body = Readiness(ready=ready, parts=parts).model_dump(mode="json")
    return JSONResponse(body, 200 if ready else 503, {} if ready else {"Retry-After": "1"})


@router.get("/metrics", response_class=PlainTextResponse)
def metrics_get(request: Request, deps: Deps, actor: Who) -> Response:
    """Prometheus metrics.  Needs a token with metrics.read."""
    jobs = JobMetrics(counts.job_counts_read(deps, actor))
    return Response(metrics_text(state_of(request).metrics.registry, jobs), media_type=CONTENT_TYPE)


@router.get("/v1/snapshot", response_class=PlainTextResponse)
def snapshot_get(deps: Deps, actor: Who) -> Response:
    """The live state as a snapshot file, which `millpond plan` reads."""
    return Response(snapshots.snapshot_export(deps, actor), media_type="application/yaml; charset=utf-8")
