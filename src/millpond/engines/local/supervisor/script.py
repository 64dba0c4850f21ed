"""A job's commands as one shell script whose last command becomes the main process."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

SHELL = "/bin/sh"
SHELL_NAME = "millpond"
"""$0 of the shell that runs a script; while /proc shows it, the main process is not yet the user's own."""

COMMAND_BYTES = 100_000
"""The kernel takes at most 128 KiB in one argument."""

_OPERATORS = re.compile(r"[;&|()]+\Z")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_TRAP = re.compile(r"\btrap\b")
_NOT_PROGRAMS = frozenset(
    {
        *("!", "{", "}", "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac"),
        *("function", "select", "time", ".", ":", "[[", "alias", "bg", "break", "cd", "command", "continue", "eval"),
        *("exec", "exit", "export", "fg", "getopts", "hash", "jobs", "local", "read", "readonly", "return", "set"),
        *("shift", "source", "times", "trap", "type", "ulimit", "umask", "unalias", "unset", "wait"),
    }
)


def simple(command: str) -> bool:
    """Whether a command is one program with arguments and redirections, so that ``exec`` may stand before it."""
    if "\n" in command.strip() or "`" in command or "$(" in command:
        return False
    lexer = shlex.shlex(command.strip(), posix=False, punctuation_chars=";&|()<>")
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:
        return False
    program = next((word for word in words if not _ASSIGNMENT.match(word)), "")
    return (
        bool(program)
        and program not in _NOT_PROGRAMS
        and "#" not in command
        and not any(_OPERATORS.match(word) for word in words)
    )


def script_make(commands: tuple[str, ...], warning_signal: str, *, announce: int = -1, folder: str = "") -> str:
    """The script for ``/bin/sh -e``.

    The shell survives the warning signal (its children get it from the supervisor), and a last command that is simple
    replaces the shell, so that signals reach the user's own process.  With `announce`, the shell first goes to `folder`
    (which bubblewrap may not enter), then writes a newline to that file descriptor and closes it.
    """
    lines = []
    if announce >= 0:
        lines = [f"cd {shlex.quote(folder)}", "unset OLDPWD", f"echo >&{announce}", f"exec {announce}>&-"]
    earlier, last = commands[:-1], commands[-1].strip()
    replaced = simple(last)
    if earlier or not replaced:
        lines.append(f"trap : {warning_signal}")
    lines += earlier
    lines.append(_exec_line(last, certain=not earlier) if replaced else last)
    return "\n".join(lines) + "\n"


def _exec_line(command: str, *, certain: bool) -> str:
    """`command` with ``exec`` behind its assignments.  An earlier command may have made its name a function; where that
    is not `certain` to be false, the shell looks first."""
    assignments, rest = "", command
    while _ASSIGNMENT.match(rest):
        word = _first_word(rest)
        assignments, rest = f"{assignments}{word} ", rest[len(word) :].lstrip()
    line = f"{assignments}exec {rest}"
    if certain:
        return line
    return f'case "$(command -v {_first_word(rest)})" in */*) {line} ;; *) {command} ;; esac'


def _first_word(text: str) -> str:
    """The first word as the shell would cut it, quotes kept."""
    quote = ""
    skip = False
    for index, letter in enumerate(text):
        if skip:
            skip = False
        elif letter == "\\" and quote != "'":
            skip = True
        elif quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter.isspace():
            return text[:index]
    return text


def traps(commands: list[str]) -> bool:
    """Whether the user's own script handles signals."""
    return any(_TRAP.search(command) for command in commands)


def shell_arguments(script: str) -> list[str]:
    return [SHELL, "-e", "-c", script, SHELL_NAME]


def shell_running(pid: int) -> bool:
    """Whether the process is still our shell, not the user's last command: then signals go to its children too."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return words[1:3] == [b"-e", b"-c"] and words[4:] == [SHELL_NAME.encode(), b""]
