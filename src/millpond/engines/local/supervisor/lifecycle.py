"""From keeper to facts: ranks start, get ready, end; an attempt has ended when every process of it is dead."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from pathlib import Path

from .attempts import CHECKPOINTED, EVICTED, EXITED, READY, START_FAILED, STARTED, Attempt, Exit, Rank
from .cgroups import NoGroups
from .checkpoints import newest
from .child import Launch
from .core import Core
from .draining import doom, doom_tick, drain_apply, kill_tree, rank_catch_up, rank_signal
from .files import read_whole
from .index import log_path
from .keeper import FILES, KEEPER, MAIN, STATUS, keeper_fork, rank_file
from .orders import attempt_prepare, mark_value, rank_launch
from .probe import Probe
from .process import descendants, kill, marked, now_ms, parents, pidfd_open

FORKS_MAX = 3
FORK_AGAIN_MS = 50
CLOSE_AGAIN_MS = 10
GANG_GRACE_MS = 5000
SAVED_WAIT_MS = 30_000
SAVED_CODE = 75
PROBE_MS = 100
LOG_TAIL = 300
AGAIN_MS = 50


def attempt_launch(core: Core, attempt: Attempt) -> None:
    """Start, or after a restart take up again, every rank of a live attempt."""
    try:
        attempt_prepare(core, attempt)
    except OSError as error:
        for rank in attempt.ranks:
            rank_end(core, attempt, rank, Exit(None, now_ms(), False, f"{error.filename}: {error.strerror}"))
        return
    for rank in attempt.ranks:
        rank_take(core, attempt, rank)


def attempt_adopt(core: Core, attempt: Attempt) -> None:
    """After a restart of the supervisor: what the journal says, then what the keepers' files say."""
    if attempt.boot != core.boot:
        for rank in attempt.ranks:
            status = read_whole(_file(core, attempt, rank, STATUS))
            unknown = Exit(None, now_ms(), True, "the machine was restarted")
            rank_end(core, attempt, rank, _exit(status) if status else unknown)
        return
    # Without control groups, commands beside it (exec) may have lost their helper together with our predecessor.
    attempt.sweep = isinstance(core.groups, NoGroups)
    attempt_launch(core, attempt)
    drain_apply(core, attempt)
    if attempt.doomed:
        doom_tick(core, attempt)
    ready_watch(core, attempt)


def _file(core: Core, attempt: Attempt, rank: Rank, kind: str) -> Path:
    return rank_file(core.rank_base(attempt.id, rank.number), kind)


def rank_take(core: Core, attempt: Attempt, rank: Rank) -> None:
    """Take up a rank whose keeper has claimed it; start a keeper if none has."""
    if rank.exit is not None or core.live(attempt.id) is not attempt:
        return
    keeper = read_whole(_file(core, attempt, rank, KEEPER))
    if keeper is None:
        _fork(core, attempt, rank)
        return
    descriptor = pidfd_open(keeper["pid"], keeper["start"])
    rank.keeper = keeper["pid"]
    main_seen(core, attempt, rank)
    if descriptor is None:
        rank_gone(core, attempt, rank)
    else:
        _watch(core, attempt, rank, descriptor)


def _fork(core: Core, attempt: Attempt, rank: Rank) -> None:
    if attempt.doomed or rank.forks >= FORKS_MAX:
        rank_end(core, attempt, rank, Exit(None, now_ms(), False, "its keeper was killed before it began"))
        return
    launch = rank_launch(core, attempt, rank)
    try:
        rank.keeper, descriptor = core.standby.start(attempt.group, launch) or _keeper_fork(launch)
    except OSError:
        core.later(FORK_AGAIN_MS, lambda: rank_take(core, attempt, rank))
        return
    rank.forks += 1
    _watch(core, attempt, rank, descriptor)


def _keeper_fork(launch: Launch) -> tuple[int, int]:
    """pid and pidfd of a new keeper."""
    pid = keeper_fork(launch)
    return pid, os.pidfd_open(pid)


def _watch(core: Core, attempt: Attempt, rank: Rank, descriptor: int) -> None:
    rank.keeper_fd = descriptor
    core.watch(descriptor, lambda _: _keeper_ended(core, attempt, rank))


