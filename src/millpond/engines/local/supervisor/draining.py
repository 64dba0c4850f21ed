"""Signals and deadlines: warning, TERM 5 s before the deadline, KILL of the whole tree at it."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable
from functools import partial

from .attempts import CARD_FAULT, NODE_LOST, Attempt, Drain, Rank, drain_record, sent_record
from .core import Core
from .files import write_text_whole
from .folders import PASS_MODE, folder_make
from .orders import DEADLINE_NAME, Problem
from .process import kill, now_ms, parents, pidfd_signal
from .script import shell_running, traps

AGAIN_MS = 200


def drain(core: Core, attempt: Attempt, what: str, deadline_ms: int, reason: str = "") -> None:
    """Begin to drain, or move the deadline nearer; a later one changes nothing."""
    if attempt.drain is not None and attempt.drain.deadline_ms <= deadline_ms:
        return
    begun = attempt.drain.begun_ms if attempt.drain else now_ms()
    attempt.drain = Drain(what, begun, max(deadline_ms, 0))
    attempt.reason = attempt.reason or reason
    core.record(drain_record(attempt))
    core.after(lambda: drain_apply(core, attempt))


def drain_apply(core: Core, attempt: Attempt) -> None:
    """Deadline file, warning, timers.  Also after a restart; then the warning is not sent a second time."""
    plan = attempt.drain
    if plan is None:
        return
    if plan.deadline_ms > now_ms():
        path = core.notice_dir(attempt.id) / DEADLINE_NAME
        known = path.exists()
        with contextlib.suppress(OSError):
            folder_make(path.parent, PASS_MODE)
            write_text_whole(path, f"{plan.deadline_ms // 1000}\n", 0o644)
        if not known:
            warn(attempt, plan.what)
        attempt.warned = True
    drain_tick(core, attempt)


def drain_tick(core: Core, attempt: Attempt) -> None:
    """Whatever is due by now; comes back by itself for the rest."""
    plan = attempt.drain
    if plan is None or core.live(attempt.id) is not attempt:
        return
    now = now_ms()
    if now >= plan.deadline_ms:
        kill_tree(core, attempt)
        core.later(AGAIN_MS, lambda: drain_tick(core, attempt))
        return
    if now >= plan.term_ms:
        if not attempt.termed:
            attempt.termed = True
            for rank in attempt.ranks:
                rank_signal(attempt, rank, signal.SIGTERM)
        core.at(plan.deadline_ms, lambda: drain_tick(core, attempt))
    else:
        core.at(plan.term_ms, lambda: drain_tick(core, attempt))


def warn(attempt: Attempt, what: str) -> None:
    for rank in attempt.ranks:
        rank_signal(attempt, rank, signal.Signals[f"SIG{what}"])


def rank_catch_up(core: Core, attempt: Attempt, rank: Rank) -> None:
    """A rank whose main process appeared only now gets the signals that it missed."""
    plan = attempt.drain
    if attempt.doomed:
        kill_tree(core, attempt)
    elif plan is not None and attempt.warned and rank.main_since_ms >= plan.begun_ms:
        rank_signal(attempt, rank, signal.Signals[f"SIG{plan.what}"])
        if attempt.termed:
            rank_signal(attempt, rank, signal.SIGTERM)


def rank_signal(attempt: Attempt, rank: Rank, number: int) -> None:
    """To the main process; while that is still our shell, to its children too: it only survives a warning.  A script
    with traps of its own knows better what to do for its children."""
    if rank.main_fd < 0 or rank.exit is not None:
        return
    if not traps(attempt.order["commands"]) and shell_running(rank.main):
        for pid, parent in parents().items():
            if parent == rank.main:
                kill(pid, number)
    pidfd_signal(rank.main_fd, number)


def signal_send(core: Core, attempt: Attempt, what: str) -> None:
    """A signal outside any drain."""
    number = signal_number(what)
    if number in {signal.SIGTERM, signal.SIGKILL}:
        core.record(sent_record(attempt, now_ms()))
    for rank in attempt.ranks:
        core.after(partial(rank_signal, attempt, rank, number))


def signal_number(what: str) -> int:
    try:
        return signal.Signals[f"SIG{what.removeprefix('SIG')}"]
    except KeyError:
        raise Problem("refused", f"there is no signal {what!r}") from None


def kill_tree(core: Core, attempt: Attempt) -> None:
    """KILL everything of an attempt: its control group, then each keeper kills what it has left."""
    core.groups.kill(attempt.group)
    for rank in attempt.ranks:
        if rank.exit is None and rank.keeper_fd >= 0:
            pidfd_signal(rank.keeper_fd, signal.SIGTERM)
    for descriptor in attempt.sessions.values():
        pidfd_signal(descriptor, signal.SIGTERM)


def doom(core: Core, attempt: Attempt, reason: str) -> None:
    """Kill at once and for a reason, also across a restart."""
    attempt.doomed = True
    attempt.reason = attempt.reason or reason
    core.record(sent_record(attempt, now_ms()))
    core.after(lambda: doom_tick(core, attempt))


def doom_tick(core: Core, attempt: Attempt) -> None:
    if core.live(attempt.id) is attempt:
        kill_tree(core, attempt)
        core.later(AGAIN_MS, lambda: doom_tick(core, attempt))


def fault(core: Core, node: str, card: int | None, uses: Callable[[Attempt], bool]) -> None:
    """A simulated node is lost, or a card breaks: report it, then kill whatever used it, without warning."""
    if card is None:
        core.fact(NODE_LOST, node=node, detail="made on purpose")
    else:
        core.fact(CARD_FAULT, node=node, card=card, detail="made on purpose")
    for attempt in [known for known in core.memory.live.values() if uses(known)]:
        doom(core, attempt, f"node {node} was lost" if card is None else f"card {card} of {node} failed")
