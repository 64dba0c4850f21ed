"""`rate` as people see it: bills that are known, and one line for every bad file."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from millpond.files.rating import ACCOUNT_KEYS, FILE_KEYS, RULE_KEYS
from millpond.files.rating_facts import EVENTS, FACT_KEYS
from millpond.metering.alarms import AlarmCode
from tests.golden.rating_files import (
    BAD,
    EXAMPLES,
    FOLDER,
    FORMS,
    bad_names,
    bad_output,
    command_output,
    names,
    rate_output,
)

HEAD = {
    "account": {"name": "broker", "zone": "Asia/Shanghai", "currency": "CNY"},
    "period": "2026-11",
    "prices": [{"version": "v1", "sku": "A800-80GB", "price": "12.00", "from": "2026-01-01"}],
}
START = {
    "id": "f1",
    "time": "2026-11-10T10:00:00+08:00",
    "event": "started",
    "job": "j1",
    "attempt": 1,
    "cards": ["GPU-a"],
    "milli": 500,
    "sku": "A800-80GB",
    "class": "prod",
    "project": "alpha",
    "user": "zhang3",
}
END = {
    "id": "f2",
    "time": "2026-11-10T11:00:00.9Z",
    "event": "ended",
    "job": "j1",
    "attempt": 1,
    "reason": "failed(137)",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", names())
def test_bills_of_the_examples(name: str, form: str) -> None:
    assert rate_output(name, form) == (FOLDER / f"{name}.{form}").read_text(encoding="utf-8")


def test_json_is_one_object_with_sorted_keys_and_amounts_as_strings() -> None:
    for name in names():
        found = json.loads(rate_output(name, "json"))
        assert list(found) == ["alarms", "buckets", "invoice", "lines", "unrated"]
        for rows in (found["alarms"], found["buckets"], found["lines"], found["unrated"], [found["invoice"]]):
            for row in rows:
                assert list(row) == sorted(row)
                assert not any(isinstance(value, float) for value in row.values())


@pytest.mark.parametrize("name", bad_names())
def test_a_bad_file_gives_its_line(name: str) -> None:
    expected = (BAD / "expected.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    assert dict(zip(bad_names(), expected, strict=True))[name] == bad_output(name)


def test_json_lines_with_their_head_beside_and_compressed(tmp_path: Path) -> None:
    lines = [json.dumps(value) + "\n" for value in (HEAD, START, START, END)]
    one = tmp_path / "one.jsonl"
    one.write_text("".join(lines))
    packed = tmp_path / "one.jsonl.gz"
    packed.write_bytes(gzip.compress(one.read_bytes()))
    (tmp_path / "facts.jsonl").write_text("".join(lines[1:]))
    beside = tmp_path / "beside.yaml"
    beside.write_text(json.dumps({**HEAD, "facts": "facts.jsonl"}))
    listed = tmp_path / "listed.yaml"
    listed.write_text(json.dumps({**HEAD, "facts": [END, START, START]}))
    outputs = {command_output("rate", str(path), "--json") for path in (one, packed, beside, listed)}
    assert len(outputs) == 1
    code, out, err = outputs.pop()
    assert (code, err) == (0, "")
    bill = json.loads(out)
    assert bill["lines"][0]["billed_milli_seconds"] == 500 * 9 * 3600
    assert bill["invoice"] == {"currency": "CNY", "net": "54.00", "tax": "0.00", "total": "54.00"}


def test_the_price_of_a_json_number_is_read_as_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    price = {**HEAD["prices"][0], "price": 12.1}  # type: ignore[index]
    path.write_text("\n".join(json.dumps(value) for value in ({**HEAD, "prices": [price]}, START, END)))
    assert json.loads(command_output("rate", str(path), "--json")[1])["invoice"]["net"] == "54.45"


def test_nothing_to_bill(tmp_path: Path) -> None:
    path = tmp_path / "empty.yaml"
    path.write_text(json.dumps({**HEAD, "facts": []}))
    code, out, err = command_output("rate", str(path))
    assert (code, err) == (0, "Nothing to bill in this period.\n")
    assert "0.00 CNY" in out


def test_every_example_says_how_to_run_it() -> None:
    for name in names():
        assert f"millpond rate examples/billing/{name}.yaml" in (EXAMPLES / f"{name}.yaml").read_text()


GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "rating.md"


def test_the_guide_shows_what_is_printed_and_a_file_that_is_read(tmp_path: Path) -> None:
    page = GUIDE.read_text(encoding="utf-8")
    printed = page.partition("```text\n")[2].partition("```")[0]
    assert printed == (FOLDER / "evictions.en.txt").read_text(encoding="utf-8")
    shown = tmp_path / "shown.yaml"
    shown.write_text(page.partition("```yaml\n")[2].partition("```")[0], encoding="utf-8")
    code, out, err = command_output("rate", str(shown), "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["invoice"] == {"currency": "CNY", "net": "928.00", "tax": "55.68", "total": "983.68"}


def test_the_guide_explains_every_key_alarm_and_event() -> None:
    page = GUIDE.read_text(encoding="utf-8")
    codes = [code.value for code in AlarmCode if code is not AlarmCode.SKEW]  # the server's own, about its engines
    for word in (*FACT_KEYS, *FILE_KEYS, *ACCOUNT_KEYS[1:], *RULE_KEYS, *EVENTS, *codes):
        assert f"`{word}`" in page or f"`{word}:" in page, word
