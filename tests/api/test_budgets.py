"""Budgets over the API: what is set, who sets it, what is refused, and that jobs wait for it."""

from __future__ import annotations

import pytest

from tests.api.house import House

SET = {"node": "trade", "card_hours": "100"}


def test_a_budget_is_set_looked_at_replaced_and_taken_away(staffed: House) -> None:
    made = staffed.ask("root", "POST", "/v1/budgets", SET)
    assert made.status_code == 201
    body = made.json()
    assert (body["node"], body["unit"], body["limit"], body["used"], body["left"]) == (
        "trade", "card-hours", "100", "0", "100",
    )  # fmt: skip
    assert body["thresholds"] == [{"percent": 80, "action": "alert"}, {"percent": 100, "action": "queue"}]
    again = staffed.ask("root", "POST", "/v1/budgets", {**SET, "card_hours": "150"}).json()
    listed = staffed.ask("ann", "GET", "/v1/budgets").json()["items"]
    assert [one["id"] for one in listed] == [again["id"]]
    assert staffed.ask("root", "GET", f"/v1/budgets/{body['id']}").status_code == 404
    assert staffed.ask("root", "DELETE", f"/v1/budgets/{again['id']}").status_code == 204
    assert staffed.ask("ann", "GET", "/v1/budgets").json()["items"] == []


def test_a_tenant_divides_what_it_has_and_does_not_raise_it(staffed: House) -> None:
    assert staffed.ask("boss", "POST", "/v1/budgets", SET).status_code == 403
    mine = staffed.ask("boss", "POST", "/v1/budgets", {"node": "trade/*/ann", "card_hours": "10"})
    assert mine.status_code == 201
    assert staffed.ask("ann", "DELETE", f"/v1/budgets/{mine.json()['id']}").status_code == 403
    assert staffed.ask("boss", "DELETE", f"/v1/budgets/{mine.json()['id']}").status_code == 204


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        ({"card_hours": "-1"}, ""),
        ({"card_hours": "0"}, "positive"),
        ({"amount": "5.00"}, "card_hours, or amount"),
        ({"card_hours": "", "amount": "5.00"}, "currency"),
        ({"card_hours": "", "amount": "5.00", "currency": "RMB"}, "did you mean CNY"),
        ({"card_hours": "", "amount": "5.00", "currency": "CNY"}, "accounts open"),
        ({"node": "trade/a/b/c"}, "tenant/project/user"),
        ({"period": "once"}, "from when until when"),
        ({"thresholds": []}, ""),
        ({"thresholds": [{"percent": 80, "action": "alert"}] * 2}, "leave one out"),
    ],
)
def test_bad_budgets_are_refused_and_leave_no_trace(staffed: House, change: dict[str, object], hint: str) -> None:
    answer = staffed.ask("root", "POST", "/v1/budgets", {**SET, **change})
    assert answer.status_code in {400, 422}, answer.text
    assert hint in answer.text
    assert staffed.ask("root", "GET", "/v1/budgets").json()["items"] == []


def test_the_same_key_sets_it_once(staffed: House) -> None:
    first = staffed.ask("root", "POST", "/v1/budgets", SET, headers={"Idempotency-Key": "budget-1"})
    second = staffed.ask("root", "POST", "/v1/budgets", SET, headers={"Idempotency-Key": "budget-1"})
    assert (first.status_code, first.json()) == (second.status_code, second.json())
