"""The openb traces of Alibaba's GPU clusters (``cluster-trace-gpu-v2023``): a CSV of pods, and a CSV of nodes.

Pods: ``name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time``,
times in seconds from the trace's beginning.  Nodes: ``sn,cpu_milli,memory_mib,gpu,model``.  A pod works from
``scheduled_time`` (where it is empty, from its creation) to ``deletion_time``.
"""

from __future__ import annotations

from collections.abc import Iterable

from millpond.domain.amounts import CARD, integer_parse
from millpond.domain.cards import CardRequest
from millpond.domain.errors import InvalidInput
from millpond.domain.jobs import QueueClass
from millpond.domain.names import label_parse
from millpond.domain.nodes import CardKind, NodeSpec
from millpond.files.fields import integer_between
from millpond.files.nodes import MAX_CARDS_PER_NODE, MAX_NODES, model_facts, model_parse
from millpond.files.traces.table import Row, Shape, rows_read
from millpond.files.traces.trace import Trace, TraceJob, seconds_parse, trace_make

PODS = Shape(
    what="an openb trace",
    required=("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "creation_time", "deletion_time"),
    optional=("gpu_spec", "qos", "pod_phase", "scheduled_time"),
)
NODES = Shape(what="an openb list of nodes", required=("sn", "cpu_milli", "memory_mib", "gpu", "model"))
TENANT = "openb"

_CLASSES = {"BE": QueueClass.BESTEFFORT, "Guaranteed": QueueClass.PROD}


def openb_read(lines: Iterable[str], source: str) -> Trace:
    """The pods of a trace.  All are of one tenant; ``BE`` is best effort, ``Guaranteed`` prod, the rest batch."""
    return trace_make("openb", [_pod(row) for row in rows_read(lines, PODS, source)], source=source)


def openb_nodes_read(lines: Iterable[str], source: str) -> tuple[NodeSpec, ...]:
    """The nodes of a cluster."""
    nodes: dict[str, NodeSpec] = {}
    for row in rows_read(lines, NODES, source):
        name = row.value("sn", lambda text: label_parse(text.lower(), "node"))
        if name in nodes:
            raise InvalidInput(f"the node {name} is written twice", position=row.position("sn"))
        if len(nodes) == MAX_NODES:
            raise InvalidInput(f"more than {MAX_NODES} nodes", position=row.position("sn"))
        count = row.value("gpu", integer_between("number of cards", 0, MAX_CARDS_PER_NODE))
        kind = None
        if count:
            model = row.value("model", model_parse)
            vendor, memory = model_facts(model)
            kind = CardKind(model, vendor, memory, count)
        nodes[name] = NodeSpec(name, row.value("cpu_milli", _milli), row.value("memory_mib", _mib), kind)
    return tuple(nodes.values())


def _pod(row: Row) -> TraceJob:
    count = row.value("num_gpu", integer_between("number of cards", 0, MAX_CARDS_PER_NODE))
    share = row.value("gpu_milli", integer_between("share of a card in thousandths", 0, CARD), 0)
    milli = count * CARD if count != 1 else share or CARD
    created = row.value("creation_time", seconds_parse)
    began = row.value("scheduled_time", seconds_parse, created)
    deleted = row.value("deletion_time", seconds_parse)
    if deleted < began:
        raise InvalidInput("the pod ends before it begins", position=row.position("deletion_time"))
    models: tuple[str, ...] = row.value("gpu_spec", _models, ())
    return TraceJob(
        id=row.cell("name"),
        tenant=TENANT,
        submitted=created,
        duration=deleted - began,
        gpu=CardRequest(milli, milli, models=models if milli else ()),
        position=row.position("name"),
        cpu=row.value("cpu_milli", _milli),
        memory=row.value("memory_mib", _mib),
        klass=_CLASSES.get(row.cell("qos"), QueueClass.BATCH),
    )


def _models(text: str) -> tuple[str, ...]:
    return tuple(sorted({model_parse(part.strip()) for part in text.split("|") if part.strip()}, key=str.lower))


def _milli(text: str) -> int:
    return integer_parse(text, "amount of CPU in thousandths", 0, 10**9)


def _mib(text: str) -> int:
    return integer_parse(text, "amount of memory in MiB", 0, 10**9)
