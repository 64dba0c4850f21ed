"""Random kill -9 of server and PostgreSQL while payments are told, twice each, from several threads.

A payment service tells of a payment until it hears that it was counted.  Afterwards each payment was counted once, also
those whose answer was lost, balances are the sums of their entries, and beancount agrees.
"""

from __future__ import annotations

import os
import random
import secrets
import signal
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import pytest
from beancount import loader

from millpond.domain.errors import Conflict, MillpondError
from tests.live import Millpond, millpond_up, wait_for

ACTORS = 3


@dataclass
class Payers:
    """``told``: reference → amount in fen.  Every payment is told by two actors, with a key for each telling."""

    pond: Millpond
    seed: int
    told: dict[str, int] = field(default_factory=dict)
    answers: Counter[str] = field(default_factory=Counter)
    stop: threading.Event = field(default_factory=threading.Event)
    failure: str = ""

    def run(self, actor: int) -> None:
        dice = random.Random(self.seed * ACTORS + actor)
        number = 0
        while not self.stop.is_set():
            for payer in (actor, (actor + 1) % ACTORS):
                reference = f"{payer}-{number}"
                fen = 1 + (payer * 7919 + number * 104_729) % 9_999
                self.told[reference] = fen
                self.answers[self._tell(reference, fen, f"{actor}/{reference}")] += 1
            number += 1
            self.stop.wait(dice.uniform(0.01, 0.15))

    def _tell(self, reference: str, fen: int, key: str) -> str:
        """Until it was counted, by this telling or another one: the server may be dead for a while."""
        while True:
            try:
                with self.pond.client() as client:
                    client.accounts.top_up("alpha", f"{fen / 100:.2f}", "bank", reference, key)
                    return "counted"
            except Conflict as conflict:
                if conflict.reason == "GRANT_EXISTS":
                    return "counted before"
                self.failure = str(conflict)
            except (MillpondError, OSError, ValueError) as error:
                self.failure = f"last error of a top-up: {error}"
            time.sleep(0.1)


def _kill(pond: Millpond, target: str) -> bool:
    try:
        if target == "server":
            pid = int(pond.server()["pid"])
        else:
            pid = int((pond.state_dir / "postgres" / "cluster" / "postmaster.pid").read_text().split("\n")[0])
        os.kill(pid, signal.SIGKILL)
    except (OSError, ValueError):
        return False
    return True


def _answers(pond: Millpond) -> bool:
    try:
        with pond.client() as client:
            return bool(client.accounts.get("alpha"))
    except (MillpondError, OSError, ValueError):
        return False


def _payments_survive(folder: Path, kills: int) -> None:
    seed = int(os.environ.get("MILLPOND_TEST_SEED") or secrets.randbelow(10**9))
    print(f"MILLPOND_TEST_SEED={seed}")
    dice = random.Random(seed)
    done: list[str] = []
    with millpond_up(folder, "1x1xA800-80GB") as pond:
        pond.command("tenants", "create", "alpha")
        pond.command("accounts", "open", "alpha", "--currency", "CNY", "--zone", "UTC", "--mode", "prepaid")
        payers = Payers(pond, seed)
        threads = [threading.Thread(target=payers.run, args=(actor,), daemon=True) for actor in range(ACTORS)]
        for thread in threads:
            thread.start()
        while len(done) < kills:
            time.sleep(dice.uniform(0.2, 1.5))
            target = dice.choice(("server", "postgres"))
            if not _kill(pond, target):
                continue
            done.append(target)
            if target == "server":
                pond.up()
        payers.stop.set()
        for thread in threads:
            thread.join(120.0)
            assert not thread.is_alive(), f"seed {seed}: {payers.failure}"
        wait_for(lambda: _answers(pond), f"the server to answer (seed {seed})", 60.0, 0.2)
        print(f"kills: {', '.join(done)}; payments: {len(payers.told)}; {dict(payers.answers)}")
        _verify(pond, payers, seed)


def _verify(pond: Millpond, payers: Payers, seed: int) -> None:
    with pond.client() as client:
        lines = list(client.accounts.lines("alpha", ["wallet"]))
        sheet = client.accounts.balance("alpha")
        text = client.accounts.beancount("alpha")
    counted = Counter({line["source"][-1]: int(Decimal(line["amount"]) * 100) for line in lines})
    assert len(lines) == len(counted), f"seed {seed}: a payment was counted twice"
    assert dict(counted) == payers.told, f"seed {seed}"
    assert int(Decimal(sheet["available"]) * 100) == sum(payers.told.values()), f"seed {seed}"
    assert len(sheet["grants"]) == len(payers.told), f"seed {seed}"
    assert loader.load_string(text)[1] == [], f"seed {seed}"
    check = pond.command("db", "check", check=False)
    assert check.returncode == 0, f"seed {seed}: {check.stdout}{check.stderr}"


@pytest.mark.live
@pytest.mark.timeout(600)
def test_six_kills_while_payments_are_told(home: Path) -> None:
    _payments_survive(home, 6)


@pytest.mark.live
@pytest.mark.long
@pytest.mark.timeout(3600)
def test_sixty_more(home: Path) -> None:
    _payments_survive(home, 60)
