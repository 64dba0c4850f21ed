"""``millpond plan FILE``: one planning pass over a snapshot file."""

from __future__ import annotations

from collections.abc import Iterator

from millpond.cli.lazy import argument, command, option
from millpond.cli.offline.shared import card_seconds, seats_text, snapshot_read
from millpond.cli.offline.worlds import changes_read
from millpond.cli.output import Cell, Column, Row
from millpond.cli.session import Session
from millpond.domain.amounts import duration_write
from millpond.scheduling.check import check
from millpond.scheduling.decisions import Plan, plan_bytes
from millpond.scheduling.plan import plan as plan_make
from millpond.scheduling.snapshot import Snapshot

COLUMNS = (Column("action"), Column("job"), Column("queue"), Column("rank"), Column("detail", fold=True))


@command("plan")
@argument("file")
@option("--set", "sets", multiple=True, metavar="PATH=VALUE", help="simulate.set")
@option("--add-nodes", multiple=True, metavar="N[=NODE]", help="simulate.add_nodes")
def plan_command(session: Session, file: str, sets: tuple[str, ...], add_nodes: tuple[str, ...]) -> None:
    """What one pass decides; nothing is changed anywhere."""
    snapshot = snapshot_read(session, file, changes_read(sets, add_nodes)).snapshot
    plan = plan_make(snapshot)
    for violation in check(snapshot, plan):
        session.output.note(session.texts("plan.warning", text=f"{violation.rule}: {violation.text}"), "red")
    if session.json:
        session.output.write(plan_bytes(plan).decode())
        return
    rows = list(_rows(session, snapshot, plan))
    if rows:
        session.output.table(COLUMNS, rows)
    else:
        session.output.note(session.texts("plan.nothing"))


def _rows(session: Session, snapshot: Snapshot, plan: Plan) -> Iterator[Row]:
    texts = session.texts
    leaf = {job.id: job.queue for job in snapshot.jobs}
    for shape in plan.reshape:
        slices = " ".join(f"mig-{profile}@{slot}" for profile, slot in shape.geometry)
        detail = texts("plan.reshape", node=shape.node, card=str(shape.card), slices=slices)
        yield [Cell("reshape", "dim"), "", "", "", detail]
    for start in plan.start:
        rank = texts.word("rank", start.rank.word)
        yield [Cell("start", "green"), start.job, leaf[start.job], rank, seats_text(start.seats)]
    for evict in plan.evict:
        detail = texts("plan.evict", why=evict.why, claimant=evict.claimant, lost=card_seconds(evict.lost))
        yield [Cell("evict", "red"), evict.job, leaf[evict.job], "", detail]
    for hold in plan.hold:
        until = duration_write(max(0, hold.until - plan.now))
        detail = texts("plan.hold", seats=seats_text(hold.seats), until=until)
        yield [Cell("hold", "cyan"), hold.job, leaf[hold.job], texts.word("rank", hold.rank.word), detail]
    for found in plan.reservations:
        detail = texts("plan.reserve", seats=seats_text(found.seats), time=duration_write(found.time - plan.now))
        yield [Cell("reserve", "cyan"), found.job, leaf[found.job], "", detail]
    for wait in plan.wait:
        rank = texts.word("rank", wait.rank.word if wait.rank is not None else "")
        for reason in wait.reasons:
            detail = f"{reason.code.value}: {reason.text}"
            yield [Cell("wait", "yellow"), wait.job, leaf[wait.job], rank, detail]
