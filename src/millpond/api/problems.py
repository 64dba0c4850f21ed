"""Errors as RFC 9457 problem documents.  Every answer that is not a success goes through here."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from millpond.api.schemas.base import Problem, ProblemPosition
from millpond.domain.errors import (
    Conflict,
    Forbidden,
    InvalidInput,
    MillpondError,
    NotFound,
    Refused,
    Unauthenticated,
    Unavailable,
)
from millpond.engines import base as engine_errors

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 1

_log = structlog.get_logger("millpond.api")

_KINDS: Sequence[tuple[type[MillpondError], int, str, str]] = (
    (InvalidInput, 422, "invalid", "The request means nothing"),
    (Unauthenticated, 401, "unauthenticated", "No valid token"),
    (Forbidden, 403, "forbidden", "Not permitted"),
    (NotFound, 404, "not-found", "No such thing"),
    (Conflict, 409, "conflict", "It conflicts with what is"),
    (Refused, 422, "refused", "It cannot be"),
    (Unavailable, 503, "unavailable", "A part does not answer"),
    (engine_errors.Retry, 503, "unavailable", "The engine does not answer"),
    (engine_errors.Lost, 404, "not-found", "The engine does not know it"),
    (engine_errors.EngineError, 409, "engine", "The engine refuses"),
)
_STATUS: Mapping[int, tuple[str, str, str, str]] = {
    422: ("INVALID", "invalid", "The request means nothing", "send valid JSON"),
    404: ("NOT_FOUND", "not-found", "No such path", "see /openapi.json for all paths"),
    405: ("METHOD_NOT_ALLOWED", "method-not-allowed", "No such method here", "the Allow header names the methods"),
    413: ("BODY_TOO_LARGE", "body-too-large", "The body is too large", "send less in one request"),
    415: ("UNSUPPORTED_MEDIA_TYPE", "unsupported-media-type", "Not JSON", "send Content-Type: application/json"),
}


def problem_of(error: MillpondError) -> Problem:
    """The problem document of an error of ours; a kind that is not meant for callers is a 500."""
    for kind, status, name, title in _KINDS:
        if isinstance(error, kind):
            return Problem(
                type=f"urn:millpond:problem:{name}",
                title=title,
                status=status,
                detail=error.message,
                code=error.reason,
                hint=error.hint,
                position=_position(error),
                details=_plain(error.details),
            )
    return problem_unknown()


def problem_unknown() -> Problem:
    """What a caller learns of a defect: nothing but where to look."""
    return Problem(
        type="urn:millpond:problem:internal",
        title="The server failed",
        status=500,
        detail="the server failed at this request",
        code="INTERNAL",
        hint="its log has the cause under this request's id",
    )


def problem_status(status: int, detail: str = "") -> Problem:
    """A problem that only has an HTTP status."""
    code, name, title, hint = _STATUS.get(status, ("ERROR", "error", "Refused", ""))
    return Problem(
        type=f"urn:millpond:problem:{name}", title=title, status=status, detail=detail or title, code=code, hint=hint
    )


def problem_validation(error: RequestValidationError) -> Problem:
    """The first thing that is wrong with a request's parameters or body, with its key path; `details` has them all."""
    found = [(list(item["loc"]), str(item["msg"])) for item in error.errors()[:20]]
    place, message = found[0] if found else ([], "the request is not valid")
    section, path = (str(place[0]) if place else "body"), _path(place[1:])
    return Problem(
        type="urn:millpond:problem:invalid",
        title="The request means nothing",
        status=422,
        detail=f"{path or section}: {message}"[:500],
        code="INVALID",
        hint="see /openapi.json for what is expected",
        position=ProblemPosition(line=0, column=0, path=path, source=section),
        details={"errors": [{"path": _path(loc[1:]), "in": str(loc[0]), "message": text[:200]} for loc, text in found]},
    )


def problem_response(problem: Problem, request_id: str = "", headers: Mapping[str, str] | None = None) -> Response:
    """The document as a response; 401 and 503 get the header that says how to go on."""
    extra = dict(headers or {})
    if problem.status == 401:
        extra["WWW-Authenticate"] = 'Bearer realm="millpond"'
    if problem.status == 503:
        extra["Retry-After"] = str(RETRY_AFTER_S)
    body = problem.model_copy(update={"request_id": request_id}).model_dump(mode="json", exclude_none=True)
    return JSONResponse(body, problem.status, extra, MEDIA_TYPE)


def request_id_of(request: Request) -> str:
    """The id that the middleware gave this request."""
    value = request.scope.get("millpond.request_id", "")
    return value if isinstance(value, str) else ""


def defect_log(error: Exception, request_id: str) -> None:
    """Log a defect with its traceback as plain text: never with local variables, which may hold secrets."""
    _log.error("request failed", request_id=request_id, traceback="".join(traceback.format_exception(error)))


def problems_install(app: FastAPI) -> None:
    """Answer every error of `app` with a problem document."""

    def ours(request: Request, error: Exception) -> Response:
        if not isinstance(error, MillpondError):
            raise error
        problem = problem_of(error)
        if problem.status == 500:
            defect_log(error, request_id_of(request))
        return problem_response(problem, request_id_of(request))

    def validation(request: Request, error: Exception) -> Response:
        if not isinstance(error, RequestValidationError):
            raise error
        return problem_response(problem_validation(error), request_id_of(request))

    def http(request: Request, error: Exception) -> Response:
        if not isinstance(error, HTTPException):
            raise error
        status = 422 if error.status_code == 400 else error.status_code
        detail = "" if error.status_code in {404, 405} else str(error.detail)
        return problem_response(problem_status(status, detail), request_id_of(request), error.headers)

    def unknown(request: Request, error: Exception) -> Response:
        # The framework raises it again after this answer, and the outermost layer logs it.
        del error
        return problem_response(problem_unknown(), request_id_of(request))

    app.add_exception_handler(MillpondError, ours)
    app.add_exception_handler(Exception, unknown)
    app.add_exception_handler(RequestValidationError, validation)
    app.add_exception_handler(HTTPException, http)


def _position(error: MillpondError) -> ProblemPosition | None:
    if not isinstance(error, InvalidInput) or error.position is None:
        return None
    place = error.position
    return ProblemPosition(line=place.line, column=place.column, path=place.path, source=place.source)


def _path(place: Sequence[object]) -> str:
    return ".".join(str(part) for part in place)


def _plain(details: Mapping[str, object]) -> dict[str, object]:
    """Details as JSON can hold them: anything unusual as its text."""
    return {key: _plain_value(value) for key, value in details.items()}


def _plain_value(value: object) -> object:
    if value is None or isinstance(value, str | int | bool):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain_value(item) for item in value]
    return str(value)
