"""Amounts: exact parsing, shortest writing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.domain import amounts
from millpond.domain.errors import InvalidInput


@given(st.integers(0, amounts.MAX_AMOUNT))
def test_milli_round_trip(milli: int) -> None:
    assert amounts.milli_parse(amounts.milli_format(milli)) == milli


@given(st.integers(0, amounts.MAX_AMOUNT))
def test_duration_round_trip(seconds: int) -> None:
    assert amounts.duration_parse(amounts.duration_write(seconds)) == seconds


@given(st.integers(0, amounts.MAX_AMOUNT // 1024))
def test_memory_round_trip(mib: int) -> None:
    assert amounts.memory_parse(amounts.memory_format(mib)) == mib


@pytest.mark.parametrize(
    ("text", "milli"), [("0.25", 250), ("8", 8000), (" 1.500 ", 1500), ("0.3330", 333), ("0", 0), ("007", 7000)]
)
def test_milli(text: str, milli: int) -> None:
    assert amounts.milli_parse(text) == milli


@pytest.mark.parametrize("text", ["", "-1", "+1", "1e3", "0.3333", "one", "1.", ".5", "1,5", "９", "1000000001", "nan"])
def test_milli_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        amounts.milli_parse(text)


def test_milli_format_negative() -> None:
    assert amounts.milli_format(-250) == "-0.25"


@pytest.mark.parametrize(
    ("text", "mib"), [("64GB", 65_536), ("512MB", 512), ("1.5GB", 1536), ("2TB", 2_097_152), ("1 GiB", 1024), ("3m", 3)]
)
def test_memory(text: str, mib: int) -> None:
    assert amounts.memory_parse(text) == mib


@pytest.mark.parametrize("text", ["64", "0.5MB", "64KB", "GB", "-1GB", "999999999999TB"])
def test_memory_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        amounts.memory_parse(text)


def test_memory_format() -> None:
    assert [amounts.memory_format(mib) for mib in (0, 100, 2048, 1_048_576)] == ["0MB", "100MB", "2GB", "1TB"]


@pytest.mark.parametrize(("text", "milli"), [("16", 16_000), ("0.5", 500), ("500m", 500)])
def test_cpu(text: str, milli: int) -> None:
    assert amounts.cpu_parse(text) == milli


@pytest.mark.parametrize("text", ["m", "-1", "1.5m", "many", "²m"])
def test_cpu_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        amounts.cpu_parse(text)


@pytest.mark.parametrize(("text", "seconds"), [("8h", 28_800), ("1h30m", 5400), ("45", 45), ("2d", 172_800), ("0s", 0)])
def test_duration(text: str, seconds: int) -> None:
    assert amounts.duration_parse(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "30m1h", "1h1h", "1.5h", "-1s", "1y", "1h 30m", "999999999999w"])
def test_duration_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        amounts.duration_parse(text)


def test_duration_format() -> None:
    written = [amounts.duration_format(seconds) for seconds in (0, 59, 192, 3600, 90_000, -61, 86_401)]
    assert written == ["0s", "59s", "3m12s", "1h", "1d1h", "-1m1s", "1d"]
    assert amounts.duration_write(0) == "0s"


def test_integer() -> None:
    assert amounts.integer_parse(" 7 ", "count", 1, 9) == 7
    for text in ("0", "10", "x", "1.0", ""):
        with pytest.raises(InvalidInput, match="count"):
            amounts.integer_parse(text, "count", 1, 9)
