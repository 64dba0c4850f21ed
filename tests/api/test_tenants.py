"""Tenants, projects, members, tokens and who one is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.api.house import House

pytestmark = pytest.mark.postgres


def test_whoami(house: House) -> None:
    assert house.ask("two", "GET", "/v1/whoami").json() == {
        "user": "two",
        "platform": None,
        "tenants": [{"tenant": "factor", "role": "member"}, {"tenant": "trade", "role": "member"}],
        "scopes": [],
    }
    assert house.ask("scoped", "GET", "/v1/whoami").json()["scopes"] == ["job.read"]
    assert house.ask("root", "GET", "/v1/whoami").json()["platform"] == "platform-admin"


def test_a_tenant_from_birth_to_end(house: House) -> None:
    made = house.ask("root", "POST", "/v1/tenants", {"name": "new", "title": "New"})
    assert (made.status_code, made.json()["title"]) == (201, "New")
    assert house.ask("root", "GET", "/v1/tenants/new").json() == made.json()
    again = house.ask("root", "POST", "/v1/tenants", {"name": "new"})
    assert again.status_code == 409
    project = house.ask("root", "POST", "/v1/tenants/new/projects", {"name": "alpha"})
    assert (project.status_code, project.json()["tenant"]) == (201, "new")
    assert house.ask("root", "DELETE", "/v1/tenants/new/projects/alpha").status_code == 204
    assert house.ask("root", "DELETE", "/v1/tenants/new").status_code == 204
    assert house.ask("root", "GET", "/v1/tenants/new").status_code == 404
    kinds = [event["kind"] for event in house.ask("root", "GET", "/v1/events").json()["items"]]
    assert kinds == ["tenant.created", "project.created", "project.deleted", "tenant.deleted"]


def test_a_tenant_with_live_jobs_stays(house: House) -> None:
    house.submit("ann", "train")
    answer = house.ask("root", "DELETE", "/v1/tenants/trade")
    assert (answer.status_code, answer.json()["details"]["jobs"]) == (409, 1)


def test_names_that_are_none(house: House, subtests: pytest.Subtests) -> None:
    for name in ("", "Upper", "a b", "-a", "a/b", "a" * 64, "ü", "..", "a\n"):
        with subtests.test(name):
            assert house.ask("root", "POST", "/v1/tenants", {"name": name}).status_code == 422
            assert house.ask("boss", "POST", "/v1/tenants/trade/projects", {"name": name}).status_code == 422


def test_members_gain_and_lose_rights_at_once(house: House) -> None:
    assert house.ask("eve", "GET", "/v1/tenants/trade").status_code == 404
    put = house.ask("boss", "PUT", "/v1/tenants/trade/members/eve", {"role": "member"})
    assert (put.status_code, put.json()["role"]) == (200, "member")
    assert house.ask("eve", "GET", "/v1/tenants/trade").status_code == 200
    assert house.ask("boss", "DELETE", "/v1/tenants/trade/members/eve").status_code == 204
    assert house.ask("eve", "GET", "/v1/tenants/trade").status_code == 404
    assert house.ask("boss", "DELETE", "/v1/tenants/trade/members/eve").status_code == 404


def test_a_tenant_admin_cannot_make_a_platform_admin(house: House) -> None:
    for path in ("/v1/tenants/trade/members/boss", "/v1/members/boss"):
        assert house.ask("boss", "PUT", path, {"role": "platform-admin"}).status_code in {403, 422}
    assert house.ask("boss", "GET", "/v1/whoami").json()["platform"] is None
    assert house.ask("boss", "PUT", "/v1/tenants/trade/members/x", {"role": "king"}).status_code == 422


def test_the_last_platform_admin_stays(house: House) -> None:
    assert house.ask("root", "DELETE", "/v1/members/root").status_code == 409


def test_a_secret_is_shown_once_and_works_until_revoked(house: House) -> None:
    made = house.ask("ann", "POST", "/v1/tokens", {"label": "laptop"}).json()
    secret, token = made["secret"], made["token"]["id"]
    assert secret.startswith("mp_")
    house.tokens["laptop"] = secret
    assert house.ask("laptop", "GET", "/v1/whoami").json()["user"] == "ann"
    seen = "".join(house.ask("root", "GET", path).text for path in ("/v1/tokens", "/v1/events"))
    assert token in seen
    assert secret not in seen
    assert house.ask("ann", "DELETE", f"/v1/tokens/{token}").status_code == 204
    assert house.ask("laptop", "GET", "/v1/whoami").status_code == 401
    assert house.ask("ann", "DELETE", f"/v1/tokens/{token}").status_code == 204


def test_tokens_do_not_outlive_their_maker(house: House) -> None:
    end = datetime.now(UTC) + timedelta(hours=1)
    made = house.ask("ann", "POST", "/v1/tokens", {"expires_at": end.isoformat()}).json()
    house.tokens["brief"] = made["secret"]
    later = end + timedelta(seconds=1)
    for asked, status in ((None, 403), (later.isoformat(), 403), (end.isoformat(), 201)):
        assert house.ask("brief", "POST", "/v1/tokens", {"expires_at": asked}).status_code == status
    assert house.ask("ann", "POST", "/v1/tokens", {}).status_code == 201


def test_tokens_cannot_reach_further_than_their_maker(house: House) -> None:
    narrow = house.ask("ann", "POST", "/v1/tokens", {"scopes": ["token.create", "job.read"]}).json()
    house.tokens["narrow"] = narrow["secret"]
    assert house.ask("narrow", "POST", "/v1/tokens", {}).status_code == 403
    assert house.ask("narrow", "POST", "/v1/tokens", {"scopes": ["job.submit"]}).status_code == 403
    assert house.ask("narrow", "POST", "/v1/tokens", {"scopes": ["job.read"]}).status_code == 201
    assert house.ask("narrow", "GET", "/v1/jobs").status_code == 200
    assert house.ask("narrow", "POST", "/v1/jobs", {"name": "x", "commands": ["y"]}).status_code == 403
    assert house.ask("ann", "POST", "/v1/tokens", {"scopes": ["everything"]}).status_code == 422


def test_tokens_expire(house: House) -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    made = house.ask("ann", "POST", "/v1/tokens", {"expires_at": soon.isoformat()})
    assert made.status_code == 201
    past = datetime.now(UTC) - timedelta(hours=1)
    assert house.ask("ann", "POST", "/v1/tokens", {"expires_at": past.isoformat()}).status_code == 422
    assert house.ask("ann", "POST", "/v1/tokens", {"expires_at": "2030-01-01T00:00:00"}).status_code == 422


def test_members_see_their_own_tokens_only(house: House) -> None:
    assert {token["user"] for token in house.ask("ann", "GET", "/v1/tokens").json()["items"]} == {"ann"}
    assert len({token["user"] for token in house.ask("root", "GET", "/v1/tokens").json()["items"]}) > 3
