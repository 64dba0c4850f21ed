"""From files and options to worlds that can be run: snapshot files, traces with a pool, and variants of both."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC

from millpond.cli.offline.inputs import InputFile, input_open
from millpond.cli.offline.runs import Case
from millpond.cli.session import Session
from millpond.domain.amounts import duration_parse, milli_parse
from millpond.domain.errors import InvalidInput, Position
from millpond.domain.nodes import NodeSpec
from millpond.files.nodes import sim_parse
from millpond.files.overrides import Override, override_parse, overrides_parse
from millpond.files.snapshot_jobs import Clock
from millpond.files.snapshots import SnapshotFile, snapshot_read, snapshot_write
from millpond.files.traces.kubernetes import kubernetes_nodes_read
from millpond.files.traces.openb import openb_nodes_read
from millpond.files.traces.read import NODES, trace_read
from millpond.files.traces.trace import Trace
from millpond.files.traces.world import Window, pool_derive, trace_cut, trace_span, world_make
from millpond.files.tree import SNAPSHOT_FILE_LIMIT, Node, tree_from_yaml
from millpond.simulation.comparison import BASELINE

DAY = 86_400
MAX_UNTIL = 10 * 365 * DAY
MAX_NAME = 60
DERIVED = "the derived pool"

_SIM = re.compile(r"\d+x\d+x[^/]+\Z")


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options that say what is run."""

    file: str
    format: str | None = None
    pool: str = ""
    queue: str = ""
    speed: str = ""
    limit: int | None = None
    checkpoint_every: str = ""
    begin: str = ""
    until: str = ""
    sets: tuple[str, ...] = ()
    add_nodes: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    checked: bool = True


@dataclass(slots=True)
class Source:
    """The tree of a snapshot file, or of a trace's pool with the trace."""

    tree: Node
    trace: Trace | None = None
    queue: str = ""
    checkpoint_every: int | None = None
    warned: set[str] = field(default_factory=set)

    def world(self, session: Session, overrides: Sequence[Override] = ()) -> SnapshotFile:
        """A variant; warnings about its queues go to stderr once."""
        loaded = snapshot_read(self.tree, overrides)
        if self.trace is not None:
            loaded = world_make(self.trace, loaded, self.queue, self.checkpoint_every)
        for warning in loaded.warnings:
            if warning not in self.warned:
                self.warned.add(warning)
                session.output.note(session.texts("plan.warning", text=warning), "yellow")
        return loaded


def cases_read(session: Session, wanted: Wanted) -> list[Case]:
    """The baseline and every ``--case``, all read and checked before anything runs."""
    until = _until(wanted.until)
    common = changes_read(wanted.sets, wanted.add_nodes)
    named = [_case(text, number) for number, text in enumerate(wanted.cases, 1)]
    _names_check([name for name, _ in named])
    source = source_read(session, wanted)
    cases = []
    for name, changes in [(BASELINE, ()), *named]:
        world = source.world(session, (*common, *changes))
        seconds = until or (DAY if source.trace is None else trace_span(world))
        cases.append(Case(name, tuple(change.text for change in (*common, *changes)), world, seconds, wanted.checked))
    return cases


def changes_read(sets: Sequence[str], add_nodes: Sequence[str] = ()) -> tuple[Override, ...]:
    """``--set`` and ``--add-nodes``, in this order."""
    found = [override_parse(text, "--set", number) for number, text in enumerate(sets, 1)]
    prefix = "nodes.+"
    for number, text in enumerate(add_nodes, 1):
        count = text.partition("=")[0].strip()
        if not count.isascii() or not count.isdigit() or not int(count):
            raise InvalidInput(
                f"{count[:80]!r} is not a number of nodes",
                hint="write 2, or 2=n1 for two like n1",
                position=Position(number, 1, "", "--add-nodes"),
            )
        # Columns count in what was written, which is the path without its beginning.
        found.append(override_parse(prefix + text.strip(), "--add-nodes", number, 1 - len(prefix)))
    return tuple(found)


def source_read(session: Session, wanted: Wanted) -> Source:
    """The file of a command: a snapshot, or a trace with its pool."""
    found = input_open(wanted.file, wanted.format or "")
    if found.format == NODES:
        raise InvalidInput(f"{wanted.file} lists nodes, not jobs", hint=f"simulate PODS.csv --pool {wanted.file}")
    if found.format == "snapshot":
        _only_for_traces(wanted)
        return Source(tree_from_yaml(found.text(), found.source, SNAPSHOT_FILE_LIMIT))
    trace = _trace(session, found, wanted)
    saves = wanted.checkpoint_every
    every = _option("--checkpoint-every", saves, duration_parse) if saves else 0
    return Source(_pool(session, trace, wanted), trace, wanted.queue, every or None)


