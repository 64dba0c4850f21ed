"""``millpond report`` and ``millpond invoice export`` against a served API."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from openpyxl import load_workbook
from pypdf import PdfReader

from tests.api.house import House
from tests.api.test_reports import use

pytestmark = pytest.mark.postgres

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(served: House) -> Call:
    """One command as the platform's admin, in a process of its own: exit code, output, notes."""
    use(served)
    environ = {
        "MILLPOND_SERVER": str(served.client.base_url), "MILLPOND_TOKEN": served.tokens["root"], "HOME": "/nowhere",
        "LANG": "C.UTF-8",
    }  # fmt: skip

    def run(*args: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [sys.executable, "-m", "millpond.cli.main", *args],
            env=environ,
            capture_output=True,
            check=False,
            timeout=60,
        )
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    return run


def test_a_table_for_people(call: Call) -> None:
    code, out, err = call("report", "usage", "--by", "team", "--month", "2026-11")
    assert code == 0, err
    assert [line.split() for line in out.splitlines()[-4:]] == [
        ["Tenant", "Card-hours", "Lost,", "not", "billed"],
        ["factor", "2.0000", "0.0000"],
        ["trade", "13.0000", "1.0000"],
        ["Total", "15.0000", "1.0000"],
    ]
    assert "Measured utilisation is blank" in err
    assert "租户" in call("report", "usage", "--by", "team", "--month", "2026-11", "--lang", "zh")[1]


def test_json_lines_for_machines(call: Call) -> None:
    code, out, _ = call("report", "usage", "--month", "2026-11", "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert lines[-1] == {"end": True, "rows": 3}


def test_the_name_of_the_file_says_the_format(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "usage.xlsx"
    code, _, err = call("report", "usage", "--month", "2026-11", "-o", str(path))
    assert (code, str(path) in err) == (0, True)
    assert load_workbook(io.BytesIO(path.read_bytes())).sheetnames == ["Summary", "Usage", "Reconciliation"]
    assert call("report", "policy", "--lang", "zh", "-o", str(tmp_path / "policy.pdf"))[0] == 0
    assert "队列策略" in PdfReader(tmp_path / "policy.pdf").pages[0].extract_text()
    assert call("report", "usage", "--month", "2026-11", "--format", "csv")[1].startswith("\ufeffTenant,")


def test_nothing_is_left_of_what_failed(call: Call, tmp_path: Path) -> None:
    code, _, err = call("report", "metering", "--tenant", "factor", "-o", str(tmp_path / "x.pdf"))
    assert code != 0
    assert "millpond accounts open factor" in err
    assert list(tmp_path.iterdir()) == []
    assert call("report", "usage", "-o", str(tmp_path / "none" / "x.pdf"))[0] != 0
    assert call("invoice", "export", "INV-404")[0] != 0


def test_own_cards_beside_rented_ones(call: Call) -> None:
    given = ("--server-price", "2400000", "--power-kw", "10.2", "--energy", "0.65", "--yearly", "120000")
    code, out, _ = call("report", "tco", *given, "--rental", "21.77")
    assert code == 0
    assert "2,746,507.32" in out
    assert "60.0 %" in out
    assert call("report", "tco", *given, "--pue", "0.5")[0] != 0
