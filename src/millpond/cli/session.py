"""One call of the command line: where the server is, who asks, in which language, and where output goes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from millpond.cli.errors import NoServer
from millpond.cli.output import Output
from millpond.cli.texts import Texts

if TYPE_CHECKING:
    # The client brings an HTTP library along, which `--help` has no use for.
    from millpond.sdk.client import Client
    from millpond.sdk.jobs import Place


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a call depends on besides its arguments; inputs, so that tests choose them."""

    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    now: Callable[[], datetime] = lambda: datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Access:
    """An address and the token for it; `token` empty: none is known.  `source` says where they were found."""

    server: str
    token: str
    source: str


class Session:
    """Given to every command."""

    def __init__(self, surroundings: Surroundings, options: Mapping[str, object], texts: Texts) -> None:
        self.surroundings = surroundings
        self.environ = surroundings.environ
        self.options = options
        self.texts = texts

    @property
    def json(self) -> bool:
        return bool(self.options.get("json"))

    @property
    def tenant(self) -> str:
        return self._setting("tenant")

    @property
    def project(self) -> str:
        return self._setting("project")

    @property
    def place(self) -> Place:
        """Where names of jobs are looked up."""
        place: Place = {}
        if self.tenant:
            place["tenant"] = self.tenant
        if self.project:
            place["project"] = self.project
        return place

    def now(self) -> datetime:
        return self.surroundings.now()

    @cached_property
    def output(self) -> Output:
        return Output(self.texts, self.environ)

    @cached_property
    def access(self) -> Access:
        """Address and token.  `NoServer` when no millpond is known here."""
        return access_find(self.environ, str(self.options.get("server") or ""), str(self.options.get("token") or ""))

    @cached_property
    def client(self) -> Client:
        make: type[Client] = import_module("millpond.sdk.client").Client
        return make(self.access.server, self.access.token)

    def close(self) -> None:
        """Hang up, if a client was made."""
        client = self.__dict__.get("client")
        if client is not None:
            client.close()

    def _setting(self, name: str) -> str:
        return str(self.options.get(name) or self.environ.get(f"MILLPOND_{name.upper()}", ""))


def config_path(environ: Mapping[str, str]) -> Path:
    """The file that `millpond login` writes."""
    base = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME") or "~").expanduser() / ".config")
    return Path(base) / "millpond" / "config.json"


def state_dir(environ: Mapping[str, str]) -> Path:
    """Where a millpond on this machine keeps its state (the rule of `millpond.config`, without its libraries)."""
    if environ.get("MILLPOND_STATE_DIR"):
        return Path(environ["MILLPOND_STATE_DIR"])
    if os.geteuid() == 0:
        return Path("/var/lib/millpond")
    base = environ.get("XDG_STATE_HOME") or str(Path(environ.get("HOME") or "~").expanduser() / ".local" / "state")
    return Path(base) / "millpond"


def access_find(environ: Mapping[str, str], server: str = "", token: str = "") -> Access:
    """The first of: options, environment, what `login` saved, a millpond of this machine.

    An address given without a token takes the token that is known for it.
    """
    server = server or environ.get("MILLPOND_SERVER", "")
    token = token or environ.get("MILLPOND_TOKEN", "")
    known = [access for access in (_saved(environ), _local(environ)) if access is not None]
    if not server and known:
        return Access(known[0].server, token or known[0].token, known[0].source)
    if not server:
        raise NoServer
    for access in known:
        if not token and _same(access.server, server):
            token = access.token
    return Access(server, token, "options")


def _saved(environ: Mapping[str, str]) -> Access | None:
    path = config_path(environ)
    values = _json_read(path)
    server, token = str(values.get("server", "")), str(values.get("token", ""))
    return Access(server, token, str(path)) if server else None


def _local(environ: Mapping[str, str]) -> Access | None:
    run = state_dir(environ) / "run"
    address = str(_json_read(run / "server.json").get("address", ""))
    if not address:
        return None
    try:
        token = (run / "admin.token").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        token = ""
    return Access(address, token, str(run))


def _json_read(path: Path) -> dict[str, object]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def _same(one: str, other: str) -> bool:
    return one.rstrip("/").removeprefix("http://") == other.rstrip("/").removeprefix("http://")
