"""Start orders: are they sound, what folders and environment do they need, how a rank's keeper is told to run them."""

from __future__ import annotations

import errno
import json
import os
import pwd
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .attempts import Attempt, Rank, Record
from .cgroups import Limits
from .checkpoints import newest
from .child import LOG_BYTES, READY_DESCRIPTOR, Launch
from .core import Core
from .folders import PASS_MODE, Folder, folder_make, folders_make
from .index import attempt_valid, log_path
from .sandbox import NOTICE_DIR, View, bwrap_arguments, device_paths
from .script import COMMAND_BYTES, SHELL, script_make, shell_arguments

DEADLINE_NAME = "deadline"
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
STANDBY_MIB = 64

Answer = Callable[[Record], None]


class Problem(Exception):
    """An answer that is an error: ``kind`` is retry, refused or lost."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def order_start(core: Core, order: Record, launch: Callable[[Attempt], None]) -> Callable[[], None]:
    """Record an order; what is returned is to be done once it is on disk.  A known attempt is left alone."""
    _check(core, order)
    attempt_id = order["attempt"]
    if core.live(attempt_id) is not None or core.index.get(attempt_id) is not None:
        return lambda: None
    _folders(order)
    ports = _ports(core, order)
    core.record(
        {
            "r": "order",
            "order": order,
            "ports": ports[1:],
            "master_port": ports[0],
            "boot": core.boot,
            "group": _standby(core, order),
            "started": False,
            "ready": False,
            "mark": newest(order["checkpoint_dir"])[0],
        }
    )
    attempt = core.memory.live[attempt_id]
    return lambda: launch(attempt)


def attempt_prepare(core: Core, attempt: Attempt) -> None:
    """What an attempt needs beside its order, made again after a restart: index, folders, control group."""
    order = attempt.order
    core.index.put(attempt.id, order["log_dir"])
    if _sandboxed(core, order):
        folder_make(core.notice_dir(attempt.id), PASS_MODE)
    if not core.standby.has(attempt.group):
        core.groups.make(attempt.group)
    core.groups.limit(attempt.group, _limits(order))


def _limits(order: Record) -> Limits:
    return Limits() if order["simulated"] else Limits(order["cpu"], order["memory"])


def _standby(core: Core, order: Record) -> str:
    """The control group of a keeper on standby, for an order that one can take: a single rank, and room for what waits
    in the group already."""
    if len(order["ranks"]) > 1 or 0 < _limits(order).memory < STANDBY_MIB:
        return ""
    return core.standby.reserve()


def _check(core: Core, order: Record) -> None:
    if order["epoch"] < core.memory.epoch:
        raise Problem("refused", f"the order is of epoch {order['epoch']}, and {core.memory.epoch} has begun")
    if not attempt_valid(order["attempt"]):
        raise Problem("refused", f"{order['attempt']!r} is not an attempt id")
    if not order["commands"] or not order["ranks"]:
        raise Problem("refused", "an order needs a command and a rank")
    text = "\n".join(order["commands"])
    if len(text.encode()) > COMMAND_BYTES or "\0" in text:
        raise Problem("refused", f"the commands are longer than {COMMAND_BYTES} bytes or hold a NUL")
    if any("\0" in name + value or not name or "=" in name for name, value in order["env"]):
        raise Problem("refused", "an environment variable holds a NUL or has no proper name")
    for name in ("work_dir", "work_root", "checkpoint_dir", "log_dir"):
        if not Path(order[name] or "/").is_absolute() or ".." in Path(order[name]).parts or "\0" in order[name]:
            raise Problem("refused", f"{name} must be an absolute path without '..'")
    if not Path(order["work_dir"]).is_relative_to(work_root(order)):
        raise Problem("refused", "work_dir is not inside work_root")
    if f"SIG{order['warning_signal']}" not in signal.Signals.__members__:
        raise Problem("refused", f"there is no signal {order['warning_signal']!r}")


def _folders(order: Record) -> None:
    uid = _uid(order)
    try:
        mine = dict.fromkeys((work_root(order), order["work_dir"], order["checkpoint_dir"]))
        folders_make((*(Folder(Path(place), 0o700, uid) for place in mine), Folder(Path(order["log_dir"]), 0o750)))
    except OSError as error:
        kind = "retry" if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EIO} else "refused"
        raise Problem(kind, f"cannot make {error.filename}: {error.strerror}") from error


def _ports(core: Core, order: Record) -> list[int]:
    """Port of rank 0's rendezvous, then one per rank."""
    wanted = [0, *(rank["port"] for rank in order["ranks"])]
    ports = [port or core.ports.take() for port in wanted]
    if 0 in ports:
        core.ports.release(ports)
        raise Problem("retry", "no port is free")
    return ports


def work_root(order: Record) -> str:
    """The folder that a job may write and calls its home."""
    return str(order["work_root"] or order["work_dir"])


def _uid(order: Record) -> int:
    """The user to become; 0: stay."""
    return int(order["tenant_uid"]) if os.geteuid() == 0 else 0


def _sandboxed(core: Core, order: Record) -> bool:
    return bool(order["isolated"]) and core.sandbox.works


