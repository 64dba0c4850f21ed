"""``millpond snapshot``: the scheduler's world as a file, for `plan` and `simulate`."""

from __future__ import annotations

from millpond.cli.file_write import snapshot_put
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
    if snapshot_put(session, path, text):
        session.output.note(session.texts("snapshot.written", path=path))