def _keeper_ended(core: Core, attempt: Attempt, rank: Rank) -> None:
    core.unwatch(rank.keeper_fd)
    os.close(rank.keeper_fd)
    rank.keeper_fd = -1
    main_seen(core, attempt, rank)
    rank_gone(core, attempt, rank)


def rank_gone(core: Core, attempt: Attempt, rank: Rank) -> None:
    """No keeper runs that we know of: what has it left?"""
    status = read_whole(_file(core, attempt, rank, STATUS))
    if status is not None:
        rank_end(core, attempt, rank, _exit(status))
        return
    keeper = read_whole(_file(core, attempt, rank, KEEPER))
    if keeper is None or keeper["pid"] != rank.keeper:
        rank_take(core, attempt, rank)
        return
    attempt.sweep = True
    rank_end(core, attempt, rank, Exit(None, now_ms(), True, "its keeper was killed"))


def _exit(status: dict[str, object]) -> Exit:
    code, time_ms = status["code"], status["time_ms"]
    assert isinstance(code, int)  # noqa: S101 - for the type checker; our own file
    assert isinstance(time_ms, int)  # noqa: S101
    return Exit(code, time_ms, bool(status["began"]), str(status["detail"]))


def main_seen(core: Core, attempt: Attempt, rank: Rank) -> None:
    """A rank's main process runs, or ran: STARTED when all do."""
    if rank.main_since_ms:
        return
    main = read_whole(_file(core, attempt, rank, MAIN))
    if main is None:
        return
    rank.main, rank.main_since_ms = main["pid"], main["time_ms"]
    rank.main_fd = (pidfd_open(main["pid"], main["start"]) if main["pid"] else None) or -1
    if not attempt.started and all(other.main_since_ms for other in attempt.ranks):
        since = max(other.main_since_ms for other in attempt.ranks)
        core.fact(STARTED, attempt.id, time_ms=since, detail=",".join(map(str, attempt.ports)))
        ready_watch(core, attempt)
    core.after(lambda: rank_catch_up(core, attempt, rank))


def rank_end(core: Core, attempt: Attempt, rank: Rank, ending: Exit) -> None:
    rank.exit = ending
    if rank.main_fd >= 0:
        os.close(rank.main_fd)
        rank.main_fd = -1
    if attempt.finished:
        core.after(lambda: attempt_close(core, attempt))
    elif ending.code != 0 or attempt.order["service"]:
        _gang_ends(core, attempt, ending)


def _gang_ends(core: Core, attempt: Attempt, ending: Exit) -> None:
    """One rank is gone, so the others wait for nobody: TERM, then KILL.  Ranks that save may take longer over it."""
    if attempt.gang_ms is not None:
        return
    wait = SAVED_WAIT_MS if ending.code == SAVED_CODE or attempt.drain is not None else 0
    attempt.gang_ms = now_ms() + wait

    def term() -> None:
        for rank in attempt.ranks:
            rank_signal(attempt, rank, signal.SIGTERM)
        core.later(GANG_GRACE_MS, finish)

    def finish() -> None:
        if core.live(attempt.id) is attempt and not attempt.closing:
            kill_tree(core, attempt)
            core.later(GANG_GRACE_MS, finish)

    core.later(wait, term)


def ready_watch(core: Core, attempt: Attempt) -> None:
    """READY for services: at once without a path to ask, else when every rank has answered 2xx."""
    order = attempt.order
    path = order["ready_path"]
    if attempt.ready or not attempt.started or attempt.probing or not (order["service"] or path):
        return
    if not path:
        core.fact(READY, attempt.id)
        return
    attempt.probing = True
    since = max(rank.main_since_ms for rank in attempt.ranks)
    core.at(since + order["ready_timeout"] * 1000, lambda: _ready_late(core, attempt))
    for rank in attempt.ranks:
        _probe(core, attempt, rank, path)


def _ready_late(core: Core, attempt: Attempt) -> None:
    if core.live(attempt.id) is attempt and not attempt.ready and not attempt.finished:
        doom(core, attempt, "not ready in time")


