from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from millpond.authz.actors import SYSTEM, Actor
from millpond.db.session import Database
from millpond.db.stores.users import (
    member_delete,
    member_list,
    member_put,
    token_authenticate,
    token_create,
    token_list,
    token_revoke,
)
from millpond.domain.errors import Conflict, Forbidden, InvalidInput, NotFound, Unauthenticated
from millpond.domain.records import Role, TokenRecord
from tests.unit.db.builders import ADMIN, ANN, LEAD


def token(house: Database, user: str = "ann", **more: object) -> tuple[TokenRecord, str]:
    return house.run("token", lambda tx: token_create(tx, SYSTEM, user, "laptop", **more))


def who(house: Database, secret: str) -> Actor:
    return house.run("who", lambda tx: token_authenticate(tx, secret))


def test_a_token_says_who_and_what(house: Database) -> None:
    house.run("role", lambda tx: member_put(tx, ADMIN, "ann", "alpha", Role.MEMBER))
    house.run("role", lambda tx: member_put(tx, ADMIN, "ann", "beta", Role.TENANT_ADMIN))
    house.run("role", lambda tx: member_put(tx, ADMIN, "ann", "", Role.AUDITOR))
    record, secret = token(house, scopes=("job.*",))
    assert re.fullmatch(r"mp_[A-Za-z0-9_-]{43}", secret)
    assert who(house, secret) == Actor(
        "ann", Role.AUDITOR, {"alpha": Role.MEMBER, "beta": Role.TENANT_ADMIN}, frozenset({"job.*"})
    )
    assert (record.user, record.label, record.scopes) == ("ann", "laptop", ("job.*",))
    stored = house.run("look", lambda tx: tx.execute(text("SELECT t::text FROM tokens t")).scalar_one())
    assert secret not in stored


def test_a_token_is_looked_up_in_one_statement(house: Database) -> None:
    _, secret = token(house)
    who(house, secret)
    with house.statements() as seen:
        who(house, secret)
    assert len(seen) == 1


def test_the_time_of_use_is_written_once_a_minute(house: Database) -> None:
    def used() -> datetime:
        return house.run("used", lambda tx: tx.execute(text("SELECT last_used_at FROM tokens")).scalar_one())

    _, secret = token(house)
    assert used() is None
    who(house, secret)
    first = used()
    who(house, secret)
    assert used() == first
    house.run("later", lambda tx: tx.execute(text("UPDATE tokens SET last_used_at = last_used_at - interval '2 min'")))
    who(house, secret)
    assert used() > first


@pytest.mark.parametrize("secret", ["", "mp_", "mp_" + "a" * 43, "mp_" + "é" * 43, "x" * 10_000, "mp_" + "\x00" * 43])
def test_other_secrets_are_nobodys(house: Database, secret: str) -> None:
    token(house)
    with pytest.raises(Unauthenticated):
        who(house, secret)


def test_revoked_and_expired_tokens_are_refused(house: Database) -> None:
    record, secret = token(house)
    first = house.run("revoke", lambda tx: token_revoke(tx, ANN, record.id))
    assert first.revoked_at is not None
    assert house.run("revoke", lambda tx: token_revoke(tx, ANN, record.id)) == first
    with pytest.raises(Unauthenticated, match="revoked"):
        who(house, secret)
    _, short = token(house, expires_at=datetime.now(UTC) + timedelta(hours=1))
    who(house, short)
    house.run("age", lambda tx: tx.execute(text("UPDATE tokens SET expires_at = now() - interval '1 s'")))
    with pytest.raises(Unauthenticated, match="expired"):
        who(house, short)
    with pytest.raises(InvalidInput, match="expired already"):
        token(house, expires_at=datetime.now(UTC) - timedelta(seconds=1))


def test_tokens_are_ones_own(house: Database) -> None:
    mine, _ = house.run("mine", lambda tx: token_create(tx, ANN, "ann", "laptop"))
    other, _ = token(house, "bob")
    assert [record.id for record in house.run("list", lambda tx: token_list(tx, ANN))] == [mine.id]
    assert {record.id for record in house.run("list", lambda tx: token_list(tx, ADMIN))} == {mine.id, other.id}
    with pytest.raises(Forbidden):
        house.run("list", lambda tx: token_list(tx, ANN, "bob"))
    with pytest.raises(Forbidden):
        house.run("create", lambda tx: token_create(tx, LEAD, "ann", "hers"))
    with pytest.raises(NotFound):
        house.run("revoke", lambda tx: token_revoke(tx, ANN, other.id))


def test_a_token_makes_none_that_may_do_more(house: Database) -> None:
    scoped = Actor("ann", roles={"alpha": Role.MEMBER}, scopes=frozenset({"token.create", "job.*"}))
    house.run("less", lambda tx: token_create(tx, scoped, "ann", "ci", ("job.read",)))
    for scopes in ((), ("node.read",), ("token.*",)):
        with pytest.raises(Forbidden, match="more scopes"):
            house.run("more", lambda tx, scopes=scopes: token_create(tx, scoped, "ann", "ci", scopes))
    with pytest.raises(InvalidInput, match="not a scope"):
        token(house, scopes=("job.fly",))


def test_roles_belong_where_they_make_sense(house: Database) -> None:
    for tenant, role in (("", Role.MEMBER), ("", Role.TENANT_ADMIN), ("alpha", Role.PLATFORM_ADMIN)):
        with pytest.raises(InvalidInput):
            house.run("put", lambda tx, tenant=tenant, role=role: member_put(tx, ADMIN, "ann", tenant, role))
    with pytest.raises(NotFound):
        house.run("put", lambda tx: member_put(tx, ADMIN, "ann", "nowhere", Role.MEMBER))
    with pytest.raises(Forbidden):
        house.run("put", lambda tx: member_put(tx, LEAD, "lead", "", Role.PLATFORM_ADMIN))
    house.run("put", lambda tx: member_put(tx, LEAD, "ann", "alpha", Role.MEMBER))
    house.run("put", lambda tx: member_put(tx, LEAD, "ann", "alpha", Role.AUDITOR))
    members = house.run("list", lambda tx: member_list(tx, ANN, "alpha"))
    assert [(member.user, member.tenant, member.role) for member in members] == [("ann", "alpha", Role.AUDITOR)]
    house.run("delete", lambda tx: member_delete(tx, LEAD, "ann", "alpha"))
    with pytest.raises(NotFound):
        house.run("delete", lambda tx: member_delete(tx, LEAD, "ann", "alpha"))


def test_somebody_stays_platform_admin(house: Database) -> None:
    house.run("put", lambda tx: member_put(tx, SYSTEM, "ann", "", Role.PLATFORM_ADMIN))
    house.run("put", lambda tx: member_put(tx, SYSTEM, "zoe", "", Role.AUDITOR))
    for work in (
        lambda tx: member_delete(tx, ADMIN, "ann", ""),
        lambda tx: member_put(tx, ADMIN, "ann", "", Role.AUDITOR),
    ):
        with pytest.raises(Conflict, match="last platform-admin"):
            house.run("last", work)
    house.run("put", lambda tx: member_put(tx, ADMIN, "zoe", "", Role.PLATFORM_ADMIN))
    house.run("delete", lambda tx: member_delete(tx, ADMIN, "ann", ""))
    assert [member.user for member in house.run("list", lambda tx: member_list(tx, ADMIN, ""))] == ["zoe"]
