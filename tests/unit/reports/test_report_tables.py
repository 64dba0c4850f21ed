"""Tables of any length: rows go through, and what was written last is not remembered."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC

import pytest

from millpond.domain.errors import Refused
from millpond.reports import catalogue, catalogue_pool
from millpond.reports.csv_file import report_csv
from millpond.reports.json_lines import report_json
from millpond.reports.pdf_file import PDF_ROWS, report_pdf
from millpond.reports.tables import Field, Kind, Report, Row, Section
from millpond.reports.xlsx_file import report_xlsx

FIELDS = (Field("job"), Field("card_hours", Kind.CARD_HOURS, sums=True), Field("attempts", Kind.COUNT, sums=True))


def report(rows: Callable[[], Iterable[Row]]) -> Report:
    return Report("usage", UTC, (), (Section("usage", FIELDS, rows),))


def many(count: int, seen: list[int] | None = None) -> Callable[[], Iterator[Row]]:
    def rows() -> Iterator[Row]:
        for index in range(count):
            if seen is not None:
                seen[0] = index + 1
            yield (f"job-{index}", 3_600_000, 1)

    return rows


@pytest.mark.parametrize("write", [report_csv, report_json])
def test_the_first_piece_comes_long_before_the_last_row(write: Callable[[Report, str], Iterator[bytes]]) -> None:
    """A million rows: nothing but the pieces that were asked for is made."""
    seen = [0]
    pieces = write(report(many(1_000_000, seen)), "en")
    size = 0
    while size < 100_000:
        size += len(next(pieces))
    assert 0 < seen[0] < 20_000


def peak(make: Callable[[int], Iterator[bytes]], rows: int) -> int:
    tracemalloc.start()
    for _ in make(rows):
        pass
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found


@pytest.mark.parametrize("write", [report_csv, report_json, report_xlsx])
def test_ten_times_the_rows_need_no_more_memory(write: Callable[[Report, str], Iterator[bytes]]) -> None:
    def make(rows: int) -> Iterator[bytes]:
        return write(report(many(rows)), "en")

    peak(make, 100)
    few, lots = peak(make, 2_000), peak(make, 20_000)
    assert lots < few + 400_000, (few, lots)


def test_a_pdf_of_too_many_rows_is_refused_with_what_to_take_instead() -> None:
    with pytest.raises(Refused, match="xlsx or csv"):
        next(report_pdf(report(many(PDF_ROWS + 1)), "en"))


def test_an_empty_table_says_so() -> None:
    assert report(many(0)).sections[0].rows() is not None
    assert b"".join(report_json(report(many(0)), "zh")).endswith(b'{"end":true,"rows":0}\n')
    assert next(report_pdf(report(many(0)), "zh")).startswith(b"%PDF")


def test_every_text_is_there_in_both_languages() -> None:
    for part in (
        catalogue.WORDS,
        catalogue.TITLES,
        catalogue.SECTIONS,
        catalogue.FIELDS,
        catalogue.FACTS,
        catalogue.NOTES,
        catalogue_pool.REASONS,
    ):
        for key, (english, chinese) in part.items():
            assert english, key
            assert chinese, key
            assert english.isascii(), key
