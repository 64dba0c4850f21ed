import pytest

from millpond.domain.errors import InvalidInput
from millpond.sdk import errors


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "INVALID", errors.Rejected),
        (401, "UNAUTHENTICATED", errors.Unauthenticated),
        (403, "FORBIDDEN", errors.Forbidden),
        (404, "NOT_FOUND", errors.NotFound),
        (409, "CONFLICT", errors.Conflict),
        (409, "", errors.Conflict),
        (422, "TOO_LARGE", errors.Refused),
        (422, "INVALID", errors.Rejected),
        (418, "TEAPOT", errors.Refused),
        (429, "", errors.Busy),
        (500, "", errors.ServerFailed),
        (502, "", errors.ServerFailed),
        (503, "UNAVAILABLE", errors.Busy),
    ],
)
def test_problem_becomes_its_error(status: int, code: str, kind: type[errors.MillpondError]) -> None:
    error = errors.problem_error(status, {"code": code, "detail": "no", "hint": "try", "details": {"need": 1}})
    assert type(error) is kind
    assert (error.message, error.hint or "try", error.details) == ("no", "try", {"need": 1})
    assert error.reason == (code or kind.code)


def test_position_is_kept() -> None:
    error = errors.problem_error(400, {"detail": "no", "position": {"line": 3, "column": 8, "path": "env"}})
    assert isinstance(error, InvalidInput)
    assert error.position is not None
    assert (error.position.line, error.position.column, error.position.path) == (3, 8, "env")


@pytest.mark.parametrize("problem", [{}, {"detail": 5, "code": [], "details": "x", "position": "here"}])
def test_foreign_document_is_no_trouble(problem: dict[str, object]) -> None:
    error = errors.problem_error(400, problem)
    assert error.message == "the server answered with status 400"
    assert isinstance(error, InvalidInput)
    assert error.position is None


@pytest.mark.parametrize(("text", "seconds"), [("3", 3.0), ("", None), ("soon", None), ("-1", 0.0)])
def test_retry_after(text: str, seconds: float | None) -> None:
    error = errors.problem_error(503, {}, text)
    assert isinstance(error, errors.Busy)
    assert error.retry_after == seconds
