"""``millpond queue``: the tree of queues with their use, and who waits."""

from __future__ import annotations

from millpond.cli.lazy import argument, command, option
from millpond.cli.output import Cell, Column
from millpond.cli.reasons import reason_short
from millpond.cli.session import Session
from millpond.cli.values import age, amounts, cards, local, owner, state, until
from millpond.domain.amounts import duration_format
from millpond.domain.errors import NotFound
from millpond.domain.queues import CARDS
from millpond.sdk.answers import Accuracy, Amounts, PoolJob, PoolView, Queue, QueueTree

BAR = 24
"""Width of a bar, characters."""

TREE = (
    Column("queue"),
    Column("used", right=True),
    Column("guarantee", right=True),
    Column("deserved", right=True),
    Column("cap", right=True),
    Column("pending", right=True),
    Column("running", right=True),
    Column("waiting", right=True),
)
WAITING = (
    Column("place", right=True),
    Column("job"),
    Column("owner"),
    Column("queue"),
    Column("cards", right=True),
    Column("age", right=True),
    Column("rank"),
    Column("eta"),
    Column("why", fold=True),
)
RUNNING = (
    Column("job"),
    Column("state"),
    Column("owner"),
    Column("queue"),
    Column("cards", right=True),
    Column("age", right=True),
    Column("rank"),
    Column("where", fold=True),
)


ENOUGH = 30
"""Promises that must have been judged before anything follows from their share."""

SOUND = (75, 85)
"""Percent of promises that hold where the forecast is as sure as it says."""

ACCURACY = (
    Column("queue"),
    Column("judged", right=True),
    Column("held", right=True),
    Column("share", right=True),
    Column("error", right=True),
    Column("width", right=True),
    Column("open", right=True),
)


@command("queue")
@argument("leaf", required=False, default="")
@option("--accuracy", is_flag=True, help="queue.accuracy_option")
def queue(session: Session, leaf: str, accuracy: bool) -> None:
    """The tree with bars, then running and waiting jobs in order; or how promised starts did."""
    if accuracy:
        _accuracy(session, leaf)
        return
    tree = session.client.queues.tree()
    view = session.client.queues.pool(leaf)
    if session.json:
        session.output.data({"queues": tree, "pool": view})
        return
    shown = [item for item in tree["items"] if _inside(item["name"], leaf)]
    if leaf and not shown:
        names = ", ".join(item["name"] for item in tree["items"] if item["class"])
        raise NotFound(f"there is no queue {leaf!r}", hint=f"one of: {names}" if names else "millpond queue")
    _summary(session, tree)
    if shown:
        _tree(session, shown, tree["pool"])
    else:
        session.output.note(session.texts("queue.none"))
    _jobs(session, view)


def _accuracy(session: Session, leaf: str) -> None:
    """Of each leaf and of all together: promises that could be judged, those that held, the median error."""
    found: Accuracy = session.client.queues.accuracy()
    items = [item for item in found["items"] if _inside(item["queue"], leaf)]
    if session.json:
        session.output.data({**found, "items": items})
        return
    if not items:
        if leaf:
            session.client.queues.pool(leaf)  # says so if there is no such queue
        session.output.note(session.texts("queue.accuracy_none_of" if leaf else "queue.accuracy_none", queue=leaf))
        return
    session.output.line(session.texts("queue.accuracy", since=local(found["since"])))
    rows: list[list[Cell | str]] = [
        [
            item["queue"],
            str(item["judged"]),
            str(item["held"]),
            _percent(item["held"], item["judged"]),
            _seconds(item["median_error"]),
            _seconds(item["median_width"]),
            str(item["open"]),
        ]
        for item in items
    ]
    judged, held = sum(item["judged"] for item in items), sum(item["held"] for item in items)
    if len(items) > 1:
        still = str(sum(item["open"] for item in items))
        rows.append([session.texts("word.all"), str(judged), str(held), _percent(held, judged), "", "", still])
    session.output.table(ACCURACY, rows)
    session.output.note(session.texts(f"queue.accuracy_{_verdict(held, judged)}"))


def _verdict(held: int, judged: int) -> str:
    """What the share of promises that held says of the forecast."""
    if judged < ENOUGH:
        return "few"
    share = held * 100 // judged
    return "bold" if share < SOUND[0] else "timid" if share > SOUND[1] else "sound"


