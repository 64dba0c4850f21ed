"""``millpond snapshot convert FILE``: a trace as a snapshot file."""

from __future__ import annotations

from typing import Any

from millpond.cli.file_write import snapshot_put
from millpond.cli.lazy import argument, command, option
from millpond.cli.offline.trace_options import trace_options
from millpond.cli.offline.worlds import Wanted, source_read
from millpond.cli.session import Session
from millpond.files.snapshots import snapshot_write


@command("convert", help="help.snapshot.convert")
@argument("file")
@trace_options
@option("--until", metavar="TIME", default="", help="trace.until")
@option("-o", "--output", "path", metavar="FILE", default="-", help="snapshot.output")
def snapshot_convert(session: Session, path: str, **given: Any) -> None:
    """Its jobs arrive when they did, on the pool's nodes, in its queues."""
    world = source_read(session, Wanted(**given)).world(session)
    text = snapshot_write(world.snapshot, world.arrivals, world.work)
    if not snapshot_put(session, path, text):
        return
    counts = {
        "jobs": len(world.snapshot.jobs) + len(world.arrivals),
        "nodes": len(world.snapshot.nodes),
        "queues": len(world.snapshot.queues),
    }
    session.output.note(session.texts("snapshot.converted", path=path, **counts))
