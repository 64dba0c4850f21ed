"""What is written can be read again, equal: snapshots, job specs."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given, settings
from hypothesis import strategies as st

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
    TopologyWish,
)
from millpond.files.jobs import job_file_load, job_spec_json, job_spec_parse
from millpond.files.snapshots import snapshot_load, snapshot_write
from millpond.files.tree import tree_from_json
from millpond.scheduling.plan import plan
from millpond.scheduling.snapshot import Hold, PastEviction, Snapshot
from tests.properties.worlds import snapshots

labels = st.from_regex(r"[a-z0-9](?:[a-z0-9-]{0,10}[a-z0-9])?", fullmatch=True)
texts = st.text(
    st.characters(min_codepoint=32, max_codepoint=0x2FFF, exclude_characters="\x7f", exclude_categories=("Cc", "Cs")),
    min_size=1,
    max_size=30,
).filter(str.strip)
paths = st.lists(labels, max_size=3).map("/".join)
requests = st.sampled_from(
    ["0", "1", "8", "1..4", "0.25", "A800:8", "24GB..:1", "nvidia:A100,H100:40GB..:0.25", "mig-1g.5gb x2", "80GB:2"]
).map(card_request_parse)
seconds = st.integers(1, 10**6)


@st.composite
def specs(draw: st.DrawFn) -> JobSpec:
    queue = draw(st.sampled_from(QueueClass))
    kind = draw(st.sampled_from(JobType))
    memory = draw(st.integers(0, 10**6))
    any_exit = draw(st.booleans())
    retry = RetryPolicy(
        exits=frozenset() if any_exit else draw(st.frozensets(st.integers(1, 74), max_size=3)),
        any=any_exit,
        limit=draw(st.integers(0, 9)),
        backoff_min=draw(st.integers(0, 60)),
        backoff_max=draw(st.integers(60, 600)),
    )
    service = ServicePolicy(
        draw(st.integers(0, 65535)), draw(st.sampled_from(["", "/healthz"])), draw(st.integers(1, 99))
    )
    moment = datetime(2026, 11, 30, 8, tzinfo=UTC) + timedelta(seconds=draw(seconds))
    return JobSpec(
        type=kind,
        name=draw(labels),
        commands=tuple(draw(st.lists(texts, min_size=1, max_size=3))),
        queue=queue,
        tenant=draw(st.one_of(st.just(""), labels)),
        project=draw(st.one_of(st.just(""), labels)),
        priority=draw(st.integers(0, 100)),
        nodes=draw(st.integers(1, 64)),
        processes_per_node=draw(st.integers(1, 8)),
        resources=Resources(draw(requests), draw(st.integers(0, 10**6)), memory, draw(st.integers(0, memory))),
        env=tuple(draw(st.dictionaries(st.from_regex(r"A[A-Z0-9_]{0,8}", fullmatch=True), texts, max_size=3)).items()),
        image=draw(st.sampled_from(["", "registry.example/team/train:1.2"])),
        working_dir=draw(paths),
        max_duration=draw(st.one_of(st.none(), seconds)),
        checkpoint=CheckpointPolicy(
            draw(st.sampled_from(["USR1", "HUP"])), draw(st.integers(0, 600)), draw(st.one_of(st.none(), seconds))
        ),
        retry=draw(st.sampled_from([RetryPolicy(), retry])),
        topology=TopologyWish(draw(st.sampled_from(["", "node"])), draw(st.sampled_from(["", "nvlink"]))),
        preemptible=draw(st.sampled_from([None, True] if queue is QueueClass.BESTEFFORT else [None, True, False])),
        depends_on=tuple(draw(st.lists(labels, max_size=3, unique=True))),
        start_at=draw(st.sampled_from([None, moment, moment.astimezone(timezone(timedelta(hours=8)))])),
        service=draw(st.sampled_from([None, service])) if kind is JobType.SERVICE else None,
        labels=tuple(sorted(draw(st.dictionaries(labels, texts, max_size=3)).items())),
    )


@settings(max_examples=200)
@given(specs())
def test_job_spec_survives_its_json(spec: JobSpec) -> None:
    assert job_spec_parse(tree_from_json(json.loads(json.dumps(job_spec_json(spec))), "body"), None) == spec


@settings(max_examples=100)
@given(specs())
def test_json_of_a_job_is_a_job_file(spec: JobSpec) -> None:
    """JSON is YAML: what the API shows can be saved and applied."""
    assert job_file_load(json.dumps(job_spec_json(spec)), "job.json", {}) == spec


@settings(max_examples=200)
@given(snapshots())
def test_snapshot_survives_its_file(snapshot: Snapshot) -> None:
    decided = plan(snapshot)
    held = replace(
        snapshot,
        holds=tuple(Hold(hold.job, hold.seats, hold.until, hold.victims) for hold in decided.hold),
        evictions=tuple(
            PastEviction(queue.name, queue.name, snapshot.now - 3) for queue in snapshot.queues if queue.leaf
        ),
        mix={"A800:8": 3, "0.25": 1},
    )
    assert snapshot_load(snapshot_write(held), "written.yaml").snapshot == held


@settings(max_examples=300)
@given(st.text(max_size=200))
def test_any_text_is_a_job_or_a_clear_error(text: str) -> None:
    error = _error(text)
    assert error is None or (error.position is not None and "\n" not in str(error))


def _error(text: str) -> InvalidInput | None:
    try:
        job_file_load(text, "job.yaml", {})
    except InvalidInput as error:
        return error
    return None
