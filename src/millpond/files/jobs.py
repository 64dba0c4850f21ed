"""Job files (design §6): what a person writes becomes a `JobSpec`, and back into canonical JSON.

job_spec_parse(job_spec_json-shaped tree) == spec      for every spec that this module accepts
"""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Mapping as AnyMapping
from datetime import datetime
from pathlib import PurePosixPath

from millpond.domain.amounts import (
    cpu_parse,
    duration_write,
    memory_format,
    memory_parse,
    milli_format,
)
from millpond.domain.cards import card_request_parse
from millpond.domain.errors import InvalidInput
from millpond.domain.jobs import (
    CheckpointPolicy,
    JobSpec,
    JobType,
    QueueClass,
    Resources,
    RetryPolicy,
    ServicePolicy,
)
from millpond.domain.names import label_parse
from millpond.files.fields import (
    Fields,
    boolean_parse,
    choice_parse,
    datetime_parse,
    duration_between,
    integer_between,
    listing_read,
    scalar_read,
    text_parse,
)
from millpond.files.job_blocks import (
    YEAR,
    checkpoint_read,
    env_read,
    labels_read,
    retry_read,
    service_read,
    topology_read,
)
from millpond.files.tree import JOB_FILE_LIMIT, Node, tree_from_yaml

JOB_KEYS = (
    "type", "name", "tenant", "project", "queue", "priority", "nodes", "processes_per_node", "resources", "commands",
    "env", "image", "working_dir", "max_duration", "checkpoint", "retry", "topology", "preemptible", "depends_on",
    "start_at", "service", "labels",
)  # fmt: skip

MAX_NODES = 1024

_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,511}\Z")


def job_file_load(text: str, source: str, environ: AnyMapping[str, str] | None) -> JobSpec:
    """The job in a file's text.  `source` names the file in errors, `environ` fills bare names of ``env``."""
    return job_spec_parse(tree_from_yaml(text, source, JOB_FILE_LIMIT), environ)


def job_spec_parse(node: Node, environ: AnyMapping[str, str] | None) -> JobSpec:
    """The job that a tree says.

    Raises `InvalidInput` with the position of what is wrong and the next thing to try.  Bare names in ``env`` take
    their value from `environ`; None means that there is no caller's environment, so they are errors.
    """
    fields = Fields(node, JOB_KEYS, "a job")
    kind = JobType(fields.value("type", choice_parse(JobType), JobType.TASK.value))
    queue = QueueClass(fields.value("queue", choice_parse(QueueClass), QueueClass.BATCH.value))
    return JobSpec(
        type=kind,
        name=fields.required("name", _label("job"), "factor-mining"),
        commands=_commands(fields, kind),
        queue=queue,
        tenant=fields.value("tenant", _label("tenant"), ""),
        project=fields.value("project", _label("project"), ""),
        priority=fields.value("priority", integer_between("priority", 0, 100), 50),
        nodes=fields.value("nodes", integer_between("number of nodes", 1, MAX_NODES), 1),
        processes_per_node=fields.value("processes_per_node", integer_between("number of processes", 1, 256), 1),
        resources=_resources(fields.node("resources")),
        env=env_read(fields.node("env"), environ),
        image=fields.value("image", _image, ""),
        working_dir=fields.value("working_dir", _working_dir, ""),
        max_duration=fields.optional("max_duration", duration_between(1, 10 * YEAR)),
        checkpoint=checkpoint_read(fields.node("checkpoint")),
        retry=retry_read(fields.node("retry")),
        topology=topology_read(fields.node("topology")),
        preemptible=_preemptible(fields, queue),
        depends_on=_depends_on(fields),
        start_at=fields.optional("start_at", _start_at),
        service=service_read(fields, kind),
        labels=labels_read(fields.node("labels")),
    )


def job_spec_json(spec: JobSpec) -> dict[str, object]:
    """The canonical JSON form: the keys of a job file, values as a person would write them, defaults left out."""
    value: dict[str, object] = {
        "type": spec.type.value,
        "name": spec.name,
        "queue": spec.queue.value,
        "priority": spec.priority,
        "nodes": spec.nodes,
        "processes_per_node": spec.processes_per_node,
        "resources": _resources_json(spec.resources),
        "commands": list(spec.commands),
        "checkpoint": _checkpoint_json(spec.checkpoint),
    }
    optional: dict[str, object] = {
        "tenant": spec.tenant,
        "project": spec.project,
        "env": [f"{name}={text}" for name, text in spec.env],
        "image": spec.image,
        "working_dir": spec.working_dir,
        "topology": _present({"require": spec.topology.require, "prefer": spec.topology.prefer}),
        "depends_on": list(spec.depends_on),
        "labels": dict(spec.labels),
        "max_duration": duration_write(spec.max_duration) if spec.max_duration is not None else "",
        "start_at": spec.start_at.isoformat() if spec.start_at is not None else "",
        "retry": _retry_json(spec.retry),
        "service": _service_json(spec.service),
    }
    value.update(_present(optional))
    if spec.preemptible is not None:
        value["preemptible"] = spec.preemptible
    if spec.service is not None:
        value["service"] = _service_json(spec.service)
    return value