def _trace(session: Session, found: InputFile, wanted: Wanted) -> Trace:
    trace = trace_read(found.lines(), found.source, found.format)
    for why, count in trace.skipped.items():
        session.output.note(session.texts("simulate.skipped", count=count, why=why), "yellow")
    first = trace.jobs[0].submitted
    clock = Clock(first, UTC, absolute=trace.absolute)
    begin = _option("--from", wanted.begin, clock.parse) if wanted.begin else None
    speed = _option("--speed", wanted.speed, lambda text: milli_parse(text, "speed")) if wanted.speed else 1000
    if not speed:
        raise InvalidInput("--speed 0 would stop time", hint="2 lets jobs arrive twice as fast")
    until = _until(wanted.until)
    end = (first if begin is None else begin) + until * speed // 1000 + 1 if until else None
    return trace_cut(trace, Window(begin, end, wanted.limit, speed))


def _pool(session: Session, trace: Trace, wanted: Wanted) -> Node:
    """The tree of the pool's file, or of one derived from the trace (and nodes that were named)."""
    nodes: tuple[NodeSpec, ...] = ()
    if wanted.pool:
        if _SIM.match(wanted.pool):
            nodes = sim_parse(wanted.pool, "--pool")
        else:
            found = input_open(wanted.pool)
            if found.format == "snapshot":
                return tree_from_yaml(found.text(), found.source, SNAPSHOT_FILE_LIMIT)
            nodes = _nodes_read(found)
    derived = pool_derive(trace, nodes)
    cards = sum(state.spec.cards.count for state in derived.nodes if state.spec.cards)
    if not nodes and not trace.nodes:
        session.output.note(session.texts("simulate.derived", nodes=len(derived.nodes), cards=cards))
    return tree_from_yaml(snapshot_write(derived), DERIVED, SNAPSHOT_FILE_LIMIT)


def _nodes_read(found: InputFile) -> tuple[NodeSpec, ...]:
    if found.format == NODES:
        return openb_nodes_read(found.lines(), found.source)
    if found.format == "kubernetes":
        return kubernetes_nodes_read("".join(found.lines()), found.source)
    raise InvalidInput(
        f"{found.path} is a trace of jobs, not a pool",
        hint="give --pool a snapshot file, a list of nodes, or 8x8xA800-80GB",
    )


def _only_for_traces(wanted: Wanted) -> None:
    given = {
        "--pool": wanted.pool,
        "--queue": wanted.queue,
        "--speed": wanted.speed,
        "--limit": wanted.limit,
        "--checkpoint-every": wanted.checkpoint_every,
        "--from": wanted.begin,
    }
    for name, value in given.items():
        if value:
            raise InvalidInput(
                f"{name} is for traces; {wanted.file} is a snapshot with its own nodes, queues and jobs",
                hint="change it with --set",
            )


def _until(text: str) -> int:
    """Seconds; 0 if nothing was said."""
    seconds = _option("--until", text, duration_parse) if text else 0
    if text and not 1 <= seconds <= MAX_UNTIL:
        raise InvalidInput(f"--until {text} is not between 1s and ten years", hint="such as 24h or 7d")
    return seconds


def _option(name: str, text: str, parse: Callable[[str], int]) -> int:
    """A value that errors name by its option."""
    try:
        return parse(text)
    except InvalidInput as error:
        raise error.at(Position(0, 0, "", name)) from error


def _case(text: str, number: int) -> tuple[str, tuple[Override, ...]]:
    """``NAME: PATH=VALUE, …``; without a name the changes are the name."""
    name, colon, rest = text.partition(":")
    if not colon or "=" in name or name.lstrip().startswith("nodes.+"):
        name, rest, column = "", text, 1
    else:
        column = len(name) + 2
    changes = overrides_parse(rest, "--case", number, column)
    if not changes:
        raise InvalidInput(
            f"--case {text!r} changes nothing", hint="write 'more: queues.factor/batch.cap=48, nodes.+2'"
        )
    label = " ".join(name.split()) or ", ".join(change.text for change in changes)
    return label if len(label) <= MAX_NAME else label[: MAX_NAME - 1] + "…", changes


def _names_check(names: Sequence[str]) -> None:
    seen = {BASELINE}
    for name in names:
        if name in seen:
            raise InvalidInput(f"two runs are called {name!r}", hint="name each: --case 'NAME: PATH=VALUE'")
        seen.add(name)
