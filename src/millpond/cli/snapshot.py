"""``millpond snapshot``: the scheduler's world as a file, for `plan` and `simulate`."""

from __future__ import annotations

from millpond.cli.file_write import file_write
from millpond.cli.lazy import group, option, verb
from millpond.cli.offline.convert import snapshot_convert
from millpond.cli.session import Session

snapshot = group("snapshot", default="export")
snapshot.add_command(snapshot_convert)


@verb(snapshot, "export")
@option("-o", "--output", "path", metavar="FILE", default="-", help="snapshot.output")
def snapshot_export(session: Session, path: str) -> None:
    """Needs the right to read snapshots: it shows every tenant's jobs."""
    text = session.client.system.snapshot()
    if session.json:
        session.output.data({"snapshot": text})
        return
    if path == "-":
        session.output.write(text)
        return
    file_write(path, text)
    session.output.note(session.texts("snapshot.written", path=path))
