"""The command ``up``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from millpond.cli.lazy import command, option
from millpond.cli.session import Session
from millpond.commands.places import pool_read, pool_resolve, token_path
from millpond.commands.pool import pool_specs
from millpond.commands.start import server_argv, server_ensure, settings_environ
from millpond.config import Settings

TRY = (
    "millpond nodes",
    "millpond run --name hello --gpu 1 -- echo hello",
    "millpond ps --all",
)


def settings_of(session: Session, **given: object) -> Settings:
    """Settings from the environment, with what the command line gave on top."""
    values = {name: value for name, value in given.items() if value not in (None, "")}
    if "state_dir" in values:
        values["state_dir"] = Path(str(values["state_dir"])).absolute()
    del session
    return Settings(**values)  # type: ignore[arg-type]


@command("up")
@option("--sim", help="option.sim", metavar="POOL", default="")
@option("--state-dir", help="option.state_dir", metavar="DIR", default="")
@option("--host", help="option.host", default="")
@option("--port", help="option.port", type=click.IntRange(0, 65535), default=None)
@option("--isolation", help="option.isolation", type=click.Choice(["auto", "bubblewrap", "none"]), default=None)
@option("--replace-pool", help="option.replace_pool", is_flag=True)
@option("--foreground", help="option.foreground", is_flag=True)
def up_command(session: Session, replace_pool: bool, foreground: bool, **given: object) -> int:
    """Start what is not running; with ``--foreground`` become the server."""
    settings = settings_of(session, **given)
    # A file named on the command line is named from here, and the server works elsewhere.
    if settings.sim and Path(settings.sim).is_file():
        settings = settings.model_copy(update={"sim": str(Path(settings.sim).absolute())})
    pool_specs(pool_resolve(settings.sim, pool_read(settings)))
    if foreground:
        os.execve(sys.executable, server_argv(replace_pool=replace_pool), settings_environ(settings, os.environ))  # noqa: S606
    return _report(session, settings, replace_pool=replace_pool)


def _report(session: Session, settings: Settings, *, replace_pool: bool) -> int:
    server, fresh = server_ensure(settings, replace_pool=replace_pool)
    pool = pool_read(settings)
    token = token_path(settings)
    texts, out = session.texts, session.output
    if session.json:
        out.data(
            {
                "address": server.address,
                "pid": server.pid,
                "adopted": not fresh,
                "pool": pool.label,
                "simulated": bool(pool.label),
                "token_file": str(token),
                "state_dir": str(settings.state_dir),
            }
        )
        return 0
    key = "up.started" if fresh else "up.adopted"
    out.heading(texts(key, address=server.address, pid=server.pid))
    label = texts("up.pool_simulated", label=pool.label) if pool.label else texts("up.pool_real")
    out.line(texts("up.pool", pool=label))
    out.line(texts("up.token", path=token))
    out.line(texts("up.state", path=settings.state_dir))
    if fresh:
        out.line()
        out.line(texts("up.try"))
        for line in TRY:
            out.line(f"  {line}")
    return 0
