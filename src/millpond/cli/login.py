"""``millpond login``, ``logout`` and ``whoami``: who the command line is."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from millpond.cli.lazy import command, option
from millpond.cli.output import Cell
from millpond.cli.session import Session, config_path
from millpond.sdk.answers import Whoami

if TYPE_CHECKING:
    from millpond.sdk.client import Client


@command("login")
@option("--token-stdin", is_flag=True, help="login.token_stdin")
def login(session: Session, token_stdin: bool) -> None:
    """Check address and token, then keep them in a file that only you can read."""
    server = str(session.options.get("server") or session.environ.get("MILLPOND_SERVER", "")) or session.access.server
    token = str(session.options.get("token") or "") or _token_ask(session, from_stdin=token_stdin)
    make: type[Client] = import_module("millpond.sdk.client").Client
    with make(server, token) as client:
        me = client.system.whoami()
        path = config_path(session.environ)
        config_write(path, {"server": client.server, "token": token})
        if session.json:
            session.output.data({"server": client.server, "user": me["user"], "config": str(path)})
            return
        session.output.note(session.texts("login.done", user=me["user"], server=client.server, path=path), "green")
        if client.server.startswith("http:") and not client.transport.loopback:
            session.output.note(session.texts("login.plain"), "yellow")


def _token_ask(session: Session, *, from_stdin: bool) -> str:
    """The token from the terminal, without echo, or the first line of standard input."""
    if from_stdin or not sys.stdin.isatty():
        token = sys.stdin.readline().strip()
    else:
        token = getpass.getpass(session.texts("login.ask"), stream=sys.stderr).strip()
    if not token:
        raise click.UsageError(session.texts("login.no_token"))
    return token


def config_write(path: Path, values: dict[str, str]) -> None:
    """Replace the file in one step; it is never readable by others, not even for a moment."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".config-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            json.dump(values, stream, indent=2)
            stream.write("\n")
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


@command("logout")
def logout(session: Session) -> None:
    """Forget what `login` saved.  The token itself stays valid; `tokens revoke` ends it."""
    path = config_path(session.environ)
    existed = path.exists()
    path.unlink(missing_ok=True)
    if session.json:
        session.output.data({"removed": existed, "config": str(path)})
    else:
        session.output.note(session.texts("logout.done" if existed else "logout.nothing", path=path))


@command("whoami")
def whoami(session: Session) -> None:
    """The user of the token, its roles, and the server."""
    me = session.client.system.whoami()
    if session.json:
        session.output.data(me)
        return
    session.output.fields(_fields(session, me))


def _fields(session: Session, me: Whoami) -> list[tuple[str, Cell | str]]:
    return [
        ("user", Cell(me["user"], "bold")),
        ("platform", me["platform"] or ""),
        ("tenants", ", ".join(f"{role['tenant']} ({role['role']})" for role in me["tenants"])),
        ("scopes", " ".join(me["scopes"])),
        ("server", session.access.server),
        ("from", session.access.source),
    ]
