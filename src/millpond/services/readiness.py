"""Whether the server can do its work."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from millpond.domain.errors import MillpondError
from millpond.services.deps import Services

OK = "ok"

_log = structlog.get_logger("millpond.readiness")


def parts_check(deps: Services) -> dict[str, str]:
    """``"ok"`` or one sentence for each part: database, engine, and those that main added (leader)."""
    checks: dict[str, Callable[[], str]] = {
        "database": lambda: _database(deps),
        "engine": lambda: _engine(deps),
        **deps.parts,
    }
    return {name: _checked(name, check) for name, check in checks.items()}


def _database(deps: Services) -> str:
    deps.database.ping()
    return OK


def _engine(deps: Services) -> str:
    if deps.engine is None:
        return "no engine is connected"
    deps.engine.inventory()
    return OK


def _checked(name: str, check: Callable[[], str]) -> str:
    """Who asks needs no token, so the answer has no addresses; the log has the cause."""
    try:
        return check()
    except (MillpondError, OSError) as error:
        _log.warning("a part does not answer", part=name, error=str(error))
        return "does not answer"


def engine_name(deps: Services) -> str:
    """The engine's name; empty if there is none or it does not answer."""
    try:
        return deps.engine.capabilities().name if deps.engine is not None else ""
    except MillpondError:
        return ""
