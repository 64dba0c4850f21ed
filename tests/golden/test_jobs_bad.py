"""Malformed job files: each is refused with one line that names the place, what is wrong and what to try."""

from __future__ import annotations

from pathlib import Path

import pytest

from millpond.domain.errors import InvalidInput
from millpond.files.jobs import job_file_load
from millpond.files.tree import text_decode

FOLDER = Path(__file__).parent / "jobs_bad"
EXPECTED = FOLDER / "expected.txt"


def _error(data: bytes, source: str) -> str:
    with pytest.raises(InvalidInput) as caught:
        job_file_load(text_decode(data, source), source, {})
    return str(caught.value)


def _goldens() -> dict[str, str]:
    lines = EXPECTED.read_text().splitlines()
    return {line.partition(":")[0]: line for line in lines}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_bad_file_gives_its_golden_line(path: Path) -> None:
    line = _error(path.read_bytes(), path.name)
    assert "\n" not in line
    assert line == _goldens()[path.name]


def test_every_golden_line_has_its_file() -> None:
    names = {path.name for path in FOLDER.glob("*.yaml")}
    assert set(_goldens()) == names
    assert len(names) >= 40


def test_ten_megabytes_are_refused_before_they_are_read() -> None:
    data = b"name: train\ncommands: [a]\n# " + b"x" * (10 << 20)
    assert _error(data, "big.yaml") == "big.yaml:1:1: the file has more than 1 MiB (a job file is a few lines)"


def test_long_list_is_refused() -> None:
    data = b"name: train\ncommands:\n" + b"- a\n" * 101
    assert _error(data, "long.yaml") == "long.yaml:103:3: commands[100]: the list has 101 items; 100 are allowed"
