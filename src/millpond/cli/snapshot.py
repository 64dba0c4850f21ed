"""``millpond snapshot``: the scheduler's world as a file, for `plan` and `simulate`."""

from __future__ import annotations

from pathlib import Path

from millpond.cli.errors import file_error
from millpond.cli.lazy import command, option
from millpond.cli.session import Session


@command("snapshot")
@option("-o", "--output", "path", metavar="FILE", default="-", help="snapshot.output")
def snapshot(session: Session, path: str) -> None:
    """Needs the right to read snapshots: it shows every tenant's jobs."""
    text = session.client.system.snapshot()
    if session.json:
        session.output.data({"snapshot": text})
        return
    if path == "-":
        session.output.write(text)
        return
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise file_error(error, path) from error
    session.output.note(session.texts("snapshot.written", path=path))
