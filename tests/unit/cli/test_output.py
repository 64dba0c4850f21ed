import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.cli.errors import printable
from millpond.cli.output import Column, aligned, clip, text_width
from millpond.cli.values import amounts, local, ranges, seats

CELLS = st.text(st.characters(codec="utf-8", categories=("L", "N", "P")), min_size=1, max_size=12)


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=6), st.booleans())
def test_columns_begin_at_the_same_place(rows: list[tuple[str, str, str]], right: bool) -> None:
    columns = (Column("name", right=right), Column("state"), Column("id"))
    lines = aligned(rows, columns)
    width = max(text_width(row[0]) for row in rows)
    for line, row in zip(lines, rows, strict=True):
        gap = " " * (width - text_width(row[0]))
        start = gap + row[0] if right else row[0] + gap
        assert line.startswith(start + "  " + row[1])


@given(st.text(), st.integers(min_value=2, max_value=40))
def test_clipped_text_fits(text: str, width: int) -> None:
    clipped = clip(text, width)
    assert text_width(clipped) <= width
    assert clipped == text or clipped.endswith("…")


@given(st.text())
def test_nothing_steers_the_terminal(text: str) -> None:
    assert printable(text).isprintable()


@pytest.mark.parametrize(("text", "width"), [("abc", 3), ("作业", 4), ("e\u0301", 1), ("", 0)])
def test_width(text: str, width: int) -> None:
    assert text_width(text) == width


@given(st.sets(st.integers(min_value=0, max_value=40)))
def test_ranges_name_every_number_once(numbers: set[int]) -> None:
    found: list[int] = []
    for part in ranges(numbers).split(","):
        low, _, high = part.partition("-")
        found.extend(range(int(low), int(high or low) + 1) if part else [])
    assert found == sorted(numbers)


def test_seats() -> None:
    assert seats([]) == ""
    assert seats([{"node": "n1", "cards": [0, 1, 3], "milli": 1000}, {"node": "n2", "cards": [], "milli": 0}]) == (
        "n1[0-1,3] n2"
    )
    assert seats([{"node": "n1", "cards": [2], "milli": 250}]) == "n1[2]*0.25"
    assert seats([{"node": "n1", "cards": [2], "milli": 1000, "slice": "1g.5gb"}]) == "n1[2:mig-1g.5gb]"


def test_amounts() -> None:
    assert amounts({}) == ""
    assert amounts({"cards": 2500}) == "2.5"
    assert amounts({"cards": 16000, "A800-80GB": 8000}) == "16 A800-80GB:8"


def test_no_time_is_empty() -> None:
    assert local(None) == ""