def _probe(core: Core, attempt: Attempt, rank: Rank, path: str) -> None:
    if core.live(attempt.id) is not attempt or rank.exit is not None or attempt.doomed:
        return

    def done(ready: bool) -> None:
        if core.live(attempt.id) is not attempt:
            return
        if not ready:
            core.later(PROBE_MS, lambda: _probe(core, attempt, rank, path))
            return
        rank.ready = True
        if all(other.ready for other in attempt.ranks) and not attempt.finished and not attempt.ready:
            core.fact(READY, attempt.id)

    Probe(core.selector, rank.port, path, done)


def checkpoint_look(core: Core, attempt: Attempt) -> None:
    """Report the newest checkpoint if it is newer than the last one reported."""
    mark, name = newest(attempt.order["checkpoint_dir"])
    if mark > attempt.mark:
        core.fact(CHECKPOINTED, attempt.id, mark=mark, detail=name)


def attempt_close(core: Core, attempt: Attempt) -> None:
    """Every rank's keeper is gone.  End the attempt when nothing else of it is left."""
    if core.live(attempt.id) is not attempt:
        return
    attempt.closing = True
    core.standby.drop(attempt.group)
    if _remains(core, attempt):
        core.later(CLOSE_AGAIN_MS, lambda: attempt_close(core, attempt))
        return
    checkpoint_look(core, attempt)
    failed = attempt.first_failure()
    last = max((rank.exit.time_ms for rank in attempt.ranks if rank.exit), default=now_ms())
    ending = failed.exit if failed is not None and failed.exit is not None else Exit(0, last, True)
    hard = attempt.hard_ms()
    natural = hard is None or ending.time_ms < hard
    if attempt.boot != core.boot and ending.code is None:
        core.fact(EVICTED, attempt.id, time_ms=last, code=None, natural=False, detail=ending.detail)
    elif not ending.began and natural:
        detail = " ".join(filter(None, (ending.detail, _log_tail(attempt, failed))))
        core.fact(START_FAILED, attempt.id, code=ending.code, natural=True, detail=detail)
    else:
        detail = attempt.reason or ending.detail
        if core.groups.out_of_memory(attempt.group):
            detail = f"out of memory: the limit is {attempt.order['memory']} MiB"
        core.fact(EXITED, attempt.id, time_ms=last, code=ending.code, natural=natural, detail=detail)
    core.ports.release([*attempt.ports, attempt.master_port])
    core.after(lambda: leftovers_remove(core, attempt))


def _remains(core: Core, attempt: Attempt) -> bool:
    """Kill what is left of the attempt; whether anything was."""
    left = core.groups.pids(attempt.group)
    if left:
        core.groups.kill(attempt.group)
    for descriptor in attempt.sessions.values():
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, signal.SIGTERM)
    if attempt.sweep:
        left = [*left, *_stray(core, attempt)]
        for pid in left:
            kill(pid)
    return bool(left or attempt.sessions)


def _stray(core: Core, attempt: Attempt) -> list[int]:
    """Processes without a keeper: by the mark in their environment, and orphans that came to us."""
    keepers = {rank.keeper for other in core.memory.live.values() for rank in other.ranks} | core.standby.pids
    helpers = {pid for other in core.memory.live.values() for pid in other.sessions}
    table = parents()
    orphans = [pid for pid, parent in table.items() if parent == os.getpid() and pid not in keepers | helpers]
    below = [pid for orphan in orphans for pid in descendants(orphan, table)]
    mark = f"MILLPOND_MARK={mark_value(core, attempt.id)}".encode()
    return list({*marked(mark), *orphans, *below} - keepers - helpers)


def _log_tail(attempt: Attempt, rank: Rank | None) -> str:
    if rank is None:
        return ""
    path = log_path(attempt.order["log_dir"], attempt.id, rank.number)
    with contextlib.suppress(OSError):
        return path.read_bytes()[-LOG_TAIL:].decode(errors="replace").strip()
    return ""


def leftovers_remove(core: Core, attempt: Attempt) -> None:
    """Files and control group of an attempt that has ended."""
    for rank in attempt.ranks:
        for kind in FILES:
            _file(core, attempt, rank, kind).unlink(missing_ok=True)
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(core.notice_dir(attempt.id))
    group_remove(core, attempt.group)


def group_remove(core: Core, group: str) -> None:
    """Take a control group away, as soon as it is empty."""
    if not core.groups.remove(group):
        core.later(AGAIN_MS, lambda: group_remove(core, group))
