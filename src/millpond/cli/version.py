"""``millpond version``: of this program, and of the server if one answers."""

from __future__ import annotations

from importlib.util import find_spec

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
        session.output.data({"client": __version__, "core": core(), "server": server})
        return
    compiled = core() == "compiled"
    built = session.texts("version.core_compiled") if compiled else session.texts("version.core_python")
    session.output.line(f"millpond {__version__} ({built})")
    if server is None:
        session.output.line(session.texts("version.no_server", problem=problem))
        return
    session.output.line(
        session.texts("version.server", version=server["version"], address=session.access.server)
        + (f" ({server['engine']})" if server["engine"] else "")
    )


def core() -> str:
    """`compiled` or `python`: how the scheduler of this installation was built.  Both decide the same."""
    spec = find_spec("millpond.scheduling.plan")
    return "python" if spec is None or str(spec.origin).endswith(".py") else "compiled"


def _server(session: Session) -> tuple[Version | None, str]:
    try:
        return session.client.system.version(), ""
    except MillpondError as error:
        return None, error.message
