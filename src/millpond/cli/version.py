"""``millpond version``: of this program, and of the server if one answers."""

from __future__ import annotations

from millpond import __version__
from millpond.cli.lazy import command
from millpond.cli.session import Session
from millpond.domain.errors import MillpondError
from millpond.sdk.answers import Version


@command("version")
def version(session: Session) -> None:
    """Never fails: without a server it says so."""
    server, problem = _server(session)
    if session.json:
        session.output.data({"client": __version__, "server": server})
        return
    session.output.line(f"millpond {__version__}")
    if server is None:
        session.output.line(session.texts("version.no_server", problem=problem))
        return
    session.output.line(
        session.texts("version.server", version=server["version"], address=session.access.server)
        + (f" ({server['engine']})" if server["engine"] else "")
    )


def _server(session: Session) -> tuple[Version | None, str]:
    try:
        return session.client.system.version(), ""
    except MillpondError as error:
        return None, error.message
