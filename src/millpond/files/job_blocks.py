"""The blocks of a job file: environment, checkpoint, retry, topology, service and labels (design §6)."""

from __future__ import annotations

import re
from collections.abc import Mapping as AnyMapping

from millpond.domain.amounts import duration_parse
from millpond.domain.errors import InvalidInput
from millpond.domain.jobs import (
    SAVED_EXIT_CODE,
    CheckpointPolicy,
    JobType,
    RetryPolicy,
    ServicePolicy,
    TopologyWish,
)
from millpond.domain.names import env_name_parse, label_parse
from millpond.files.fields import (
    Fields,
    choice_parse,
    duration_between,
    integer_between,
    listing_read,
    scalar_read,
    text_parse,
)
from millpond.files.tree import Mapping, Node, Scalar, characters_check

SIGNALS = ("USR1", "USR2", "HUP", "INT", "TERM")
"""What a job may ask for as its warning."""

MAX_GRACE = 600
YEAR = 365 * 86_400


def env_read(node: Node | None, environ: AnyMapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    """``[NAME=VALUE, NAME]`` or a block ``NAME: VALUE``; names are distinct, order is kept."""
    if node is None:
        return ()
    pairs: dict[str, str] = {}
    items: list[tuple[Node, str, str | None]] = []
    if isinstance(node, Mapping):
        for entry in node.entries:
            if not isinstance(entry.value, Scalar):
                raise InvalidInput("expected one value", hint="quote it", position=entry.value.pos)
            items.append((Scalar(entry.key, entry.pos), entry.key, entry.value.text))
    else:
        for item in listing_read(node, lambda item: (item, scalar_read(item, str)), 256):
            name, equals, text = item[1].partition("=")
            items.append((item[0], name, text if equals else None))
    if len(items) > 256:
        raise InvalidInput("more than 256 environment variables", position=node.pos)
    for place, name, value in items:
        name = scalar_read(Scalar(name or "=", place.pos), env_name_parse)
        if name in pairs:
            raise InvalidInput(f"{name} is set twice", hint="keep one of them", position=place.pos)
        pairs[name] = _env_value(name, value, environ, place)
    return tuple(pairs.items())


def _env_value(name: str, value: str | None, environ: AnyMapping[str, str] | None, place: Node) -> str:
    if value is None:
        if environ is None:
            raise InvalidInput(f"{name} has no value", hint=f"write {name}=value", position=place.pos)
        if name not in environ:
            raise InvalidInput(
                f"{name} is not set in your environment",
                hint=f"export {name} first, or write {name}=value",
                position=place.pos,
            )
        value = environ[name]
    if len(value) > 32_768:
        raise InvalidInput(f"the value of {name} has more than 32768 characters", position=place.pos)
    return characters_check(value, place.pos)


def checkpoint_read(node: Node | None) -> CheckpointPolicy:
    if node is None:
        return CheckpointPolicy()
    fields = Fields(node, ("signal", "grace", "every"), "checkpoint")
    return CheckpointPolicy(
        signal=fields.value("signal", _signal, "USR1"),
        grace=fields.value("grace", duration_between(0, MAX_GRACE), 20),
        every=fields.optional("every", duration_between(1, YEAR)),
    )


def _signal(text: str) -> str:
    return choice_parse(SIGNALS)(text.removeprefix("SIG"))


def retry_read(node: Node | None) -> RetryPolicy:
    if node is None:
        return RetryPolicy()
    fields = Fields(node, ("exits", "limit", "backoff"), "retry")
    exits = fields.node("exits")
    every = exits is None or (isinstance(exits, Scalar) and exits.text == "any")
    low, high = fields.value("backoff", _backoff, (10, 300))
    return RetryPolicy(
        exits=frozenset() if every or exits is None else frozenset(_exits(exits)),
        any=every,
        limit=fields.value("limit", integer_between("retry limit", 0, 1000), 3),
        backoff_min=low,
        backoff_max=high,
    )


def _exits(node: Node) -> tuple[int, ...]:
    if isinstance(node, Scalar):
        raise InvalidInput(
            f"{node.text[:80]!r} is not a list of exit codes", hint="write [1, 137] or any", position=node.pos
        )
    return listing_read(node, lambda item: scalar_read(item, _exit_code), 255)


def _exit_code(text: str) -> int:
    code = integer_between("exit code of a failure", 1, 255)(text)
    if code == SAVED_EXIT_CODE:
        raise InvalidInput(
            f"{SAVED_EXIT_CODE} is not a failure", hint="it means saved, and is always queued again without a retry"
        )
    return code


def _backoff(text: str) -> tuple[int, int]:
    low_text, dots, high_text = text.partition("..")
    low = duration_parse(low_text)
    high = duration_parse(high_text) if dots else low
    if not low <= high <= 86_400:
        raise InvalidInput(f"{text!r} is not a backoff", hint="write the shorter pause first, at most 24h: 10s..5m")
    return low, high


def topology_read(node: Node | None) -> TopologyWish:
    if node is None:
        return TopologyWish()
    fields = Fields(node, ("require", "prefer"), "topology")
    return TopologyWish(
        require=fields.value("require", _level, ""),
        prefer=fields.value("prefer", _level, ""),
    )


def service_read(fields: Fields, kind: JobType) -> ServicePolicy | None:
    node = fields.node("service")
    if node is None:
        return None
    if kind is not JobType.SERVICE:
        raise InvalidInput(
            f"a {kind} has no service block",
            hint="write type: service, or remove it",
            position=fields.entry("service").pos,
        )
    block = Fields(node, ("port", "ready"), "service")
    port = block.value("port", integer_between("port", 1, 65_535), 0)
    ready = block.node("ready")
    if ready is None:
        return ServicePolicy(port=port)
    probe = Fields(ready, ("http", "timeout"), "ready")
    return ServicePolicy(
        port=port,
        ready_path=probe.value("http", _http_path, ""),
        ready_timeout=probe.value("timeout", duration_between(1, 86_400), 60),
    )


def _http_path(text: str) -> str:
    if not re.fullmatch(r"/[\x21-\x7e]{0,1023}", text):
        raise InvalidInput(f"{text[:80]!r} is not a path", hint="it begins with a slash, such as /healthz")
    return text


def labels_read(node: Node | None) -> tuple[tuple[str, str], ...]:
    if node is None:
        return ()
    if not isinstance(node, Mapping):
        raise InvalidInput("expected labels as a block of keys", hint="write {team: alpha}", position=node.pos)
    if len(node.entries) > 64:
        raise InvalidInput("more than 64 labels", position=node.entries[64].pos)
    pairs = []
    for entry in node.entries:
        if not re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9_./-]{0,61}[A-Za-z0-9])?", entry.key):
            raise InvalidInput(
                f"{entry.key[:80]!r} is not a label", hint="use letters, digits and - _ . /", position=entry.pos
            )
        pairs.append((entry.key, scalar_read(entry.value, text_parse(256, "label"))))
    return tuple(sorted(pairs))


def _level(text: str) -> str:
    return label_parse(text, "topology level")
