"""What is stored comes back as it was."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millpond.db.codec import bad_cards_decode, bad_cards_encode, json_decode, json_encode, seats_decode, seats_encode
from millpond.domain.cards import CardRequest
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
from millpond.domain.nodes import CardKind, NodeSpec
from millpond.domain.queues import CardHours, QueueConfig
from millpond.domain.records import SeatRecord
from tests.unit.db.builders import spec

st.register_type_strategy(datetime, st.datetimes(timezones=st.just(UTC)))

PLAIN = (CardRequest, CheckpointPolicy, RetryPolicy, ServicePolicy, TopologyWish, CardKind, CardHours)
KINDS: tuple[Any, ...] = (*PLAIN, Resources, JobSpec, NodeSpec, QueueConfig, SeatRecord)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_every_record_comes_back(kind: Any, data: st.DataObject) -> None:
    value = data.draw(st.from_type(kind))
    text = json.dumps(json_encode(kind, value))
    assert json_decode(kind, json.loads(text)) == value


@given(st.lists(st.from_type(SeatRecord), max_size=3).map(tuple))
def test_seats_come_back(seats: tuple[SeatRecord, ...]) -> None:
    assert seats_decode(json.dumps(seats_encode(seats))) == seats


@given(st.dictionaries(st.integers(0, 63), st.text()))
def test_bad_cards_come_back(bad: dict[int, str]) -> None:
    assert bad_cards_decode(json.dumps(bad_cards_encode(bad))) == bad


def test_every_field_is_written() -> None:
    assert set(json_encode(JobSpec, spec())) == set(JobSpec.__dataclass_fields__)


def test_a_row_older_than_a_field_takes_its_default() -> None:
    stored = json_encode(JobSpec, spec(priority=7))
    del stored["labels"]
    assert json_decode(JobSpec, stored) == spec(priority=7)


def test_a_row_newer_than_the_program_is_not_half_understood() -> None:
    with pytest.raises(ValueError, match="unknown fields: colour"):
        json_decode(JobSpec, {**json_encode(JobSpec, spec()), "colour": "red"})


def test_a_damaged_row_raises() -> None:
    with pytest.raises(ValueError, match="not a valid JobType"):
        json_decode(JobSpec, {**json_encode(JobSpec, spec()), "type": "tusk"})
    with pytest.raises(ValueError, match="stored as an object"):
        json_decode(JobSpec, [])


def test_words_are_words() -> None:
    stored = json_encode(JobSpec, spec())
    assert (stored["type"], stored["queue"]) == (JobType.TASK.value, QueueClass.BATCH.value)
