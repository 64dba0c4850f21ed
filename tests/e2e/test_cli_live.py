"""The command line against a whole millpond: real server, real processes, real terminals."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from millpond.sdk import Client
from tests.live import Millpond, home_made, job_when, millpond_up, wait_for

pytestmark = pytest.mark.live

OK, FAILED, USAGE, CANCELLED, REFUSED, UNREACHABLE = range(6)
SAVE_ONCE = "test -f saved && { echo again; exit 0; }; echo once; touch saved; exit 75"
QUEUES = """\
queues:
  - {name: default/batch, class: batch, deserved: 8}
  - {name: default/besteffort, class: besteffort}
  - {name: default/prod, class: prod, guarantee: 4, deserved: 4}
"""


@pytest.fixture(scope="module")
def pond() -> Iterator[Millpond]:
    """Not below pytest's own folder: every other pytest that starts closes that to the users that jobs run as."""
    with (
        home_made() as folder,
        millpond_up(folder, "2x4xA800-80GB") as found,
    ):
        yield found


@pytest.fixture
def client(pond: Millpond) -> Iterator[Client]:
    with pond.client() as found:
        yield found


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


def call(pond: Millpond, *words: str, stdin: str = "", **environ: str) -> Result:
    done = subprocess.run(
        [sys.executable, "-m", "millpond.cli.main", *words],
        env={**pond.environ, **environ},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return Result(done.returncode, done.stdout, done.stderr)


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, pond: Millpond, *words: str) -> None:
        self.seen = ""
        self.pid, self._descriptor = pty.fork()
        if self.pid == 0:
            os.execve(sys.executable, [sys.executable, "-m", "millpond.cli.main", *words], pond.environ)  # noqa: S606

    def until(self, text: str, timeout_s: float = 30.0) -> None:
        """Read until `text` was shown."""
        deadline = time.monotonic() + timeout_s
        while text not in self.seen:
            assert time.monotonic() < deadline, f"waited for {text!r}, saw {self.seen!r}"
            if not self._read():
                break
        assert text in self.seen, self.seen

    def type(self, text: str) -> None:
        os.write(self._descriptor, text.encode())

    def end(self) -> int:
        while self._read():
            pass
        os.close(self._descriptor)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def _read(self) -> bool:
        select.select([self._descriptor], [], [], 30.0)
        try:
            data = os.read(self._descriptor, 65536)
        except OSError:
            return False
        self.seen += data.decode(errors="replace")
        return bool(data)


def test_run_ends_as_the_job_does(pond: Millpond) -> None:
    good = call(pond, "run", "--gpu", "1", "--name", "good", "--", "echo out; echo $MILLPOND_JOB_NAME")
    assert (good.code, good.out) == (OK, "out\ngood\n")
    assert good.err.splitlines()[-1].startswith("good succeeded after ")
    assert "(simulated)" in good.err
    bad = call(pond, "run", "--name", "bad", "--", "exit 3")
    assert bad.code == FAILED
    assert "bad failed with exit code 3" in bad.err


