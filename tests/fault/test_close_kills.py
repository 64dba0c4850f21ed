"""Random kill -9 of whoever closes a month, and of PostgreSQL, while two of them close it at the same time.

Afterwards every invoice is, byte for byte, that of a run that nobody disturbed; numbers have no gap; every invoice was
booked and told of once.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import psycopg
import pytest

from millpond.authz.actors import SYSTEM
from millpond.billing.currencies import currency_find
from millpond.billing.money import Money
from millpond.billing.prices import PriceVersion
from millpond.db import maintenance
from millpond.db.embedded import EmbeddedPostgres
from millpond.db.schema import upgrade
from millpond.db.session import Database, Tx, url_database, url_for_libpq
from millpond.db.stores.prices import prices_add
from millpond.db.stores.tenants import tenant_create
from millpond.domain.errors import Unavailable
from tests.api.till import Till
from tests.unit.metering.builders import at, ended, started

NOW = "2026-12-02T08:00:00+00:00"
MONTH = "2026-11"
ROWS = (
    "SELECT to_jsonb(i)::text FROM invoices i ORDER BY number",
    "SELECT to_jsonb(l)::text FROM invoice_lines l ORDER BY invoice, line",
    "SELECT transfer, account, amount FROM ledger_entries ORDER BY transfer, account",
    "SELECT tenant, sealed_until FROM accounts ORDER BY tenant",
)


def _fill(url: str, accounts: int, seed: int) -> None:
    """A month of some jobs for each account; the same for the same seed."""
    dice = random.Random(seed)
    database = Database(url, pool_size=2)
    till = Till(database)
    price = Money(Decimal("12.00"), currency_find("CNY"))

    def work(tx: Tx) -> None:
        prices_add(
            tx, SYSTEM, "", [PriceVersion("v1", "*", "*", price, at("01-01 00:00"))], datetime.fromisoformat(NOW)
        )
        for number in range(accounts):
            tenant_create(tx, SYSTEM, f"t{number:03}")

    database.run("fill", work)
    for number in range(accounts):
        tenant = f"t{number:03}"
        till.account(tenant)
        facts = []
        for job in range(dice.randrange(4)):
            begin = at("11-01 00:00") + dice.randrange(28 * 86_400)
            name = f"{tenant}-{job}"
            facts += [started(begin, name, milli=dice.choice((250, 1000, 8000)))]
            facts += [ended(begin + dice.randrange(60, 90_000), job=name)]
        if facts:
            till.used(tenant, facts)
    till.settled(datetime(2026, 12, 2, tzinfo=UTC))
    database.close()


def _closer(url: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.fault.closer", url, MONTH, NOW]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def _undisturbed(url: str) -> None:
    closer = _closer(url)
    closer.communicate(timeout=300)
    assert closer.returncode == 0


def _reached(closer: subprocess.Popen[str], done: str, further: int) -> str:
    """The tenant that it has come to, so many after `done`; empty when it ended before."""
    assert closer.stdout is not None
    for line in closer.stdout:
        tenant = json.loads(line)["done"][0][0]
        further -= tenant > done
        if further <= 0:
            return str(tenant)
    return ""


def _killed(server: EmbeddedPostgres, cluster: Path, dice: random.Random, closer: subprocess.Popen[str]) -> str:
    """Somebody dies: the closer, or PostgreSQL, which comes back."""
    time.sleep(dice.uniform(0.0, 0.03))
    if dice.random() < 0.7:
        closer.kill()
        return "closer"
    os.kill(int((cluster / "postmaster.pid").read_text().split("\n")[0]), signal.SIGKILL)
    closer.kill()
    deadline = time.monotonic() + 60
    while True:
        try:
            server.ensure()
            return "postgres"
        except Unavailable:
            assert time.monotonic() < deadline
            time.sleep(0.2)


def _rows(url: str) -> list[list[tuple[object, ...]]]:
    with psycopg.connect(url_for_libpq(url)) as connection:
        return [connection.execute(statement).fetchall() for statement in ROWS]


def _closing_survives(folder: Path, kills: int, accounts: int) -> None:
    seed = int(os.environ.get("MILLPOND_TEST_SEED") or secrets.randbelow(10**9))
    print(f"MILLPOND_TEST_SEED={seed}")
    dice = random.Random(seed)
    server = EmbeddedPostgres(folder / "postgres", folder / "run")
    base = server.ensure()
    try:
        urls = []
        for name in ("calm", "killed"):
            with psycopg.connect(url_for_libpq(base), autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {name}")
            urls.append(url_database(base, name))
            upgrade(urls[-1])
            _fill(urls[-1], accounts, seed)
        calm, killed = urls
        _undisturbed(calm)
        done: list[str] = []
        reached = ""
        while len(done) < kills:
            pair = [_closer(killed), _closer(killed)]
            reached = _reached(pair[0], reached, dice.randrange(1, 4))
            if reached:
                done.append(_killed(server, folder / "postgres" / "cluster", dice, pair[0]))
            for closer in pair:
                closer.kill()
                closer.communicate()
            assert reached, f"seed {seed}: only {len(done)} kills hit a closing: {done}"
        _undisturbed(killed)
        print(f"kills: {', '.join(done)}")
        _verify(calm, killed, seed)
    finally:
        server.stop()


def _verify(calm: str, killed: str, seed: int) -> None:
    for one, other in zip(_rows(calm), _rows(killed), strict=True):
        assert one == other, f"seed {seed}"
    with psycopg.connect(url_for_libpq(killed)) as connection:
        serials = [serial for (serial,) in connection.execute("SELECT serial FROM invoices ORDER BY serial")]
        told = connection.execute("SELECT count(*) FROM events WHERE kind = 'invoice.issued'").fetchone()
    assert serials == list(range(1, len(serials) + 1)), f"seed {seed}"
    assert told == (len(serials),), f"seed {seed}"
    assert maintenance.check(killed) == [], f"seed {seed}"


@pytest.mark.postgres
@pytest.mark.timeout(600)
def test_seven_kills_while_a_month_is_closed(home: Path) -> None:
    _closing_survives(home, 7, 80)


@pytest.mark.postgres
@pytest.mark.long
@pytest.mark.timeout(3600)
def test_many_more(home: Path) -> None:
    _closing_survives(home, 70, 600)
