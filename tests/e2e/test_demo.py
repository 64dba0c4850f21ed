"""The broker's day runs from end to end, and its report says so."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.live
def test_demo_report(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    command = [sys.executable, str(ROOT / "examples" / "broker" / "demo.py"), "--report", str(report)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(report.read_text())
    assert 0 <= figures["trade_ready_seconds"] <= 30
    assert figures["factor_evicted"] == 0
    assert figures["nlp_evicted"] == 2
    assert figures["retries_spent"] == 0
    assert len(figures["resumed"]) == 2
    for proof in figures["resumed"]:
        assert proof["resumed_from_step"] > 0
        assert proof["loss_after"] <= proof["loss_at_checkpoint"]