def test_apply_follows_across_attempts(pond: Millpond, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(json.dumps({"name": "saver", "commands": [SAVE_ONCE], "resources": {"gpu": "1"}}))
    result = call(pond, "apply", str(path), "--follow")
    assert (result.code, result.out) == (OK, "once\nagain\n")
    assert "saver left its cards (saved itself)" in result.err
    described = call(pond, "describe", "saver").out
    assert "saved itself" in described
    attempts = json.loads(call(pond, "describe", "saver", "--json").out)["attempts"]
    assert [attempt["exit_code"] for attempt in attempts] == [75, 0]
    assert call(pond, "logs", "saver", "--attempt", "1").out == "once\n"
    assert call(pond, "logs", "saver").out == "again\n"


def test_waiting_job_is_explained(pond: Millpond, client: Client) -> None:
    call(pond, "run", "-d", "--name", "wide", "--gpu", "4", "--nodes", "2", "--", "sleep 60")
    job_when(client, "wide", "running")
    call(pond, "run", "-d", "--name", "late", "--gpu", "1", "--", "true")
    why = call(pond, "why", "late")
    assert why.code == OK
    assert "late waits in default/batch, place 1 of its queue" in why.out
    assert "INSUFFICIENT_CARDS" in why.out
    assert "Try: millpond " in why.out
    assert "原因" not in why.out
    assert "因为" in call(pond, "why", "late", LANG="zh_CN.UTF-8").out
    listing = call(pond, "ps").out.splitlines()
    assert {line.split()[0]: line.split()[1] for line in listing} == {
        "NAME": "STATE",
        "late": "queued",
        "wide": "running",
    }
    assert "#1 INSUFFICIENT_CARDS" in "\n".join(listing)
    assert "8 of 8 cards in use (simulated)" in call(pond, "queue").out
    offered = json.loads(call(pond, "offer", "--gpu", "1", "--json").out)
    assert offered["starts_now"] is False
    held = call(pond, "hold", "late")
    assert "late is held" in held.err
    assert "HELD" in call(pond, "why", "late").out
    call(pond, "release", "late")
    assert call(pond, "stop", "wide", "--now", "--wait").code == OK
    assert call(pond, "wait", "late").code == OK
    assert call(pond, "wait", "wide", "late").code == CANCELLED


def test_exec(pond: Millpond, client: Client) -> None:
    call(pond, "run", "-d", "--name", "host", "--nodes", "2", "--", "sleep 60")
    job_when(client, "host", "running")
    assert call(pond, "exec", "host", "sh", "-c", "echo err >&2; exit 7").code == 7
    assert call(pond, "exec", "host", "--rank", "1", "--", "cat", stdin="hello").out == "hello"
    assert call(pond, "exec", "host", "--rank", "1", "--", "sh", "-c", "echo $RANK").out == "1\n"
    assert call(pond, "exec", "host", "--rank", "2", "--", "true").code == REFUSED
    assert call(pond, "exec", "-t", "host", "--", "sh").code == USAGE
    terminal = Terminal(pond, "exec", "-t", "host", "--", "sh")
    terminal.type("echo $((40 + 2)); exit 5\n")
    terminal.until("42")
    assert terminal.end() == 5
    call(pond, "stop", "host", "--now", "--wait")


def test_ctrl_c_asks(pond: Millpond, client: Client) -> None:
    words = ("run", "--name", "long", "--", "echo ready; exec sleep 60")
    first = Terminal(pond, *words)
    first.until("ready")
    first.type("\x03")
    first.until("(d)etach, (s)top it, (c)ontinue?")
    first.type("\x03")
    first.until("Detached")
    assert first.end() == OK
    second = Terminal(pond, "attach", "long")
    second.until("attached to long")
    second.type("\x03")
    assert second.end() == OK
    assert job_when(client, "long", "running")["cancel"] is False
    call(pond, "stop", "long", "--now", "--wait")
    third = Terminal(pond, *words)
    third.until("ready")
    third.type("\x03")
    third.until("(d)etach, (s)top it, (c)ontinue?")
    third.type("s\n")
    third.until("was cancelled")
    assert third.end() == CANCELLED


@pytest.mark.parametrize(
    ("flags", "code", "text"),
    [
        (("--gpu", "5"), REFUSED, "TOO_LARGE"),
        (("--gpu", "H100:1"), REFUSED, "NO_SUCH_CARD"),
        (("--gpu", "0.3333"), USAGE, "finer than a thousandth"),
        (("--tenant", "nobody"), REFUSED, "nobody"),
    ],
)
def test_refusals_leave_no_trace(pond: Millpond, client: Client, flags: tuple[str, ...], code: int, text: str) -> None:
    before = [job["id"] for job in client.jobs.list()]
    result = call(pond, "--json", "run", *flags, "--name", "refused", "--", "true")
    assert result.code == code
    assert text in result.err
    assert [job["id"] for job in client.jobs.list()] == before


def test_quota_is_shown_before_it_changes(pond: Millpond, tmp_path: Path) -> None:
    path = tmp_path / "queues.yaml"
    path.write_text(QUEUES)
    assert call(pond, "quota", "apply", str(path)).code == USAGE
    preview = call(pond, "quota", "apply", str(path), "--dry-run")
    assert preview.code == OK
    assert "~ default/prod" in preview.out
    assert "    guarantee: - → " in preview.out
    assert call(pond, "quota", "apply", str(path), "--yes").code == OK
    assert "No difference" in call(pond, "quota", "apply", str(path), "--yes").out
    shown = call(pond, "quota").out
    assert [line.split()[1:5] for line in shown.splitlines() if line.startswith("default/prod")] == [
        ["prod", "4", "4", "-"]
    ]
    path.write_text(QUEUES.replace("deserved: 8", "guarantee: 80"))
    wrong = call(pond, "quota", "apply", str(path), "--yes")
    assert wrong.code == USAGE
    assert "queues.yaml:2:" in wrong.err


def test_people_and_tokens(pond: Millpond, tmp_path: Path) -> None:
    assert call(pond, "tenants", "create", "factor", "--title", "Factor mining").code == OK
    assert call(pond, "tenants", "projects", "create", "alpha", "--tenant", "factor").code == OK
    assert call(pond, "tenants", "members", "add", "chen", "--tenant", "factor").code == OK
    secret = call(pond, "tokens", "create", "--user", "chen", "--label", "laptop", "--expires", "30d").out.strip()
    home = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config"), "MILLPOND_STATE_DIR": str(tmp_path)}
    address = str(pond.server()["address"])
    login = call(pond, "login", "--server", address, "--token-stdin", stdin=f"{secret}\n", **home)
    assert login.code == OK
    assert secret not in login.out + login.err
    me = json.loads(call(pond, "whoami", "--json", **home).out)
    assert (me["user"], me["tenants"]) == ("chen", [{"tenant": "factor", "role": "member"}])
    assert call(pond, "ps", **home).code == OK
    assert call(pond, "tenants", "create", "mine", **home).code == REFUSED
    assert call(pond, "describe", "good", "--tenant", "default", **home).code == REFUSED
    tokens = json.loads(call(pond, "tokens", "list", "--json", **home).out)["items"]
    [token] = [item["id"] for item in tokens if item["label"] == "laptop"]
    assert call(pond, "tokens", "revoke", token, "--yes", **home).code == OK
    revoked = call(pond, "whoami", **home)
    assert revoked.code == REFUSED
    assert "millpond login" in revoked.err
    assert call(pond, "logout", **home).code == OK
    assert call(pond, "ps", **home).code == UNREACHABLE


def test_simulated_trouble(pond: Millpond) -> None:
    broken = call(pond, "cards", "fault", "n2", "3", "--cause", "a test")
    assert broken.code == OK
    assert "quarantined" in broken.out
    assert "quarantined" in call(pond, "cards", "--node", "n2").out
    call(pond, "cards", "repair", "n2", "3")
    assert "cordoned" in call(pond, "nodes", "cordon", "n2").out
    assert "ready" in call(pond, "nodes", "uncordon", "n2").out
    assert call(pond, "nodes", "cordon", "n9").code == REFUSED


def test_snapshot_can_be_planned(pond: Millpond, tmp_path: Path) -> None:
    path = tmp_path / "now.yaml"
    assert call(pond, "snapshot", "-o", str(path)).code == OK
    assert call(pond, "plan", str(path), "--json").code == OK


def test_following_survives_a_restart_of_the_server(pond: Millpond) -> None:
    """Last, since it kills the server: output goes on where it stopped, nothing twice."""
    command = [sys.executable, "-m", "millpond.cli.main", "run", "--tenant", "default", "--name", "steady", "--"]
    script = "for i in $(seq 30); do echo line $i; sleep 0.2; done"
    with subprocess.Popen(
        [*command, script], env=pond.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "line 1\n"
        port = str(pond.server()["address"]).rpartition(":")[2]
        os.kill(int(pond.server()["pid"]), signal.SIGKILL)
        wait_for(lambda: call(pond, "ps").code == UNREACHABLE or None, "the server to be gone")
        words = ("--sim", pond.pool, "--isolation", pond.isolation, "--port", port, "--json")
        pond.command("up", *words, timeout=150.0)
        rest, err = process.communicate(timeout=60)
    assert rest == "".join(f"line {number}\n" for number in range(2, 31)), err
    assert process.returncode == OK
