"""A job out of a file, the command line, or both: flags win over the file."""

from __future__ import annotations

import re
import secrets
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import click

from millpond.cli.errors import file_error
from millpond.cli.lazy import option, trailing_of
from millpond.cli.session import Session
from millpond.domain.jobs import JobSpec, JobType, QueueClass
from millpond.files.jobs import job_spec_json, job_spec_parse
from millpond.files.tree import JOB_FILE_LIMIT, text_decode, tree_from_json, tree_from_yaml

_RESOURCES = ("gpu", "cpu", "memory", "shm")
_PLAIN = (
    "type", "name", "queue", "priority", "nodes", "processes_per_node", "image", "working_dir", "max_duration",
    "preemptible", "start_at",
)  # fmt: skip
_FILE_ENDS = (".yaml", ".yml", ".json")
_NAME_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"


def job_options(function: Any) -> Any:
    """The flags of `run` and `offer`: the keys of a job file."""
    options: tuple[Callable[[Any], Any], ...] = (
        option("--name", metavar="NAME", help="job.name"),
        option("--gpu", metavar="CARDS", help="job.gpu"),
        option("--cpu", metavar="CPUS", help="job.cpu"),
        option("--memory", metavar="SIZE", help="job.memory"),
        option("--shm", metavar="SIZE", help="job.shm"),
        option("--nodes", metavar="N", help="job.nodes"),
        option("--processes-per-node", metavar="N", help="job.processes"),
        option("--queue", type=click.Choice([klass.value for klass in QueueClass]), help="job.queue"),
        option("--priority", metavar="0..100", help="job.priority"),
        option("--type", type=click.Choice([kind.value for kind in JobType]), help="job.type"),
        option("-e", "--env", multiple=True, metavar="NAME[=VALUE]", help="job.env"),
        option("--max-duration", metavar="TIME", help="job.max_duration"),
        option("--working-dir", metavar="PATH", help="job.working_dir"),
        option("--image", metavar="IMAGE", help="job.image"),
        option("--after", "depends_on", multiple=True, metavar="JOB", help="job.after"),
        option("--start-at", metavar="TIME", help="job.start_at"),
        option("--preemptible/--no-preemptible", default=None, help="job.preemptible"),
    )
    for wrap in reversed(options):
        function = wrap(function)
    return function


def job_from_command_line(session: Session, words: Sequence[str], flags: Mapping[str, Any]) -> JobSpec:
    """The job that ``[FILE] [flags] [-- COMMAND …]`` describes.

    Without ``--``, one word that names a job file (or ``-``) is the file and anything else is the command.
    """
    command = trailing_of(click.get_current_context())
    file = ""
    if command is None and len(words) == 1 and _is_file(words[0]):
        file = words[0]
    elif command is None:
        command = tuple(words)
    elif len(words) == 1:
        file = words[0]
    elif words:
        raise click.UsageError(session.texts("job.many_files", words=" ".join(words)))
    if not file and not command and flags.get("type") != JobType.WORKSPACE:
        raise click.UsageError(session.texts("job.nothing"))
    value = job_spec_json(job_file_read(session, file)) if file else {}
    return job_spec_parse(tree_from_json(_merged(value, flags, command), "command line"), session.environ)


def job_file_read(session: Session, path: str) -> JobSpec:
    """The job in a file (``-``: standard input)."""
    text, source = file_read(path)
    return job_spec_parse(tree_from_yaml(text, source, JOB_FILE_LIMIT), session.environ)


def job_body(session: Session, spec: JobSpec) -> dict[str, object]:
    """The request: the canonical form, with the call's tenant and project; options win over the file, the file over
    the environment."""
    body = job_spec_json(spec)
    for key in ("tenant", "project"):
        given = session.options.get(key) or body.get(key) or getattr(session, key)
        if given:
            body[key] = given
    return body


def file_read(path: str, limit: int = JOB_FILE_LIMIT) -> tuple[str, str]:
    """(text, name for positions) of a file; never more than `limit` bytes are read."""
    if path == "-":
        return text_decode(sys.stdin.buffer.read(limit + 1), "stdin", limit), "stdin"
    try:
        with Path(path).open("rb") as stream:
            data = stream.read(limit + 1)
    except OSError as error:
        raise file_error(error, path) from error
    return text_decode(data, path, limit), path


def _is_file(word: str) -> bool:
    return word == "-" or word.endswith(_FILE_ENDS)


def _merged(file: Mapping[str, object], flags: Mapping[str, Any], command: Sequence[str] | None) -> dict[str, object]:
    value = dict(file)
    for key in _PLAIN:
        if flags.get(key) is not None:
            value[key] = flags[key]
    resources = {key: flags[key] for key in _RESOURCES if flags.get(key) is not None}
    if resources:
        inner = value.get("resources")
        value["resources"] = {**(inner if isinstance(inner, dict) else {}), **resources}
    if flags.get("env"):
        value["env"] = _env_merged(value.get("env"), flags["env"])
    if flags.get("depends_on"):
        value["depends_on"] = list(flags["depends_on"])
    if command:
        value["commands"] = [command[0] if len(command) == 1 else shlex.join(command)]
    if "name" not in value:
        value["name"] = name_make(command or ("job",))
    return value


def _env_merged(file: object, given: Sequence[str]) -> list[str]:
    """The file's variables, those of the command line in their place or after them."""
    names = {pair.partition("=")[0] for pair in given}
    kept = [pair for pair in file if pair.partition("=")[0] not in names] if isinstance(file, list) else []
    return [*kept, *given]


def name_make(command: Sequence[str]) -> str:
    """A name for a job that was given none: ``train-x7k2`` for ``python train.py``."""
    line = " ".join(command).replace("'", " ").replace('"', " ")
    words = [word for word in line.split() if not word.startswith("-") and "=" not in word]
    interpreters = {"python", "python3", "bash", "sh", "torchrun", "uv", "run", "exec"}
    stems = [PurePath(word).stem for word in words]
    stem = next((stem for stem in stems if stem and stem not in interpreters), "job")
    stem = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:40] or "job"
    return f"{stem}-{''.join(secrets.choice(_NAME_ALPHABET) for _ in range(4))}"
