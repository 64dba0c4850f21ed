"""Queues, quotas, nodes, cards, and the snapshot."""

from __future__ import annotations

import pytest

from millpond.files.snapshots import snapshot_load
from millpond.scheduling.plan import plan
from tests.api.desk import DeskEngine
from tests.api.house import House, seats_of

pytestmark = pytest.mark.postgres

QUEUES: list[dict[str, object]] = [
    {"name": "trade/prod", "class": "prod", "guarantee": {"A800-80GB": 4}, "deserved": 4},
    {"name": "trade/batch", "class": "batch", "deserved": 4},
    {"name": "factor/batch", "class": "batch", "deserved": 8, "cap": 8},
    {"name": "nlp/besteffort", "class": "besteffort"},
]


def test_the_tree_shows_limits_in_force_and_usage(house: House) -> None:
    job = house.submit("ann", "train", resources={"gpu": "A800:2"})
    house.run(job["id"], seats_of("n1", 0, 1))
    house.submit("ann", "later", resources={"gpu": "4"})
    tree = house.ask("root", "GET", "/v1/queues").json()
    assert tree["pool"] == {"cards": 17000, "A800-80GB": 16000, "A100-40GB": 1000}
    assert (tree["used"], tree["simulated"]) == ({"cards": 2000, "A800-80GB": 2000}, True)
    queues = {queue["name"]: queue for queue in tree["items"]}
    assert list(queues) == sorted(queues)
    batch, trade = queues["trade/batch"], queues["trade"]
    assert (batch["class"], batch["used"]["cards"], batch["pending"]) == ("batch", 2000, 4000)
    assert (batch["running_jobs"], batch["waiting_jobs"]) == (1, 1)
    assert (trade["class"], trade["configured"], trade["used"]["cards"]) == (None, False, 2000)
    assert (trade["guarantee"]["cards"], trade["deserved"]["cards"], trade["cap"]) == (4000, 8000, {})
    assert queues["factor/batch"]["cap"]["cards"] == 8000
    assert [queue["name"] for queue in house.ask("eve", "GET", "/v1/queues").json()["items"]] == [
        "factor",
        "factor/batch",
    ]


def test_the_pool_view_is_in_order_and_can_be_narrowed(house: House) -> None:
    first = house.submit("eve", "first", resources={"gpu": "8"})
    house.run(first["id"], seats_of("n1", *range(8)))
    house.submit("eve", "low", resources={"gpu": "8"}, priority=10)
    house.submit("eve", "high", resources={"gpu": "8"}, priority=20)
    view = house.ask("root", "GET", "/v1/queue").json()
    assert [(row["name"], row["rank"], row["placed"]) for row in view["running"]] == [("first", "deserved", ["n1"])]
    assert [(row["name"], row["position"], row["reason"]["code"]) for row in view["waiting"]] == [
        ("high", 1, "QUEUE_CAP"),
        ("low", 2, "QUEUE_CAP"),
    ]
    assert house.ask("root", "GET", "/v1/queue?leaf=trade/batch").json()["waiting"] == []
    assert len(house.ask("root", "GET", "/v1/queue?leaf=factor").json()["waiting"]) == 2
    assert house.ask("root", "GET", "/v1/queue?leaf=no/batch").status_code == 404


def test_quota_dry_run_changes_nothing_and_apply_changes_all(house: House) -> None:
    same = house.ask("root", "PUT", "/v1/quota", {"queues": QUEUES}).json()
    assert (same["changes"], same["unchanged"]) == ([], 4)
    wanted = [*QUEUES[:2], {"name": "factor/batch", "class": "batch", "deserved": 8, "cap": 12}]
    dry = house.ask("root", "PUT", "/v1/quota?dry_run=true", {"queues": wanted}).json()
    assert [(change["name"], change["change"]) for change in dry["changes"]] == [
        ("factor/batch", "changed"),
        ("nlp/besteffort", "removed"),
    ]
    assert house.ask("root", "GET", "/v1/queues").json()["items"][1]["cap"]["cards"] == 8000
    done = house.ask("root", "PUT", "/v1/quota", {"queues": wanted}).json()
    assert done["changes"] == dry["changes"]
    assert house.ask("root", "GET", "/v1/queues").json()["items"][1]["cap"]["cards"] == 12000
    kinds = [event["kind"] for event in house.ask("root", "GET", "/v1/events").json()["items"]]
    assert kinds == ["quota.applied"]


def test_quota_that_cannot_hold_names_both_numbers(house: House) -> None:
    wanted = [{"name": "trade/prod", "class": "prod", "guarantee": {"A800-80GB": 17}, "deserved": 17}, *QUEUES[1:]]
    problem = house.ask("root", "PUT", "/v1/quota", {"queues": wanted}).json()
    assert (problem["status"], problem["code"], problem["details"]) == (422, "QUOTA", {"need": 17000, "limit": 16000})
    assert problem["position"] is not None
    assert len(house.ask("root", "GET", "/v1/queues").json()["items"]) == 7


