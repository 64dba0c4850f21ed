"""Turns skips into failures where the machine is ours to equip: with ``CI=true`` only missing hardware may skip a test.

A skip that nobody sees is a test that nobody runs.  Reasons that are allowed begin with one of `ALLOWED`: hardware, and
what excludes something else that is tested (a kernel has control groups of one version; a run has one user).
"""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

ALLOWED = ("needs an NVIDIA card", "needs a GPU", "needs a card with MIG", "needs a cgroup v2 hierarchy", "needs root")


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """The reason of a skipped report, without pytest's prefix."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


def allowed(reason: str) -> bool:
    return reason.startswith(ALLOWED)


def strict() -> bool:
    return os.environ.get("CI", "").lower() in {"1", "true"}


def _judge(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.outcome == "skipped" and not hasattr(report, "wasxfail") and strict():
        reason = reason_of(report)
        if not allowed(reason):
            report.outcome = "failed"
            report.longrepr = f"skipped in CI, where everything but hardware must be there: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _judge(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _judge(report)
    return report
