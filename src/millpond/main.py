"""The composition root: the only module that sees everything.

``python -m millpond.main`` is the server's own process, which ``millpond up`` starts in the background, or becomes with
``--foreground``.  ``up``, ``down`` and ``db`` are in `millpond.commands`.
"""

from __future__ import annotations

import gc
import os
import secrets
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import FrameType

import structlog
import uvicorn
from prometheus_client import CollectorRegistry

from millpond.api.app import Api, app_make
from millpond.billing.documents import Party
from millpond.commands.bootstrap import database_prepare, part_check, pool_declare
from millpond.commands.guard import Guard
from millpond.commands.journal import logging_setup
from millpond.commands.places import (
    ServerFile,
    folders_make,
    pool_read,
    pool_resolve,
    pool_write,
    server_forget,
    server_write,
)
from millpond.commands.processes import file_locked, process_find
from millpond.commands.stack import clock, control_make, engine_open, guard_parts, storage_open
from millpond.commands.start import start_error_write
from millpond.config import Settings
from millpond.control.context import ENGINE_SOURCE
from millpond.control.runner import Runner
from millpond.db.leader import Leader
from millpond.domain.errors import Conflict, MillpondError
from millpond.scheduling.desk import Newest
from millpond.services.deps import PartCheck, Services
from millpond.services.schedules import ReportSchedule
from millpond.tracing import tracing_start

log = structlog.get_logger("millpond.main")

GRACEFUL_S = 2
SWITCH_S = 0.001


def serve(settings: Settings, replace_pool: bool) -> int:
    """Run the server in this process until SIGTERM or SIGINT; jobs, supervisor and database outlive it."""
    with ExitStack() as stack:
        folders_make(settings)
        logging_setup(settings.log_level)
        stack.callback(tracing_start(settings.otlp_endpoint))
        stack.enter_context(file_locked(settings.run_dir / "server.lock", "a millpond of this state folder", 5.0))
        try:
            _serve(settings, replace_pool, stack)
        except MillpondError as error:
            start_error_write(settings, error)
            raise
    return 0


def _serve(settings: Settings, replace_pool: bool, stack: ExitStack) -> None:
    listening = stack.enter_context(socket_bind(settings))
    storage = storage_open(settings)
    stack.callback(storage.database.close)
    database_prepare(storage.database, settings, clock())
    pool = pool_resolve(settings.sim, pool_read(settings))
    engine = engine_open(settings, pool)
    stack.callback(engine.close)
    inventory = engine.inventory()
    pool_declare(storage.database, ENGINE_SOURCE, inventory.nodes, clock(), confirmed=replace_pool)
    pool_write(settings, pool)
    registry = CollectorRegistry()
    newest = Newest()
    runner = Runner(control_make(settings, storage.database, engine, registry, newest), Leader(storage.database))
    parts: Mapping[str, PartCheck] = {"control": runner.state, "engine": part_check(engine.epoch)}
    seller = Party("", settings.seller, settings.seller_address, settings.seller_tax_id)
    services = Services(storage.database, engine, clock, secrets.token_bytes, parts, newest=newest, seller=seller)
    app = app_make(services, body_limit=settings.body_limit, registry=registry)
    guard = Guard(guard_parts(settings, storage.embedded))
    address = address_of(settings, listening)
    stack.callback(server_forget, settings)
    runner.start()
    stack.callback(runner.stop)
    guard.start()
    stack.callback(guard.stop)
    if settings.reports_dir:
        schedule = ReportSchedule(services, Path(settings.reports_dir), settings.reports_lang)
        schedule.start()
        stack.callback(schedule.stop)
    listening.listen(512)
    me = process_find(os.getpid())
    server_write(settings, ServerFile(address, os.getpid(), me.started if me is not None else 0))
    # What lives long is made by now: spare the collector from walking it, and threads from waiting long for a turn.
    gc.freeze()
    sys.setswitchinterval(SWITCH_S)
    log.info("serving", address=address, pid=os.getpid(), nodes=len(inventory.nodes), pool=pool.label or "this machine")
    http_serve(app, listening)
    log.info("stopping")


class Server(uvicorn.Server):
    """Ends the API's open streams when it is asked to stop; otherwise it would wait for them."""

    def __init__(self, config: uvicorn.Config, api: Api) -> None:
        super().__init__(config)
        self._api = api

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._api.streams_end()
        super().handle_exit(sig, frame)


def http_serve(app: Api, listening: socket.socket) -> None:
    """Serve until asked to stop.  The server library sends itself the signal again at its end; ours swallow it."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _signal_ignore)
    config = uvicorn.Config(
        app, log_config=None, access_log=False, server_header=False, timeout_graceful_shutdown=GRACEFUL_S
    )
    Server(config, app).run(sockets=[listening])


def _signal_ignore(number: int, frame: FrameType | None) -> None:
    del number, frame


def socket_bind(settings: Settings) -> socket.socket:
    """A bound socket that does not listen yet: nobody connects before we can answer."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
    except OSError as error:
        listening.close()
        raise Conflict(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror}",
            hint="choose another port with --port, or --port 0 for a free one",
            code="PORT_TAKEN",
        ) from error
    return listening


def address_of(settings: Settings, listening: socket.socket) -> str:
    """How clients on this machine reach the server."""
    host, port = listening.getsockname()[:2]
    if host in ("0.0.0.0", "::"):  # noqa: S104 - compared, not bound
        host = "127.0.0.1" if host == "0.0.0.0" else "::1"  # noqa: S104
    del settings
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def server_main(argv: list[str]) -> int:
    """The process that `up` starts; its settings are in the environment."""
    try:
        return serve(Settings(), "--replace-pool" in argv)
    except MillpondError as error:
        log.error("cannot start", error=str(error))  # noqa: TRY400 - a sentence for the operator, not a traceback
        return 1


if __name__ == "__main__":
    sys.exit(server_main(sys.argv[1:]))