def test_quota_above_the_pool_is_a_warning(house: House) -> None:
    wanted = [*QUEUES[:2], {"name": "factor/batch", "class": "batch", "deserved": 100}]
    answer = house.ask("root", "PUT", "/v1/quota?dry_run=true", {"queues": wanted}).json()
    assert any("108" in warning for warning in answer["warnings"])


def test_a_leaf_with_live_jobs_cannot_go(house: House) -> None:
    house.submit("eve", "train")
    answer = house.ask("root", "PUT", "/v1/quota", {"queues": [*QUEUES[:2], QUEUES[3]]})
    assert (answer.status_code, answer.json()["code"]) == (409, "QUEUE_IN_USE")


def test_a_tenant_must_exist(house: House) -> None:
    answer = house.ask("root", "PUT", "/v1/quota", {"queues": [*QUEUES, {"name": "ghost/batch", "class": "batch"}]})
    assert (answer.status_code, answer.json()["code"]) == (404, "NO_SUCH_TENANT")


def test_cordon_drain_and_back(house: House) -> None:
    assert house.ask("root", "POST", "/v1/nodes/n1/cordon").json()["condition"] == "cordoned"
    assert house.ask("root", "POST", "/v1/nodes/n1/drain").json()["condition"] == "draining"
    assert house.ask("root", "POST", "/v1/nodes/n1/uncordon").json()["condition"] == "ready"
    assert house.ask("root", "POST", "/v1/nodes/n9/cordon").json()["code"] == "NO_SUCH_NODE"
    kinds = [event["kind"] for event in house.ask("root", "GET", "/v1/events").json()["items"]]
    assert kinds == ["node.cordoned", "node.draining", "node.uncordoned"]


def test_nodes_tell_what_is_taken(house: House) -> None:
    job = house.submit("ann", "train", resources={"gpu": "2", "cpu": 16, "memory": "64GB"})
    house.run(job["id"], seats_of("n1", 0, 1))
    node = house.ask("ann", "GET", "/v1/nodes/n1").json()
    assert (node["used"], node["used_cpu"], node["used_memory"], node["jobs"]) == (2000, 16_000, 65_536, 1)
    assert (node["simulated"], node["condition"], node["cards"]["count"]) == (True, "ready", 8)
    names = [item["name"] for item in house.ask("ann", "GET", "/v1/nodes").json()["items"]]
    assert names == ["n1", "n2", "r1"]


def test_cards_page_by_cursor(house: House) -> None:
    first = house.ask("ann", "GET", "/v1/cards?limit=10").json()
    rest = house.ask("ann", "GET", "/v1/cards", params={"cursor": first["next"]}).json()
    cards = [(card["node"], card["index"]) for card in first["items"] + rest["items"]]
    assert cards == [*(("n1", i) for i in range(8)), *(("n2", i) for i in range(8)), ("r1", 0)]
    assert rest["next"] == ""
    assert rest["items"][-1]["uuid"] == "GPU-1"


def test_trouble_on_purpose_only_on_simulated_nodes(staffed: House, desk: DeskEngine) -> None:
    lost = staffed.ask("root", "POST", "/v1/nodes/n1/fault", {"cause": "drill"}).json()
    assert (lost["condition"], desk.faults) == ("lost", [("n1", None)])
    assert staffed.ask("root", "POST", "/v1/nodes/n1/repair").json()["condition"] == "ready"
    card = staffed.ask("root", "POST", "/v1/cards/n2/3/fault", {"cause": "Xid 79"}).json()
    assert (card["health"], card["cause"], desk.faults[-1]) == ("quarantined", "Xid 79", ("n2", 3))
    assert staffed.ask("root", "POST", "/v1/cards/n2/3/repair").json()["health"] == "ok"
    for path in ("/v1/nodes/r1/fault", "/v1/nodes/r1/repair", "/v1/cards/r1/0/fault", "/v1/cards/r1/0/repair"):
        answer = staffed.ask("root", "POST", path)
        assert (answer.status_code, answer.json()["code"]) == (422, "NOT_SIMULATED"), path
    assert staffed.ask("root", "POST", "/v1/cards/n1/8/fault").json()["code"] == "NO_SUCH_CARD"
    assert len(desk.faults) == 2


def test_the_snapshot_gives_the_plan_of_the_platform(house: House) -> None:
    running = house.submit("ann", "train", resources={"gpu": "A800:2"})
    house.run(running["id"], seats_of("n1", 0, 1))
    waiting = house.submit("eve", "later", resources={"gpu": "A800:8"})
    text = house.ask("auditor", "GET", "/v1/snapshot").text
    loaded = snapshot_load(text, "export").snapshot
    assert [start.job for start in plan(loaded).start] == [waiting["id"]]
    assert {job.id for job in loaded.jobs} == {running["id"], waiting["id"]}
