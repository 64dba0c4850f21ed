"""Billing accounts over HTTP: opened, topped up, given credit, paid; bad input and doubles leave no trace."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest

from millpond.authz.actors import SYSTEM
from millpond.billing.currencies import currency_find
from millpond.billing.ledger import Batch
from millpond.billing.money import money_parse
from millpond.billing.transfers import Account, AccountKind, Entry, Times, Transfer
from millpond.db.session import Database, Tx
from millpond.db.stores.ledger import batch_store
from tests.api.house import House, house_open

pytestmark = pytest.mark.postgres

OPEN = {"tenant": "trade", "currency": "CNY", "zone": "Asia/Shanghai", "mode": "prepaid", "tax_rate": "0.06"}
IDENTITY = "ab" * 32


@pytest.fixture
def bank(house: House) -> House:
    """A house where trade has a prepaid account."""
    assert house.ask("root", "POST", "/v1/accounts", OPEN).status_code == 201
    return house


def post(house: House, what: str, body: object, user: str = "root", **more: Any) -> httpx2.Response:
    return house.ask(user, "POST", f"/v1/accounts/{more.pop('tenant', 'trade')}/{what}", body, **more)


def topped(house: House, amount: str = "100.00", reference: str = "4711", **more: Any) -> httpx2.Response:
    return post(house, "top-ups", {"amount": amount, "provider": "bank", "reference": reference}, **more)


def sheet(house: House, **params: str) -> dict[str, Any]:
    answer = house.ask("ann", "GET", "/v1/accounts/trade/balance", params=params)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def code(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def owe(house: House, amount: str) -> None:
    """What an invoice would book."""
    unit = currency_find("CNY")
    value, now = money_parse(amount, unit), house.clock()
    entries = (
        Entry(Account("trade", AccountKind.RECEIVABLE, unit), -value),
        Entry(Account("", AccountKind.EARNINGS, unit), value),
    )
    batch = Batch((Transfer(("invoice", amount), entries, Times(now, now)),))

    def work(tx: Tx) -> None:
        batch_store(tx, SYSTEM, batch, now)

    house.database.run("owe", work)


def test_an_account_is_opened_once_and_read_by_its_people(bank: House) -> None:
    account = bank.ask("ann", "GET", "/v1/accounts/trade").json()
    assert account["currency"] == "CNY"
    assert account["tax_rate"] == "0.06"
    assert account["opened_at"] == account["sealed_until"]
    assert datetime.fromisoformat(account["opened_at"]).minute == 0
    assert [item["tenant"] for item in bank.ask("ann", "GET", "/v1/accounts").json()["items"]] == ["trade"]
    assert bank.ask("eve", "GET", "/v1/accounts").json()["items"] == []
    assert bank.ask("eve", "GET", "/v1/accounts/trade").status_code == 404
    again = bank.ask("root", "POST", "/v1/accounts", OPEN)
    assert code(again) == (409, "CONFLICT")
    assert "millpond accounts set trade" in again.json()["hint"]
    none = bank.ask("root", "GET", "/v1/accounts/factor/balance")
    assert code(none) == (404, "NO_SUCH_ACCOUNT")
    assert "millpond accounts open factor" in none.json()["hint"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"currency": "RMB"}, "did you mean CNY?"),
        ({"currency": "QQQ"}, "CNY or USD"),
        ({"zone": "Asia/Shanghia"}, "did you mean Asia/Shanghai?"),
        ({"tax_rate": "1.06"}, "0.06"),
        ({"tax_rate": "6 %"}, "plain number"),
        ({"stretch": 5}, "from 60 s"),
        ({"opened_at": "2026-11-01T00:30:00+08:00"}, "2026-11-01T00:00:00+08:00"),
        ({"opened_at": "2999-11-01T00:00:00+08:00"}, "from now"),
        ({"opened_at": "2026-11-01T00:00:00"}, "+08:00"),
        ({"tenant": "nowhere"}, "millpond tenants"),
    ],
)
def test_an_account_that_makes_no_sense_is_refused(house: House, change: dict[str, object], said: str) -> None:
    answer = house.ask("root", "POST", "/v1/accounts", {**OPEN, **change})
    assert answer.status_code in {404, 422}
    assert said in answer.json()["hint"]
    assert house.ask("root", "GET", "/v1/accounts").json()["items"] == []


def test_settings_change_but_for_what_is_booked(bank: House) -> None:
    changed = bank.ask("root", "PATCH", "/v1/accounts/trade", {"notice": 600, "title": "Trade Ltd"})
    assert (changed.json()["notice"], changed.json()["title"], changed.json()["stretch"]) == (600, "Trade Ltd", 3600)
    assert bank.ask("root", "PATCH", "/v1/accounts/trade", {"currency": "USD"}).json()["currency"] == "USD"
    assert bank.ask("root", "PATCH", "/v1/accounts/trade", {"currency": "CNY"}).status_code == 200
    assert topped(bank).status_code == 201
    assert code(bank.ask("root", "PATCH", "/v1/accounts/trade", {"currency": "USD"})) == (409, "ACCOUNT_BOOKED")
    assert bank.ask("boss", "PATCH", "/v1/accounts/trade", {"notice": 1}).status_code == 403
    events = bank.ask("root", "GET", "/v1/events", params={"tenant": "trade", "limit": 1000}).json()["items"]
    kinds = [event["kind"] for event in events if event["kind"].startswith("account.")]
    assert kinds == ["account.opened", *["account.changed"] * 3, "account.topped_up"]
    assert "Trade Ltd" not in str(events)


def test_a_top_up_counts_once(bank: House) -> None:
    first = topped(bank, headers={"Idempotency-Key": "k1"})
    assert first.status_code == 201
    assert first.json()["amount"] == "100.00"
    same = topped(bank, headers={"Idempotency-Key": "k1"})
    assert same.json() == first.json()
    assert same.headers["Idempotency-Replayed"] == "true"
    double = topped(bank)
    assert code(double) == (409, "GRANT_EXISTS")
    assert "counted once" in double.json()["hint"]
    assert double.json()["details"]["grant"] == first.json()["id"]
    assert sheet(bank)["available"] == "100.00"
    assert topped(bank, "0.50", "4712").status_code == 201
    assert sheet(bank)["available"] == "100.50"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"amount": "-5.00"}, "positive amount"),
        ({"amount": "0"}, "positive amount"),
        ({"amount": "1.005"}, "at most 2 decimals"),
        ({"amount": "1e5"}, "plain number"),
        ({"amount": "NaN"}, "plain number"),
        ({"reference": ""}, "visible ASCII"),
        ({"reference": "two words"}, "visible ASCII"),
        ({"provider": "bank\n"}, "visible ASCII"),
    ],
)
def test_a_top_up_that_makes_no_sense_is_refused(bank: House, body: dict[str, str], said: str) -> None:
    answer = post(bank, "top-ups", {"amount": "5.00", "provider": "bank", "reference": "1", **body})
    assert answer.status_code == 422
    assert said in answer.json()["hint"]
    assert sheet(bank)["posted"] == "0.00"


def test_five_callbacks_give_one_trial(bank: House) -> None:
    """Invariant 25: one 10.00, which is 15 000 s of a card at 2.40."""
    with ThreadPoolExecutor(5) as pool:
        answers = list(pool.map(lambda _: post(bank, "trial", {"identity": IDENTITY}), range(5)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert sheet(bank)["available"] == "10.00"
    assert len(sheet(bank)["grants"]) == 1


def test_an_identity_has_one_trial_in_whichever_account(bank: House) -> None:
    for tenant in ("factor", "nlp"):
        assert bank.ask("root", "POST", "/v1/accounts", {**OPEN, "tenant": tenant}).status_code == 201
    tenants = ["trade", "factor", "nlp", "factor", "trade"]
    with ThreadPoolExecutor(5) as pool:
        answers = list(pool.map(lambda tenant: post(bank, "trial", {"identity": IDENTITY}, tenant=tenant), tenants))
    given = {tenant for tenant, answer in zip(tenants, answers, strict=True) if answer.status_code == 201}
    assert len(given) == 1
    refused = [answer for answer in answers if answer.status_code != 201]
    assert {code(answer) for answer in refused} == {(409, "TRIAL_USED")}
    posted = [bank.ask("root", "GET", f"/v1/accounts/{tenant}/balance").json()["posted"] for tenant in set(tenants)]
    assert sorted(posted) == ["0.00", "0.00", "10.00"]


def test_an_identity_is_never_a_telephone_number(bank: House) -> None:
    answer = post(bank, "trial", {"identity": "13800138000"})
    assert answer.status_code == 422
    assert "HMAC-SHA256" in answer.json()["hint"]


def test_vouchers_and_packs_are_used_once_and_shown(bank: House) -> None:
    expires = (datetime.now(UTC) + timedelta(days=90)).isoformat()
    voucher = {"kind": "voucher", "code": "SPRING", "amount": "20.00", "expires_at": expires}
    pack = {"kind": "pack", "code": "o-1", "card_hours": "100", "price": "200.00", "scope": {"skus": ["A800"]}}
    assert post(bank, "grants", voucher).status_code == 201
    assert post(bank, "grants", pack).json()["card_hours"] == "100.0000"
    assert code(post(bank, "grants", voucher)) == (409, "GRANT_EXISTS")
    found = sheet(bank)
    assert [(grant["kind"], grant["posted"]) for grant in found["grants"]] == [
        ("voucher", "20.00"),
        ("pack", "360000.000"),
    ]
    assert (found["available"], found["packs"]["card_hours"], found["deferred"]) == ("20.00", "100.0000", "200.00")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"kind": "paid", "amount": "5"}, "top up"),
        ({"kind": "voucher"}, "one of amount and card_hours"),
        ({"kind": "voucher", "amount": "5", "card_hours": "5"}, "one of amount and card_hours"),
        ({"kind": "voucher", "amount": "5", "price": "5"}, "leave out the price"),
        ({"kind": "voucher", "card_hours": "5"}, "pack with price 0"),
        ({"kind": "pack", "card_hours": "0.0000000001"}, "0.25"),
        ({"kind": "voucher", "amount": "5", "expires_at": "2020-01-01T00:00:00Z"}, "later expiry"),
    ],
)
def test_a_grant_that_makes_no_sense_is_refused(bank: House, body: dict[str, object], said: str) -> None:
    answer = post(bank, "grants", {"code": "c1", **body})
    assert answer.status_code == 422, answer.text
    assert said in answer.json()["hint"]
    assert sheet(bank)["grants"] == []


def test_a_debt_is_paid_by_the_next_top_up_and_never_by_credit(bank: House) -> None:
    owe(bank, "30.00")
    assert post(bank, "trial", {"identity": IDENTITY}).status_code == 201
    assert (sheet(bank)["owed"], sheet(bank)["available"]) == ("30.00", "10.00")
    assert topped(bank).status_code == 201
    assert (sheet(bank)["owed"], sheet(bank)["available"]) == ("0.00", "80.00")


def test_a_payment_is_of_what_is_owed(bank: House) -> None:
    owe(bank, "30.00")
    pay = {"amount": "30.00", "provider": "bank", "reference": "p1"}
    much = post(bank, "payments", {**pay, "amount": "30.01"})
    assert code(much) == (422, "NOT_OWED")
    assert "30.00" in much.json()["hint"]
    assert post(bank, "payments", pay).json()["amount"] == "30.00"
    assert code(post(bank, "payments", pay)) == (409, "PAYMENT_EXISTS")
    assert sheet(bank)["owed"] == "0.00"


def test_only_free_paid_money_goes_back(bank: House) -> None:
    assert topped(bank, "60.00", "1").status_code == 201
    assert topped(bank, "40.00", "2").status_code == 201
    assert post(bank, "trial", {"identity": IDENTITY}).status_code == 201
    back = {"amount": "100.01", "provider": "bank", "reference": "b1"}
    assert code(post(bank, "paybacks", back)) == (422, "NOT_FREE")
    done = post(bank, "paybacks", {**back, "amount": "50.00"})
    assert len(done.json()["transfers"]) == 2
    assert code(post(bank, "paybacks", {**back, "amount": "50.00"})) == (409, "PAYMENT_EXISTS")
    assert sheet(bank)["available"] == "60.00"
    assert [grant["posted"] for grant in sheet(bank)["grants"]] == ["10.00", "50.00"]
    assert [grant["posted"] for grant in sheet(bank, all="true")["grants"]] == ["10.00", "50.00", "0.00"]


def test_credit_is_taken_back_but_not_money(bank: House) -> None:
    trial = post(bank, "trial", {"identity": IDENTITY}).json()["id"]
    paid = topped(bank).json()["id"]
    assert post(bank, f"grants/{trial}/revoke", None).status_code == 201
    assert post(bank, f"grants/{trial}/revoke", None).status_code == 422
    assert "pay it back" in post(bank, f"grants/{paid}/revoke", None).json()["hint"]
    assert code(post(bank, "grants/nope/revoke", None)) == (404, "NO_SUCH_GRANT")
    assert sheet(bank)["available"] == "100.00"


def test_a_balance_is_asked_as_of_a_moment(bank: House) -> None:
    assert topped(bank, "10.00", "1").status_code == 201
    between = datetime.now(UTC)
    bank.clock.ahead += timedelta(hours=1)
    assert topped(bank, "5.00", "2").status_code == 201
    moment = (between + timedelta(minutes=1)).isoformat()
    assert sheet(bank)["posted"] == "15.00"
    for name in ("as_of", "known_at"):
        old = sheet(bank, **{name: moment})
        assert (old["posted"], len(old["grants"])) == ("10.00", 1)
    assert sheet(bank, as_of=(between - timedelta(hours=1)).isoformat())["posted"] == "0.00"
    naive = bank.ask("ann", "GET", "/v1/accounts/trade/balance", params={"as_of": "2026-11-30T18:00:00"})
    assert naive.status_code == 422
    assert "+08:00" in naive.json()["hint"]


def test_lines_are_paged_the_last_first(bank: House) -> None:
    for number in range(5):
        bank.clock.ahead += timedelta(seconds=1)
        assert topped(bank, f"{number + 1}.00", str(number)).status_code == 201
    seen: list[str] = []
    cursor = ""
    for _ in range(3):
        page = bank.ask("ann", "GET", "/v1/accounts/trade/lines", params={"limit": 2, "cursor": cursor}).json()
        seen += [item["amount"] for item in page["items"]]
        cursor = page["next"]
    assert (seen, cursor) == (["5.00", "4.00", "3.00", "2.00", "1.00"], "")
    owed = bank.ask("ann", "GET", "/v1/accounts/trade/lines", params={"kind": "receivable"}).json()
    assert owed["items"] == []


def test_the_ledger_is_written_as_beancount(bank: House) -> None:
    assert topped(bank).status_code == 201
    text = bank.ask("ann", "GET", "/v1/accounts/trade/beancount").text
    assert "Liabilities:Wallet:Of-trade" in text
    whole = bank.ask("auditor", "GET", "/v1/ledger/beancount", params={"before": "2999-01-01"})
    assert "balance Assets:Cash  100.00 ~ 0 CNY" in whole.text
    assert bank.ask("ann", "GET", "/v1/ledger/beancount").status_code == 403
    assert bank.ask("auditor", "GET", "/v1/ledger/beancount", params={"before": "soon"}).status_code == 422


@pytest.fixture
def crowd(database: Database) -> Iterator[House]:
    with ExitStack() as stack:
        yield house_open(stack, database, served=True)


def test_the_same_payment_at_once_counts_once(crowd: House) -> None:
    """Eight callbacks of one payment, each with a key of its own, over real connections."""
    assert crowd.ask("root", "POST", "/v1/accounts", OPEN).status_code == 201
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: topped(crowd), range(8)))
    assert sorted(answer.status_code for answer in answers) == [201, *[409] * 7]
    assert sheet(crowd)["posted"] == "100.00"
