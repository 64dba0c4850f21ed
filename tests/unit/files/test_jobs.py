"""Job files: the example of the design, defaults, and the environment."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

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
from millpond.files.jobs import job_file_load, job_spec_parse
from millpond.files.tree import tree_from_json

EXAMPLE = """
type: task
name: factor-mining
project: alpha
queue: batch
priority: 50
nodes: 2
resources: {gpu: "A800:8", cpu: 16, memory: 64GB, shm: 16GB}
commands: [python train.py --out $MILLPOND_CHECKPOINT_DIR]
env: [EPOCHS=3, HF_TOKEN]
max_duration: 8h
checkpoint: {signal: USR1, grace: 20s, every: 10m}
retry: {exits: [1, 137], limit: 3, backoff: 10s..5m}
topology: {require: node, prefer: nvlink}
"""
LEAST = "name: x\ncommands: [a]\n"


def load(more: str, environ: dict[str, str] | None = None) -> JobSpec:
    return job_file_load(LEAST + more, "job.yaml", environ or {})


def test_the_example_of_the_design() -> None:
    spec = job_file_load(EXAMPLE, "job.yaml", {"HF_TOKEN": "s3cret", "OTHER": "no"})
    assert spec == JobSpec(
        type=JobType.TASK,
        name="factor-mining",
        commands=("python train.py --out $MILLPOND_CHECKPOINT_DIR",),
        project="alpha",
        nodes=2,
        resources=Resources(card_request_parse("A800:8"), 16_000, 65_536, 16_384),
        env=(("EPOCHS", "3"), ("HF_TOKEN", "s3cret")),
        max_duration=28_800,
        checkpoint=CheckpointPolicy("USR1", 20, 600),
        retry=RetryPolicy(frozenset({1, 137}), limit=3, backoff_min=10, backoff_max=300),
        topology=TopologyWish("node", "nvlink"),
    )


def test_defaults() -> None:
    assert load("") == JobSpec(JobType.TASK, "x", ("a",), queue=QueueClass.BATCH)


def test_a_workspace_stays_without_commands() -> None:
    spec = job_file_load("type: workspace\nname: x\n", "job.yaml", {})
    assert spec.commands == ("exec sleep infinity",)


def test_service() -> None:
    spec = load("type: service\nservice: {port: 8000, ready: {http: /healthz}}\n")
    assert spec.service == ServicePolicy(8000, "/healthz", 60)
    assert load("type: service\nservice: {}\n").service == ServicePolicy()


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("{}", RetryPolicy(any=True, limit=3)),
        ("{exits: any, limit: 1, backoff: 30s}", RetryPolicy(any=True, limit=1, backoff_min=30, backoff_max=30)),
        ("{exits: [2]}", RetryPolicy(frozenset({2}), limit=3)),
    ],
)
def test_retry(text: str, policy: RetryPolicy) -> None:
    assert load(f"retry: {text}\n").retry == policy


def test_start_at_takes_a_space_and_keeps_its_zone() -> None:
    zone = timezone(timedelta(hours=8))
    assert load("start_at: 2026-11-30 08:00+08:00\n").start_at == datetime(2026, 11, 30, 8, tzinfo=zone)


def test_environment_as_a_block() -> None:
    assert load("env: {A: no, B: ''}\n").env == (("A", "no"), ("B", ""))


def test_bare_names_need_a_caller() -> None:
    body = tree_from_json({"name": "x", "commands": ["a"], "env": ["HF_TOKEN"]}, "body")
    with pytest.raises(InvalidInput, match=r"body: env\[0\]: HF_TOKEN has no value \(write HF_TOKEN=value\)"):
        job_spec_parse(body, None)


def test_value_from_the_environment_is_checked() -> None:
    with pytest.raises(InvalidInput, match=r"the character U\+001B is not allowed here"):
        load("env: [A]\n", {"A": "\x1b[0m"})
    with pytest.raises(InvalidInput, match="more than 32768 characters"):
        load("env: [A]\n", {"A": "x" * 40_000})


@pytest.mark.parametrize(("text", "expected"), [("./src//train/", "src/train"), (".", ""), ("a b", "a b")])
def test_working_dir_is_normal(text: str, expected: str) -> None:
    assert load(f"working_dir: {text}\n").working_dir == expected


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("env: {A: [1]}\n", "env.A: expected one value"),
        ("env: [=1]\n", "is not a valid environment variable name"),
        ("image: 'a b'\n", "'a b' is not an image"),
        ("retry: {exits: 1}\n", "is not a list of exit codes (write [1, 137] or any)"),
        ("retry: {exits: [75]}\n", "75 is not a failure"),
        ("type: service\nservice: {ready: {http: healthz}}\n", "it begins with a slash"),
        ("labels: {-x: 1}\n", "'-x' is not a label"),
        ("labels: []\n", "expected labels as a block of keys"),
        ("topology: {require: Node}\n", "is not a valid topology level name"),
        (f"working_dir: {'a/' * 600}\n", "longer than 1024 characters"),
        (f"commands2: {'x' * 99}\n", "did you mean commands?"),
    ],
)
def test_more_errors(more: str, expected: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        load(more)
    assert expected in str(caught.value)
    assert caught.value.position is not None