def _seconds(value: int | None) -> str:
    return "" if value is None else duration_format(value)


def _percent(part: int, whole: int) -> str:
    """Whole percent; empty of nothing."""
    return f"{part * 100 // whole}%" if whole else ""


def _inside(name: str, leaf: str) -> bool:
    return not leaf or name == leaf or name.startswith(leaf + "/")


def _summary(session: Session, tree: QueueTree) -> None:
    used, pool = tree["used"].get(CARDS, 0), tree["pool"].get(CARDS, 0)
    key = "queue.summary_simulated" if tree["simulated"] else "queue.summary"
    session.output.line(session.texts(key, used=cards(used), pool=cards(pool)))


def _tree(session: Session, queues: list[Queue], pool: Amounts) -> None:
    columns = (*TREE, Column("bar")) if session.output.terminal else TREE
    rows: list[list[Cell | str]] = []
    for item in queues:
        row: list[Cell | str] = [
            "  " * item["name"].count("/") + item["name"].rpartition("/")[2]
            if session.output.terminal
            else item["name"],
            amounts(item["used"]),
            amounts(item["guarantee"]),
            amounts(item["deserved"]),
            amounts(item["cap"]),
            cards(item["pending"]),
            str(item["running_jobs"]),
            str(item["waiting_jobs"]),
        ]
        if session.output.terminal:
            row.append(_bar(item, pool.get(CARDS, 0)))
        rows.append(row)
    session.output.table(columns, rows)
    if session.output.terminal:
        session.output.note(session.texts("queue.legend"), "dim")


def _bar(item: Queue, pool: int) -> Cell:
    """Used cards against the cap (or the pool): full within the deserved share, shaded beyond; ``|`` = guarantee."""
    top = min(item["cap"].get(CARDS, pool), pool) or pool
    if top <= 0:
        return Cell("")
    used, deserved = item["used"].get(CARDS, 0), item["deserved"].get(CARDS, 0)
    own = _length(min(used, deserved), top)
    filled = _length(used, top)
    share = max(_length(deserved, top), filled)
    bar = list("█" * own + "▓" * (filled - own) + "░" * (share - filled) + "·" * (BAR - share))
    guarantee = _length(item["guarantee"].get(CARDS, 0), top)
    if 0 < guarantee < BAR:
        bar[guarantee] = "|"
    over = used > deserved
    return Cell("".join(bar), "yellow" if over else "green")


def _length(amount: int, top: int) -> int:
    """Characters of `amount` in a bar that is `top` long; something is never nothing."""
    if amount <= 0:
        return 0
    return max(1, min(BAR, amount * BAR // top))


def _jobs(session: Session, view: PoolView) -> None:
    for key, columns, jobs in (("running", RUNNING, view["running"]), ("waiting", WAITING, view["waiting"])):
        session.output.line()
        if not jobs:
            session.output.line(session.texts(f"queue.none_{key}"))
            continue
        session.output.heading(session.texts(f"queue.{key}", count=len(jobs)))
        make = _running_row if key == "running" else _waiting_row
        session.output.table(columns, [make(session, job) for job in jobs])


def _name(session: Session, job: PoolJob) -> str:
    return job["name"] or session.texts("word.hidden")


def _running_row(session: Session, job: PoolJob) -> list[Cell | str]:
    return [
        _name(session, job),
        state(session.texts, job["state"]),
        owner(job["tenant"], job["user"]),
        job["queue"],
        cards(job["milli"]),
        age(job["since"], session.now()),
        session.texts.word("rank", job["rank"] or ""),
        " ".join(job["placed"]),
    ]


def _waiting_row(session: Session, job: PoolJob) -> list[Cell | str]:
    return [
        str(job["pool_position"] or ""),
        _name(session, job),
        owner(job["tenant"], job["user"]),
        job["queue"],
        cards(job["milli"]),
        age(job["since"], session.now()),
        session.texts.word("rank", job["rank"] or ""),
        _eta(session, job),
        reason_short(session.texts, job["reason"]) if job["reason"] else "",
    ]


def _eta(session: Session, job: PoolJob) -> str:
    """When it should start: the middle, and between when and when eight of ten such jobs do."""
    eta, now = job.get("forecast"), session.now()
    if not eta:
        return ""
    late = until(eta["p90"], now) if eta["p90"] else "…"
    return f"{until(eta['p50'], now)} ({until(eta['p10'], now)}–{late})"
