"""``millpond accounts`` and ``millpond balance`` as people type them, against a whole millpond, in both languages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from beancount import loader

from tests.e2e.test_cli_live import OK, REFUSED, USAGE, Result, call
from tests.live import Millpond, home_made, millpond_up

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def pond() -> Iterator[Millpond]:
    with home_made() as folder, millpond_up(folder, "1x1xA800-80GB") as found:
        found.command("tenants", "create", "alpha")
        yield found


def asked(pond: Millpond, *words: str, **environ: str) -> Result:
    return call(pond, *words, MILLPOND_TENANT="alpha", **environ)


def sheet(pond: Millpond) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(asked(pond, "balance", "--json").out)
    return found


def test_from_nothing_to_a_whole_balance(pond: Millpond) -> None:
    """One story, in the order in which an operator types it."""
    empty = call(pond, "accounts")
    assert (empty.code, "millpond accounts open TENANT" in empty.err) == (OK, True)
    none = asked(pond, "balance")
    assert (none.code, "no billing account" in none.err) == (REFUSED, True)
    wrong = call(pond, "accounts", "open", "alpha", "--currency", "RMB", "--zone", "Asia/Shanghai")
    assert (wrong.code, "did you mean CNY?" in wrong.err) == (REFUSED, True), wrong.err
    terms = ("--currency", "CNY", "--zone", "Asia/Shanghai", "--tax-rate", "0.06", "--mode", "prepaid")
    opened = call(pond, "accounts", "open", "alpha", *terms)
    assert "alpha is billed from" in opened.err
    assert "millpond balance top-up AMOUNT --tenant alpha" in opened.err
    assert "Nothing is there to spend" in asked(pond, "balance").err

    paid = ("balance", "top-up", "100.00", "--provider", "bank", "--reference", "4711")
    assert "alpha has 100.00 CNY more (paid)" in asked(pond, *paid).err
    double = asked(pond, *paid)
    assert (double.code, "nothing is missing" in double.err) == (REFUSED, True)
    assert json.loads(asked(pond, *paid, "--json").err)["error"]["code"] == "GRANT_EXISTS"

    assert asked(pond, "balance", "trial", "--identity", "ab" * 32).code == OK
    assert asked(pond, "balance", "trial", "--identity", "ab" * 32).code == OK
    later = (datetime.now(UTC) + timedelta(days=90)).date().isoformat()
    hours = ("--card-hours", "100", "--price", "1000.00", "--expires", later, "--sku", "A800")
    assert "100.0000 card-hours" in asked(pond, "balance", "grant", "pack", "--code", "o1", *hours).err
    found = sheet(pond)
    assert (found["available"], found["packs"]["card_hours"]) == ("110.00", "100.0000")

    shown = asked(pond, "balance").out
    assert "110.00 CNY" in shown
    assert "card-hours" in shown
    chinese = asked(pond, "balance", MILLPOND_LANG="zh").out
    assert "资源包" in chinese
    assert "预付费" in chinese

    needs_yes = asked(pond, "balance", "back", "30.00", "--reference", "b1")
    assert needs_yes.code == USAGE
    assert asked(pond, "balance", "back", "30.00", "--reference", "b1", "--yes").code == OK
    trial = next(grant for grant in sheet(pond)["grants"] if grant["kind"] == "trial")
    assert asked(pond, "balance", "revoke", trial["id"], "--yes").code == OK
    owed = asked(pond, "balance", "pay", "5.00", "--reference", "p1")
    assert (owed.code, "book it as a top-up" in owed.err) == (REFUSED, True)
    assert sheet(pond)["available"] == "70.00"

    lines = json.loads(asked(pond, "balance", "lines", "--kind", "wallet", "--json").out)["items"]
    assert [line["amount"] for line in lines] == ["-30.00", "100.00"]
    assert "top-up bank 4711" not in asked(pond, "balance", "lines", "--kind", "credit").out
    past = json.loads(asked(pond, "balance", "show", "--as-of", "2020-01-01", "--json").out)
    assert (past["available"], past["grants"]) == ("0.00", [])
    assert asked(pond, "balance", "show", "--as-of", "yesterday").code == USAGE
    text = asked(pond, "balance", "beancount").out
    assert loader.load_string(text)[1] == []
    assert text.count("\n20") > 4

    assert asked(pond, "accounts", "set", "alpha").code == USAGE
    assert asked(pond, "accounts", "set", "alpha", "--notice", "600").code == OK
    assert "for life" in asked(pond, "accounts", "set", "alpha", "--currency", "USD").err
    assert "600" in asked(pond, "accounts", "show", "alpha").out
    assert "alpha" in call(pond, "accounts", "list").out
    assert pond.command("db", "check").returncode == OK
