"""What only real processes can show: isolation, environment, limits, logs, terminals, whole trees."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from millpond.engines.base import FactKind, Lost, RankOrder, Refused
from millpond.engines.fake import Behaviour
from tests.conformance.bench import LocalBench, Scenario, ended, until
from tests.conformance.conftest import TENANT_UID

STARTED = FactKind.STARTED

ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES", "HOME", "LANG", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "LOGNAME", "MASTER_ADDR", "MASTER_PORT",
    "MILLPOND_CARD_MILLI", "MILLPOND_CHECKPOINT_DIR", "MILLPOND_DEADLINE_FILE", "MILLPOND_MARK", "MILLPOND_NODE",
    "MILLPOND_PORT", "MILLPOND_RANK", "PATH", "PWD", "RANK", "SHELL", "USER", "WORLD_SIZE", "EPOCHS",
}  # fmt: skip


@pytest.fixture(params=["local", "sandbox", "unprivileged"])
def site(request: pytest.FixtureRequest) -> Iterator[LocalBench]:
    yield from _site(request, request.param)


@pytest.fixture(params=["sandbox", "unprivileged"])
def sandboxed(request: pytest.FixtureRequest) -> Iterator[LocalBench]:
    yield from _site(request, request.param)


@pytest.fixture(params=["local", "sandbox"])
def limited(request: pytest.FixtureRequest) -> Iterator[LocalBench]:
    """Where control groups limit memory."""
    for made in _site(request, request.param):
        notes = made.engine.capabilities().notes
        if not any(note.startswith("cgroup") and "memory" in note for note in notes):
            pytest.skip(f"needs control groups with memory: {notes}")
        yield made


def _site(request: pytest.FixtureRequest, kind: str) -> Iterator[LocalBench]:
    root: Path = request.getfixturevalue("unprivileged_root" if kind == "unprivileged" else "local_root")
    made = LocalBench(root, kind != "local", TENANT_UID if os.geteuid() == 0 else 0)
    notes = made.engine.capabilities().notes
    try:
        if made.isolated and "isolation: bubblewrap" not in notes:
            pytest.skip(f"bubblewrap does not work here: {notes}")
        yield made
    finally:
        made.engine.close()


def _run(site: LocalBench, attempt: str, *commands: str, **changes: object) -> str:
    """The output of rank 0 once the attempt has ended."""
    site.engine.start(site.order(attempt, Scenario(commands, Behaviour()), **changes))
    ended(site, attempt)
    return site.engine.logs(attempt, 0, 0, 1_000_000).data.decode()


def _start(site: LocalBench, attempt: str, *commands: str, **changes: object) -> None:
    site.engine.start(site.order(attempt, Scenario(commands, Behaviour()), **changes))
    until(site, attempt, STARTED)


def _wait(path: Path, limit_s: float = 10.0) -> str:
    """What a job wrote there."""
    end = time.monotonic() + limit_s
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < end, f"{path} was never written"
        time.sleep(0.01)
    return path.read_text()


def test_environment_is_the_order_s_and_nothing_else(
    site: LocalBench, attempt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILLPOND_DATABASE_URL", "postgresql://secret")
    output = _run(site, attempt, "env", env=(("EPOCHS", "3"), ("PATH", "/usr/bin:/bin")), ranks=2)
    names = dict(line.split("=", 1) for line in output.splitlines())
    assert set(names) == ENVIRONMENT
    assert (names["EPOCHS"], names["PATH"], names["CUDA_VISIBLE_DEVICES"]) == ("3", "/usr/bin:/bin", "")
    assert (names["RANK"], names["WORLD_SIZE"], names["LOCAL_WORLD_SIZE"]) == ("0", "2", "1")


def test_ports_are_the_ranks_own(site: LocalBench, attempt: str) -> None:
    _run(site, attempt, "echo $RANK $MILLPOND_PORT $MASTER_PORT $MILLPOND_NODE", ranks=2)
    first, second = (site.engine.logs(attempt, rank).data.decode().split() for rank in (0, 1))
    assert (first[0], first[3], second[0], second[3]) == ("0", "n1", "1", "n2")
    assert first[2] == second[2]
    assert len({first[1], second[1], first[2]}) == 3
    assert until(site, attempt, STARTED).detail == f"{first[1]},{second[1]}"


def test_user_and_rights(site: LocalBench, attempt: str) -> None:
    output = _run(site, attempt, "id -u; grep -E 'CapEff|NoNewPrivs|CapBnd' /proc/self/status; id -G")
    lines = dict(line.split(":\t") for line in output.splitlines() if ":" in line)
    uid = int(output.splitlines()[0])
    assert lines["CapEff"] == "0" * 16
    if os.geteuid() == 0:
        assert uid == (65_534 if "unprivileged" in attempt else TENANT_UID)
        assert lines["NoNewPrivs"] == "1"
    if "sandbox" in attempt and os.geteuid() == 0:
        assert lines["CapBnd"] == "0" * 16


def test_sandbox_hides_the_machine(sandboxed: LocalBench, attempt: str) -> None:
    secret = sandboxed.root / "jobs" / "other"
    secret.mkdir(mode=0o755, exist_ok=True)
    script = f"""
        ls /tmp | tr '\\n' :; echo :; touch /tmp/mine && echo tmp
        touch /usr/x 2>/dev/null || echo usr
        touch /etc/x 2>/dev/null || echo etc
        ls {secret} 2>/dev/null || echo jobs
        ls {sandboxed.root}/engine 2>/dev/null || echo engine
        ls {Path.home()}/.ssh {Path.home()}/.bashrc /home /var/lib 2>/dev/null || echo homes
        ls /dev/nvidia* /dev/vd* /dev/sd* 2>/dev/null || echo devices
        ls /proc | grep -c '^[0-9]'
        touch $HOME/a $MILLPOND_CHECKPOINT_DIR/b && echo writable
        ls -ld /dev/shm | cut -c1-10; pwd"""
    output = _run(sandboxed, attempt, script).split()
    processes = output.pop(output.index("devices") + 1)
    # A checkout below /tmp is shown, since the Python that runs millpond is in it.
    shown = {path.parts[2] for path in map(Path, (sys.prefix, sys.base_prefix)) if path.parts[1:2] == ("tmp",)}
    strangers = {name for name in output[0].split(":") if name and not name.startswith("millpond-engine-")}
    assert strangers <= shown
    assert output[1:-1] == ["tmp", "usr", "etc", "jobs", "engine", "homes", "devices", "writable", "drwxrwxrwt"]
    assert int(processes) < 10
    assert output[-1] == str(sandboxed.root / "jobs" / attempt / "work")


def test_shm_has_its_size(sandboxed: LocalBench, attempt: str) -> None:
    assert _run(sandboxed, attempt, "df -m --output=size /dev/shm | tail -1", shm=3).strip() == "3"


def test_working_dir_below_the_root_that_is_writable(site: LocalBench, attempt: str) -> None:
    work = site.root / "jobs" / attempt / "work"
    output = _run(
        site, attempt, "pwd; touch here ../../there && echo ok; echo $HOME", work_dir=f"{work}/a/b", work_root=str(work)
    )
    assert output.split() == [f"{work}/a/b", "ok", str(work)]


def test_memory_limit(limited: LocalBench, attempt: str) -> None:
    command = "/usr/bin/python3 -c 'x = bytearray(200 << 20)'"
    limited.engine.start(limited.order(attempt, Scenario((command,), Behaviour()), memory=50, simulated=False))
    last = ended(limited, attempt)
    assert last.code == 137
    assert last.detail == "out of memory: the limit is 50 MiB"


def test_limits_are_not_enforced_on_simulated_nodes(site: LocalBench, attempt: str) -> None:
    command = "/usr/bin/python3 -c 'x = bytearray(100 << 20); print(len(x))'"
    assert _run(site, attempt, command, memory=50).strip() == str(100 << 20)


def test_full_log_does_not_stop_the_job(site: LocalBench, attempt: str) -> None:
    command = "yes 0123456789abcdef | head -c 70000000; echo finished > done"
    site.engine.start(site.order(attempt, Scenario((command,), Behaviour())))
    assert ended(site, attempt, limit_ms=60_000).code == 0
    end = site.engine.logs(attempt, 0, 64 * 1024 * 1024 - 5, 1000)
    assert b"the log is full" in end.data
    assert site.engine.logs(attempt, 0, end.offset).data == b""
    assert (site.root / "jobs" / attempt / "work" / "done").read_text() == "finished\n"


def test_output_can_be_opened_by_name(site: LocalBench, attempt: str) -> None:
    assert _run(site, attempt, "echo out > /dev/stdout; echo err > /dev/stderr") == "out\nerr\n"


def test_deadline_file(site: LocalBench, attempt: str) -> None:
    work = site.root / "jobs" / attempt / "work"
    script = "trap 'cat $MILLPOND_DEADLINE_FILE > saw; exit 75' USR1; echo > ready; while :; do sleep 0.02; done"
    _start(site, attempt, "test ! -e $MILLPOND_DEADLINE_FILE", script)
    _wait(work / "ready")
    deadline = site.now_ms() + 30_000
    site.engine.signal(attempt, "USR1", deadline)
    assert ended(site, attempt).code == 75
    assert int((work / "saw").read_text()) == deadline // 1000


def test_warning_reaches_the_program_behind_a_shell(site: LocalBench, attempt: str) -> None:
    """`a && b` keeps the shell alive; the program it waits for gets the signal all the same."""
    program = (
        "import signal, sys, time; signal.signal(signal.SIGUSR1, lambda *_: sys.exit(75)); "
        "open('ready', 'w').write('x'); time.sleep(60)"
    )
    work = site.root / "jobs" / attempt / "work"
    _start(site, attempt, f'true && /usr/bin/python3 -c "{program}"')
    _wait(work / "ready")
    site.engine.stop(attempt, 20_000)
    last = ended(site, attempt)
    assert (last.code, last.natural) == (75, True)


def test_background_processes_end_with_the_job(site: LocalBench, attempt: str) -> None:
    begun = time.monotonic()
    site.engine.start(site.order(attempt, Scenario(("(setsid sleep 60 &) ; sleep 60 & true; exit 4",), Behaviour())))
    assert ended(site, attempt).code == 4
    assert time.monotonic() - begun < 10


def test_killed_keeper_ends_the_attempt(site: LocalBench, attempt: str) -> None:
    work = site.root / "jobs" / attempt / "work"
    script = "import os, time; os.fork(); os.setsid(); open(f'pid{os.getpid()}', 'w').write('x'); time.sleep(60)"
    _start(site, attempt, f'(/usr/bin/python3 -c "{script}" &); sleep 1; echo > ready; sleep 60')
    _wait(work / "ready")
    pids = next(status.pids for status in site.engine.recover() if status.attempt == attempt)
    keeper = (site.root / "engine" / "ranks" / f"{attempt}.0.keeper").read_text()
    os.kill(json.loads(keeper)["pid"], signal.SIGKILL)
    last = ended(site, attempt)
    assert (last.kind, last.code) == (FactKind.EXITED, None)
    mark = (site.root / "engine" / "engine.json").read_text().split('"')[3] + "/" + attempt
    assert not [path for path in Path("/proc").glob("[0-9]*/environ") if _holds(path, f"MILLPOND_MARK={mark}")]
    assert pids


def _holds(path: Path, text: str) -> bool:
    try:
        return text.encode() in path.read_bytes().split(b"\0")
    except OSError:
        return False


def test_what_cannot_be_made_is_a_failed_start(site: LocalBench, attempt: str) -> None:
    big = tuple((f"X{number}", "y" * 100_000) for number in range(30))
    site.engine.start(site.order(attempt, Scenario(("true",), Behaviour()), env=big))
    last = ended(site, attempt)
    assert last.kind is FactKind.START_FAILED
    assert "too long" in last.detail


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"work_dir": "relative"}, "absolute"),
        ({"log_dir": "/x/../y"}, "absolute"),
        ({"commands": ()}, "command"),
        ({"ranks": ()}, "rank"),
        ({"commands": ("x" * 200_000,)}, "longer"),
        ({"env": (("A=B", "c"),)}, "environment"),
        ({"env": (("A", "c\0"),)}, "environment"),
        ({"warning_signal": "NOPE"}, "NOPE"),
        ({"attempt": "../x"}, "attempt id"),
        ({"tenant": "\ud800"}, "Unicode"),
        ({"ranks": (RankOrder(0, 0, "n1", (0, 1), ("GPU-0",)),)}, "uuids"),
        ({"ranks": (RankOrder(0, 0, "n1", (0,)), RankOrder(0, 0, "n1", (1,)))}, "one number"),
    ],
)
def test_senseless_orders_are_refused(local_root: Path, attempt: str, changes: dict[str, object], text: str) -> None:
    site = LocalBench(local_root, False, 0)
    try:
        order = site.order(attempt, Scenario(("true",), Behaviour()))
        order = type(order)(**{**{name: getattr(order, name) for name in order.__slots__}, **changes})
        with pytest.raises(Refused, match=text):
            site.engine.start(order)
        with pytest.raises((Lost, Refused)):
            site.engine.signal(str(changes.get("attempt", attempt)), "USR1")
    finally:
        site.engine.close()


def test_exec_shares_the_rank_s_world(site: LocalBench, attempt: str) -> None:
    _start(site, attempt, "echo hi > /tmp/$RANK-$MILLPOND_PORT; sleep 60")
    time.sleep(0.1)
    script = "id -u; pwd; cat /tmp/$RANK-$MILLPOND_PORT; rm /tmp/$RANK-$MILLPOND_PORT; grep CapEff /proc/self/status"
    session = site.engine.exec(attempt, 0, ("sh", "-c", script))
    output = b""
    while data := session.read(10):
        output += data
    session.close()
    lines = output.decode().split()
    if os.geteuid() == 0:
        assert int(lines[0]) == (65_534 if "unprivileged" in attempt else TENANT_UID)
    assert lines[1:3] == [str(site.root / "jobs" / attempt / "work"), "hi"]
    assert lines[-1] == "0" * 16
    site.engine.stop(attempt, 0)
    ended(site, attempt)


_STAND_IN = """printf '#!/bin/sh\\necho stand-in ran\\n' > {0} && chmod 755 {0}"""


@pytest.mark.parametrize("program", ["setsid", "setpriv", "nsenter"])
def test_exec_runs_nothing_of_the_job_with_the_engine_s_rights(
    sandboxed: LocalBench, attempt: str, program: str
) -> None:
    work = sandboxed.root / "jobs" / attempt / "work"
    path = (("PATH", f"{work}:/usr/bin:/bin"),)
    _start(sandboxed, attempt, _STAND_IN.format(program), "echo a > ready", "sleep 60", env=path)
    _wait(work / "ready")
    session = sandboxed.engine.exec(attempt, 0, ("/bin/echo", "as asked"), tty=True)
    output = b""
    while data := session.read(10):
        output += data
    session.close()
    assert output.split() == [b"as", b"asked"]
    sandboxed.engine.stop(attempt, 0)
    ended(sandboxed, attempt)


def test_exec_does_not_follow_the_main_process_to_other_namespaces(sandboxed: LocalBench, attempt: str) -> None:
    work = sandboxed.root / "jobs" / attempt / "work"
    places = "/usr/bin/setpriv /usr/bin/id"
    inside = f"for place in {places}; do mount --bind fake $place || exit 1; done; echo a > ready; exec sleep 60"
    leave = "unshare --user --map-root-user --mount"
    script = f"if {leave} true; then exec {leave} sh -c '{inside}'; fi; echo a > ready; sleep 60"
    _start(sandboxed, attempt, f"{_STAND_IN.format('fake')}; {script}")
    _wait(work / "ready")
    session = sandboxed.engine.exec(attempt, 0, ("/usr/bin/id", "-u"))
    output = b""
    while data := session.read(10):
        output += data
    session.close()
    assert output.strip().isdigit(), output
    assert os.geteuid() != 0 or int(output) != 0
    sandboxed.engine.stop(attempt, 0)
    ended(sandboxed, attempt)


def test_exec_on_a_terminal(site: LocalBench, attempt: str) -> None:
    _start(site, attempt, "sleep 60")
    session = site.engine.exec(
        attempt, 0, ("sh", "-c", "stty size; tty > /dev/null; read x; echo got-$x; sleep 50"), tty=True
    )
    session.resize(33, 77)
    session.write(b"one\n")
    output = b""
    while b"got-one" not in output:
        data = session.read(10)
        assert data, output
        output += data
    # A shell may put off one ^C that comes while it begins a command; a person would press it again.
    for _ in range(10):
        session.write(b"\x03")
        while data := session.read(0.5):
            output += data
        if data == b"":
            break
    assert session.exit_code() == 130
    session.close()
    site.engine.stop(attempt, 0)
    ended(site, attempt)


def test_exec_ends_with_its_caller_and_with_the_attempt(site: LocalBench, attempt: str) -> None:
    work = site.root / "jobs" / attempt / "work"
    _start(site, attempt, "sleep 60")
    script = "trap 'echo' HUP; echo a > {0}; sleep 300"
    for name in ("first", "second"):
        session = site.engine.exec(attempt, 0, ("sh", "-c", script.format(name)))
        _wait(work / name)
        if name == "first":
            session.close()
    site.engine.stop(attempt, 0)
    ended(site, attempt)
    assert session.read(5) == b""
    session.close()
    with pytest.raises(Lost):
        site.engine.exec(attempt, 0, ("true",))
