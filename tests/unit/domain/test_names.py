"""Names, ids, queue names and the error tree."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.domain.errors import Forbidden, InvalidInput, MillpondError, Position
from millpond.domain.jobs import QueueClass
from millpond.domain.names import (
    attempt_id,
    attempt_split,
    env_name_parse,
    id_make,
    id_valid,
    label_parse,
    natural_key,
    user_parse,
)
from millpond.domain.queues import leaf_names, queue_ancestors, queue_name_parse, queue_parent, queue_tenant
from tests.builders import queue


@pytest.mark.parametrize("text", ["a", "a-b", "x1", "a" * 63])
def test_labels(text: str) -> None:
    assert label_parse(text, "job") == text


@pytest.mark.parametrize("text", ["", "-a", "a-", "A", "a_b", "a.b", "a/b", "a\0", "a\n", "a" * 64, "é"])
def test_labels_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="job"):
        label_parse(text, "job")


def test_users() -> None:
    assert user_parse("li4@example.com") == "li4@example.com"
    for text in ("", "a b", "-a", "a\n"):
        with pytest.raises(InvalidInput):
            user_parse(text)


def test_env_names() -> None:
    assert env_name_parse("HF_TOKEN") == "HF_TOKEN"
    for text in ("1A", "A-B", "", "MILLPOND_X", "LD_PRELOAD", "GCONV_PATH", "LOCPATH", "A=B", "A\0"):
        with pytest.raises(InvalidInput):
            env_name_parse(text)


@given(st.integers(0, 2**48 - 1), st.integers(0, 2**48 - 1), st.binary(min_size=10, max_size=10))
def test_ids(first: int, second: int, noise: bytes) -> None:
    a, b = id_make("j", first, noise), id_make("j", second, noise)
    assert id_valid(a, "j")
    assert not id_valid(a, "t")
    assert attempt_split(attempt_id(a, 12)) == (a, 12)
    assert (first == second) == (a == b)
    assert (first < second) == (a < b)


@pytest.mark.parametrize("text", ["", "j", "j-", "-1", "j-x"])
def test_attempt_ids_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        attempt_split(text)


def test_natural_order() -> None:
    assert sorted(["n10", "n2", "n1", "a3b", "a12b"], key=natural_key) == ["a3b", "a12b", "n1", "n2", "n10"]


def test_queue_names() -> None:
    assert queue_ancestors("t/x/batch") == ("t/x/batch", "t/x", "t", "")
    assert queue_parent("t") == ""
    assert queue_tenant("t/x/batch") == "t"
    assert queue_name_parse("t/x/batch") == "t/x/batch"
    for text in ("a/b/c/d", "a//b", "A/b", ""):
        with pytest.raises(InvalidInput):
            queue_name_parse(text)
    assert leaf_names("t", "x", QueueClass.PROD) == ("t/x/prod", "t/prod")
    assert leaf_names("t", "", QueueClass.BATCH) == ("t/batch",)
    assert queue("t/batch").leaf
    assert not queue("t").leaf


def test_errors_tell_where_and_what_next() -> None:
    error = InvalidInput("no", hint="say yes").at(Position(3, 5, "resources.gpu", "job.yaml"))
    assert str(error) == "job.yaml:3:5: resources.gpu: no (say yes)"
    assert error.at(Position(9, 9)) is error
    assert str(Position(1, 2)) == "input:1:2"
    assert str(InvalidInput("no")) == "no"
    assert error.reason == "INVALID"
    assert Forbidden("no", code="X", details={"a": 1}).details == {"a": 1}
    assert issubclass(Forbidden, MillpondError)
