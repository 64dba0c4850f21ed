"""Commands as a script: run by the real shell, because its rules are what matters."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.engines.local.supervisor.script import script_make, shell_arguments, shell_running, simple, traps


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("python train.py --lr 0.1", True),
        ("A=1 B='x y' python train.py", True),
        ("python train.py > out 2>&1", True),
        ("python train.py 'a;b' \"c&&d\"", True),
        ("$PYTHON train.py", True),
        ("a && b", False),
        ("a || b", False),
        ("a; b", False),
        ("a | b", False),
        ("a &", False),
        ("(a)", False),
        ("for i in 1 2; do a; done", False),
        ("cd x", False),
        ("exit 3", False),
        ("A=1", False),
        ("a # b", False),
        ("a $(b)", False),
        ("a `b`", False),
        ("a\nb", False),
        ("echo 'unclosed", False),
        ("", False),
    ],
)
def test_simple(command: str, expected: bool) -> None:
    assert simple(command) is expected


@pytest.mark.parametrize(
    ("commands", "output", "code"),
    [
        (("echo one", "echo two"), "one\ntwo\n", 0),
        (("false", "echo never"), "", 1),
        (("f() { echo called $1; }", "f x"), "called x\n", 0),
        (("X=5", "export X", "sh -c 'echo $X'"), "5\n", 0),
        (("A='b c' sh -c 'echo $A'",), "b c\n", 0),
        (("true", "A='b c' D=e sh -c 'echo $A$D'"), "b ce\n", 0),
        (("for i in 1 2\ndo echo $i\ndone",), "1\n2\n", 0),
        (("cd /", "pwd"), "/\n", 0),
        (("exit 9",), "", 9),
        (("true", "nosuchprogram"), "", 127),
        (("echo a |\n cat", "echo b && exit 4"), "a\nb\n", 4),
    ],
)
def test_run(commands: tuple[str, ...], output: str, code: int) -> None:
    done = subprocess.run(shell_arguments(script_make(commands, "USR1")), capture_output=True, check=False, timeout=10)
    assert (done.stdout.decode(), done.returncode) == (output, code)


@pytest.mark.parametrize("commands", [("sleep 5",), ("true", "sleep 5"), ("A=1 sleep 5",)])
def test_last_simple_command_replaces_the_shell(commands: tuple[str, ...]) -> None:
    child = subprocess.Popen(shell_arguments(script_make(commands, "USR1")))
    until = time.monotonic() + 5
    while Path(f"/proc/{child.pid}/comm").read_text() != "sleep\n" and time.monotonic() < until:
        time.sleep(0.005)
    assert not shell_running(child.pid)
    os.kill(child.pid, signal.SIGTERM)
    assert child.wait(5) == -signal.SIGTERM


def test_shell_survives_the_warning() -> None:
    child = subprocess.Popen(shell_arguments(script_make(("sleep 0.5; echo done; exit 3",), "USR1")))
    until = time.monotonic() + 5
    while not _catches(child.pid, signal.SIGUSR1) and time.monotonic() < until:
        time.sleep(0.005)
    assert shell_running(child.pid)
    os.kill(child.pid, signal.SIGUSR1)
    assert child.wait(5) == 3


def _catches(pid: int, number: int) -> bool:
    line = next(x for x in Path(f"/proc/{pid}/status").read_text().splitlines() if x.startswith("SigCgt"))
    return bool(int(line.split()[1], 16) >> (number - 1) & 1)


def test_traps() -> None:
    assert traps(["trap 'exit 75' USR1; sleep 1"])
    assert not traps(["python mousetrap.py"])


@given(st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=20), min_size=1, max_size=3))
def test_any_words_reach_the_program(words: list[str]) -> None:
    quoted = " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)
    done = subprocess.run(
        shell_arguments(script_make((f"printf '%s\\0' {quoted}",), "USR1")), capture_output=True, check=True, timeout=10
    )
    assert done.stdout == b"".join(word.encode() + b"\0" for word in words)