def _present(values: AnyMapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in values.items() if value}


def _resources_json(resources: Resources) -> dict[str, object]:
    amounts = {
        "cpu": milli_format(resources.cpu) if resources.cpu else "",
        "memory": memory_format(resources.memory) if resources.memory else "",
        "shm": memory_format(resources.shm) if resources.shm else "",
    }
    return {"gpu": str(resources.gpu), **_present(amounts)}


def _checkpoint_json(policy: CheckpointPolicy) -> dict[str, object]:
    every = {} if policy.every is None else {"every": duration_write(policy.every)}
    return {"signal": policy.signal, "grace": duration_write(policy.grace), **every}


def _retry_json(policy: RetryPolicy) -> dict[str, object]:
    if policy == RetryPolicy():
        return {}
    return {
        "exits": "any" if policy.any else sorted(policy.exits),
        "limit": policy.limit,
        "backoff": f"{duration_write(policy.backoff_min)}..{duration_write(policy.backoff_max)}",
    }


def _service_json(policy: ServicePolicy | None) -> dict[str, object]:
    if policy is None:
        return {}
    ready = {"http": policy.ready_path, "timeout": duration_write(policy.ready_timeout)}
    return _present({"port": policy.port, "ready": _present(ready)})


def _label(what: str) -> Callable[[str], str]:
    return lambda text: label_parse(text, what)


def _commands(fields: Fields, kind: JobType) -> tuple[str, ...]:
    if kind is JobType.WORKSPACE and "commands" not in fields:
        # A workspace is a place to attach to: it stays until it is stopped.
        return ("exec sleep infinity",)
    node = fields.required_node("commands", "[python train.py]")
    commands = listing_read(node, lambda item: scalar_read(item, text_parse(65_536, "command")), 100)
    if not commands:
        raise InvalidInput(
            "a job needs at least one command", hint="write commands: [python train.py]", position=node.pos
        )
    return commands


def _resources(node: Node | None) -> Resources:
    if node is None:
        return Resources()
    fields = Fields(node, ("gpu", "cpu", "memory", "shm"), "resources")
    memory, shm = fields.value("memory", memory_parse, 0), fields.value("shm", memory_parse, 0)
    if memory and shm > memory:
        raise InvalidInput(
            f"shm of {memory_format(shm)} is more than the job's memory of {memory_format(memory)}",
            hint="shared memory counts as memory: ask for more memory or less shm",
            position=fields.entry("shm").value.pos,
        )
    return Resources(
        gpu=fields.value("gpu", card_request_parse, Resources().gpu),
        cpu=fields.value("cpu", cpu_parse, 0),
        memory=memory,
        shm=shm,
    )


def _image(text: str) -> str:
    if not _IMAGE.match(text):
        raise InvalidInput(f"{text[:80]!r} is not an image", hint="write it like registry.example/team/train:1.2")
    return text


def _working_dir(text: str) -> str:
    """Relative to the job's own directory, and never outside of it."""
    path = PurePosixPath(text)
    if path.is_absolute() or ".." in path.parts or text.startswith("~") or "\\" in text or "\n" in text:
        raise InvalidInput(
            f"{text[:80]!r} leads out of the job's directory",
            hint="write a relative path without .., such as src/train",
        )
    if len(text) > 1024:
        raise InvalidInput("the path is longer than 1024 characters")
    return "" if str(path) == "." else str(path)


def _preemptible(fields: Fields, queue: QueueClass) -> bool | None:
    preemptible = fields.optional("preemptible", boolean_parse)
    if preemptible is False and queue is QueueClass.BESTEFFORT:
        raise InvalidInput(
            "a besteffort job can always be evicted",
            hint="remove preemptible: false, or use queue: prod",
            position=fields.entry("preemptible").value.pos,
        )
    return preemptible


def _depends_on(fields: Fields) -> tuple[str, ...]:
    names = fields.items("depends_on", lambda item: scalar_read(item, _label("job")), 100)
    return tuple(dict.fromkeys(names))


def _start_at(text: str) -> datetime:
    moment = datetime_parse(text)
    if moment.tzinfo is None:
        raise InvalidInput(f"{text!r} names no time zone", hint="end it with Z or an offset such as +08:00")
    return moment
