"""The OpenAPI document that `/openapi.json` serves and the repository keeps.

FastAPI gives paths and schemas; this adds what it cannot know: bearer tokens, problem documents for every error, the
schemas of bodies that are read as plain JSON, of stream events, and the WebSocket.
"""

from __future__ import annotations

import json
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from millpond.api.problems import MEDIA_TYPE
from millpond.api.schemas.base import Problem
from millpond.api.schemas.jobs import AttemptEvent, JobChange, JobSubmit, LogEvent
from millpond.api.schemas.prices import PricesPost
from millpond.api.schemas.queues import QuotaPut

OPEN_PATHS = frozenset({"/healthz", "/readyz", "/v1/version"})
"""Paths that need no token."""

_INPUTS: tuple[type[BaseModel], ...] = (JobSubmit, PricesPost, QuotaPut)
_OUTPUTS: tuple[type[BaseModel], ...] = (Problem, JobChange, LogEvent, AttemptEvent)
_REPLACED = ("HTTPValidationError", "ValidationError")
_EXEC_TEXT = (
    "`GET /v1/jobs/{job}/exec?rank=&tty=` upgrades to a WebSocket that runs a command beside a rank: send "
    '`{"argv": [...], "rows"?, "columns"?}`, then input as binary messages (`{"eof": true}` ends it); output comes as '
    'binary messages, and `{"exit": code}` last.'
)


def openapi_make(app: FastAPI) -> dict[str, Any]:
    """The finished document of `app`."""
    document = FastAPI.openapi(app)
    document["info"]["description"] = (
        "Bearer tokens; problem documents (RFC 9457) with a stable `code`; lists by cursor; `Idempotency-Key` on POST; "
        "streams as server-sent events.  Times are ISO 8601 in UTC; amounts are whole milli-cards, milli-CPU, MiB and "
        "seconds.  " + _EXEC_TEXT
    )
    document["info"]["license"] = {"name": "Apache 2.0", "identifier": "Apache-2.0"}
    schemas = document["components"]["schemas"]
    wanted = [(model, "validation") for model in _INPUTS] + [(model, "serialization") for model in _OUTPUTS]
    _, extra = models_json_schema(wanted, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
    for name, schema in extra["$defs"].items():
        schemas.setdefault(name, schema)
    for name in _REPLACED:
        schemas.pop(name, None)
    document["components"]["schemas"] = dict(sorted(schemas.items()))
    document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, operations in document["paths"].items():
        for operation in operations.values():
            _operation_finish(path, operation)
    return document


def _operation_finish(path: str, operation: dict[str, Any]) -> None:
    operation["responses"].pop("422", None)
    operation["responses"]["default"] = {
        "description": "A problem.",
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    operation["security"] = [] if path in OPEN_PATHS else [{"token": []}]


def openapi_text(document: dict[str, Any]) -> str:
    """As it is committed: two spaces, keys in the order in which they were made, one newline at the end."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def openapi_install(app: FastAPI) -> None:
    """Serve the finished document, made once, at `/openapi.json`."""
    made: list[dict[str, Any]] = []

    def openapi() -> dict[str, Any]:
        if not made:
            made.append(openapi_make(app))
        return made[0]

    app.openapi = openapi  # type: ignore[method-assign]