def rank_launch(core: Core, attempt: Attempt, rank: Rank) -> Launch:
    """How to run one rank."""
    order = attempt.order
    sandboxed = _sandboxed(core, order)
    commands, signal_name = tuple(order["commands"]), order["warning_signal"]
    announce = READY_DESCRIPTOR if sandboxed else -1
    script = script_make(commands, signal_name, announce=announce, folder=order["work_dir"])
    words = shell_arguments(script)
    program = SHELL
    if sandboxed:
        words = [*bwrap_arguments(core.sandbox, _view(core, attempt, rank), _uid(order)), *words]
        program = words[0]
    return Launch(
        attempt=attempt.id,
        rank=rank.number,
        base=core.rank_base(attempt.id, rank.number),
        run_dir=core.run_dir,
        program=program,
        arguments=tuple(words),
        env=rank_env(core, attempt, rank),
        work_dir=order["work_dir"],
        log=log_path(order["log_dir"], attempt.id, rank.number),
        uid=_uid(order),
        sandboxed=sandboxed,
        doors=tuple(core.groups.doors(attempt.group)),
        log_bytes=LOG_BYTES,
    )


def _view(core: Core, attempt: Attempt, rank: Rank) -> View:
    order = attempt.order
    devices = () if order["simulated"] else device_paths(tuple(rank.order["cards"]), tuple(rank.order["uuids"]))
    return View(
        writable=(work_root(order), order["checkpoint_dir"]),
        notice_dir=str(core.notice_dir(attempt.id)),
        devices=devices,
        shm=order["shm"],
    )


def rank_env(core: Core, attempt: Attempt, rank: Rank) -> dict[str, str]:
    """The whole environment of a rank: ours below, the order's over it, and what only the engine knows on top."""
    order, own = attempt.order, rank.order
    beside = [other for other in attempt.ranks if other.node == rank.node]
    user = order["tenant"] if _uid(order) else _user_name()
    env = {
        "PATH": DEFAULT_PATH,
        "LANG": "C.UTF-8",
        "HOME": work_root(order),
        "SHELL": SHELL,
        "USER": user,
        "LOGNAME": user,
        "MILLPOND_CHECKPOINT_DIR": order["checkpoint_dir"],
    }
    env.update(dict(order["env"]))
    notice = NOTICE_DIR if _sandboxed(core, order) else str(core.notice_dir(attempt.id))
    visible = own["uuids"] or [str(card) for card in own["cards"]]
    env.update(
        {
            "PWD": order["work_dir"],
            "RANK": str(rank.number),
            "WORLD_SIZE": str(len(attempt.ranks)),
            "LOCAL_RANK": str(own["local_rank"]),
            "LOCAL_WORLD_SIZE": str(len(beside)),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(attempt.master_port),
            "CUDA_VISIBLE_DEVICES": "" if order["simulated"] else ",".join(visible),
            "MILLPOND_RANK": str(rank.number),
            "MILLPOND_NODE": rank.node,
            "MILLPOND_PORT": str(rank.port),
            "MILLPOND_CARD_MILLI": str(own["milli"]),
            "MILLPOND_DEADLINE_FILE": f"{notice}/{DEADLINE_NAME}",
            "MILLPOND_MARK": mark_value(core, attempt.id),
        }
    )
    if own["slices"]:
        env["MILLPOND_SLICES"] = ",".join(own["slices"])
    return env


def mark_value(core: Core, attempt: str) -> str:
    """Marks every process of an attempt, among all supervisors of this machine."""
    return f"{core.mark}/{attempt}"


def _user_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


_FIELDS: dict[str, type] = {
    "attempt": str, "epoch": int, "tenant": str, "tenant_uid": int, "commands": list, "env": list, "ranks": list,
    "work_dir": str, "work_root": str, "checkpoint_dir": str, "log_dir": str, "cpu": int, "memory": int, "shm": int,
    "isolated": bool, "simulated": bool, "warning_signal": str, "ready_path": str, "ready_timeout": int,
    "service": bool,
}  # fmt: skip
_RANK_FIELDS: dict[str, type] = {
    "rank": int, "local_rank": int, "node": str, "cards": list, "uuids": list, "milli": int, "slices": list,
    "port": int,
}  # fmt: skip


def order_complete(order: Any) -> Record:
    """The order as it came over the socket, with the shape that everything after it relies on.  Raises `Problem`."""
    _shape(order, _FIELDS, "order")
    for rank in order["ranks"]:
        _shape(rank, _RANK_FIELDS, "rank")
        words = [*rank["uuids"], *rank["slices"]]
        if not all(isinstance(word, str) for word in words) or not all(isinstance(card, int) for card in rank["cards"]):
            raise Problem("refused", "a rank's cards, uuids or slices are malformed")
        if rank["uuids"] and len(rank["uuids"]) != len(rank["cards"]):
            raise Problem("refused", f"rank {rank['rank']} has {len(rank['cards'])} cards, but other uuids")
    if len({rank["rank"] for rank in order["ranks"]}) != len(order["ranks"]):
        raise Problem("refused", "two ranks have one number")
    if not all(isinstance(command, str) for command in order["commands"]):
        raise Problem("refused", "a command is no text")
    for pair in order["env"]:
        if not (isinstance(pair, list) and len(pair) == 2 and all(isinstance(word, str) for word in pair)):
            raise Problem("refused", "the environment is malformed")
    order_text = json.dumps(order, ensure_ascii=False)
    if any("\ud800" <= letter <= "\udfff" for letter in order_text):
        raise Problem("refused", "the order holds text that is not valid Unicode")
    return dict(order)


def _shape(value: Any, fields: dict[str, type], what: str) -> None:
    if not isinstance(value, dict):
        raise Problem("refused", f"the {what} is no object")
    for name, kind in fields.items():
        if not isinstance(value.get(name), kind):
            raise Problem("refused", f"the {what}'s {name} is missing or no {kind.__name__}")
