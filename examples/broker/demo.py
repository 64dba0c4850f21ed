"""The broker's day on 64 simulated cards: ``make demo``, or ``python examples/broker/demo.py [--report FILE]``.

At night factor (40 cards) and nlp (24) fill the pool with real training jobs.  At the opening bell trade's service
takes back the 16 cards that are guaranteed to it: the two nlp jobs with least to lose save and yield.  In the evening
they go on where they were.  Exit code 0 only if everything that the report checks holds.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from board import Board
from journal import Journal
from report import Check, checks_make, report_make
from rich.console import Console
from rich.table import Table
from scenario import ActFailed, Broker
from stage import StageError, stage_open

from millpond.sdk.errors import MillpondError

POOL = "8x8xA800-80GB"
PLAIN_WIDTH = 120


def report_show(console: Console, figures: dict[str, object], checks: list[Check]) -> None:
    table = Table("", "what must hold", "seen", show_edge=False)
    for check in checks:
        table.add_row("ok" if check.holds else "NO", check.what, check.seen, style="" if check.holds else "bold red")
    console.print(table)
    bills = Table("team", "card-hours", "net", "tax 6 %", "total", title="bills of the day", show_edge=False)
    for bill in figures["bills"]:  # type: ignore[attr-defined]
        amounts = (f"{bill[name]} {bill['currency']}" for name in ("net", "tax", "total"))
        bills.add_row(bill["tenant"], bill["card_hours"], *amounts)
    console.print(bills)
    shares = ", ".join(f"{act} {share:.0%}" for act, share in dict(figures["pool_utilisation"]).items())  # type: ignore[call-overload]
    console.print(f"pool in use: {shares}; lost work: {figures['lost_card_seconds']} card-seconds", highlight=False)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description="A broker's night, morning and evening on one pool of cards.")
    parser.add_argument("--report", type=Path, default=Path("demo-report.json"), help="where the report goes")
    options = parser.parse_args(argv)
    console = Console()
    if not console.is_terminal:
        console = Console(width=PLAIN_WIDTH)
    began = time.monotonic()
    try:
        with stage_open(POOL) as stage:
            journal = Journal(stage.client)
            with Board(stage.client, journal, console) as board:
                board.say(f"millpond is up at {stage.client.server} with {POOL} (simulated)")
                broker = Broker(stage.client, journal, board)
                broker.tenants_make()
                broker.night()
                broker.morning()
                broker.evening()
                broker.close()
                figures = report_make(broker)
            checks = checks_make(figures, broker.day.languages[-1]["name"])
    except (ActFailed, StageError, MillpondError) as error:
        console.print(f"the demo failed: {error}", markup=False, highlight=False, soft_wrap=True)
        return 1
    figures["seconds"] = round(time.monotonic() - began, 1)
    figures["checks"] = [{"what": check.what, "holds": check.holds, "seen": check.seen} for check in checks]
    options.report.write_text(json.dumps(figures, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    report_show(console, figures, checks)
    console.print(f"{options.report} written; the whole day took {figures['seconds']} s", highlight=False)
    return 0 if all(check.holds for check in checks) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
