"""The facts of the benchmark are good ones, and the query that is its mark computes what the product does."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from itertools import pairwise

from benchmarks import rating
from benchmarks.peers.rating_sql import TABLES, fact_rows, price_rows, query

from millpond.billing.currencies import currency_find
from millpond.billing.pipeline import Account, Pipeline
from millpond.billing.rating import Rules

COUNT = 20_000


def pipeline() -> Pipeline:
    account = Account("bench", rating.ZONE, currency_find("CNY"))
    return Pipeline(account, rating.PERIOD, rating.book_make(), Rules())


def test_facts_are_sorted_and_contradict_nothing() -> None:
    facts = list(rating.facts_make(COUNT, slots=200))
    assert COUNT * 0.98 < len(facts) <= COUNT
    assert all(one.time <= two.time for one, two in pairwise(facts))
    assert len({fact.id for fact in facts}) < len(facts)
    bill = pipeline()
    bill.run(facts)
    assert bill.alarms() == []
    assert list(bill.unrated()) == []


def test_the_query_says_what_the_product_says() -> None:
    facts = list(rating.facts_make(COUNT, slots=200))
    bill = pipeline()
    bill.run(facts)
    lines = list(bill.lines())
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(TABLES)
        connection.executemany("INSERT INTO facts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", fact_rows(facts))
        connection.executemany("INSERT INTO prices VALUES (?, ?, ?, ?, ?)", price_rows(rating.book_make()))
        found = connection.execute(query(rating.PERIOD, "min", "max")).fetchone()
    assert found == (len(lines), sum(line.billed for line in lines), bill.totals().net.minor())
