"""How things are called in a cluster, and back.

Millpond's names are DNS labels, so a dot can join them without two becoming the same.  Everything of ours begins with
``mp``: a tenant may be called ``default`` or ``kube-system``.
"""

from __future__ import annotations

from millpond.domain.jobs import QueueClass
from millpond.engines.base import Refused

PREFIX = "mp"
ROOT_QUEUE = "root"
"""Volcano's own root, the parent of all queues."""

DOMAIN = "millpond.dev"
MANAGED = f"{DOMAIN}/managed-by"
TENANT = f"{DOMAIN}/tenant"
ATTEMPT = f"{DOMAIN}/attempt"
EPOCH = f"{DOMAIN}/epoch"
RANK = f"{DOMAIN}/rank"
CARDS = f"{DOMAIN}/cards"

NAME_LIMIT = 63
"""Of a DNS label: namespaces, host names and values of labels."""


def namespace_name(tenant: str) -> str:
    """``trade`` → ``mp-trade``.  Raises `Refused` when that is longer than a namespace may be."""
    name = f"{PREFIX}-{tenant}"
    if len(name) > NAME_LIMIT:
        raise Refused(
            f"tenant {tenant} cannot have a namespace: {name} is longer than {NAME_LIMIT} characters",
            hint=f"on Kubernetes a tenant's name has at most {NAME_LIMIT - len(PREFIX) - 1} characters",
        )
    return name


def namespace_tenant(namespace: str) -> str | None:
    """The tenant of one of our namespaces; None for others."""
    tenant = namespace.removeprefix(f"{PREFIX}-")
    return tenant if tenant != namespace else None


def queue_object_name(queue: str) -> str:
    """``trade/prod`` → ``mp.trade.prod``; the root, named by the empty string, is Volcano's."""
    return f"{PREFIX}.{queue.replace('/', '.')}" if queue else ROOT_QUEUE


def queue_from_object(name: str) -> str | None:
    """The queue of one of our Volcano queues; None for others."""
    path = name.removeprefix(f"{PREFIX}.")
    return path.replace(".", "/") if path != name else None


def priority_class_name(klass: QueueClass) -> str:
    return f"{PREFIX}-{klass.value}"


def job_object_name(attempt: str) -> str:
    """The attempt's own id: Volcano mistakes a new job for an old one of the same name."""
    return attempt


def task_name(seat: int) -> str:
    """The task of the `seat`-th node of an attempt.  Volcano calls its one pod ``<job>-<task>-0``."""
    return f"n{seat}"


def host_name(attempt: str, seat: int) -> str:
    """The host name of the pod on the `seat`-th node, unique in its namespace."""
    return f"{attempt}-{task_name(seat)}"
