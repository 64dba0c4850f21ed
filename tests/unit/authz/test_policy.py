"""The policy table, and what follows from it whatever the table says."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.authz.actions import Action, scopes_cover, scopes_parse
from millpond.authz.actors import SYSTEM, Actor
from millpond.authz.policy import (
    POLICY,
    POOL_ACTIONS,
    Reach,
    authorize,
    policy_text,
    reach,
    system_only,
    tenants_visible,
)
from millpond.domain.errors import Forbidden, InvalidInput, NotFound
from millpond.domain.records import Role

GOLDEN = Path(__file__).parents[2] / "golden" / "authz_policy.txt"
TENANTS = ("alpha", "beta")

actions = st.sampled_from(list(Action))
tenants = st.sampled_from(["", *TENANTS, "nowhere"])
actors = st.builds(
    Actor,
    user=st.sampled_from(["ann", "bob"]),
    platform=st.sampled_from([None, Role.PLATFORM_ADMIN, Role.AUDITOR]),
    roles=st.dictionaries(
        st.sampled_from(TENANTS), st.sampled_from([Role.TENANT_ADMIN, Role.MEMBER, Role.AUDITOR]), max_size=2
    ),
    scopes=st.frozensets(st.sampled_from([action.value for action in Action] + ["job.*", "node.*"]), max_size=3),
)


def allowed(actor: Actor, action: Action, tenant: str, owner: str | None = None) -> bool:
    try:
        authorize(actor, action, tenant, owner=owner)
    except (Forbidden, NotFound):
        return False
    return True


def test_the_policy_is_the_one_reviewed() -> None:
    assert policy_text() == GOLDEN.read_text()


@given(actors, actions, tenants)
def test_scopes_only_take_away(actor: Actor, action: Action, tenant: str) -> None:
    free = Actor(actor.user, actor.platform, actor.roles)
    assert reach(actor, action, tenant) <= reach(free, action, tenant)
    if not scopes_cover(actor.scopes, action.value):
        assert not allowed(actor, action, tenant)


@given(actors, actions)
def test_a_tenant_without_a_role_is_invisible(actor: Actor, action: Action) -> None:
    if actor.platform is None and scopes_cover(actor.scopes, action.value):
        try:
            authorize(actor, action, "nowhere")
        except NotFound:
            pass
        except Forbidden:
            pytest.fail("Forbidden says that the tenant exists")


@given(actors, actions.filter(lambda action: action not in POOL_ACTIONS))
def test_lists_show_what_single_reads_allow(actor: Actor, action: Action) -> None:
    try:
        visible = tenants_visible(actor, action)
    except Forbidden:
        assert not any(allowed(actor, action, tenant, actor.user) for tenant in (*TENANTS, "nowhere"))
        return
    for tenant in (*TENANTS, "nowhere"):
        assert (visible is None or tenant in visible) == allowed(actor, action, tenant, actor.user)


@given(actors, actions, tenants)
def test_own_means_own(actor: Actor, action: Action, tenant: str) -> None:
    far = reach(actor, action, tenant)
    assert allowed(actor, action, tenant, "somebody-else") == (far is Reach.ALL)
    assert allowed(actor, action, tenant, actor.user) == (far is not Reach.NONE)


@given(actions, tenants)
def test_the_platform_may_do_everything(action: Action, tenant: str) -> None:
    authorize(SYSTEM, action, tenant)
    assert tenants_visible(SYSTEM, action) is None


def test_auditors_change_nothing_but_their_own_tokens() -> None:
    changing = {Action.TOKEN_CREATE, Action.TOKEN_REVOKE}
    for action, far in POLICY[Role.AUDITOR].items():
        reads = action.value.endswith(".read") or action is Action.JOB_LOGS
        assert reads or (action in changing and far is Reach.OWN), action


def test_system_only_refuses_even_a_platform_admin() -> None:
    with pytest.raises(Forbidden):
        system_only(Actor("ann", Role.PLATFORM_ADMIN))


def test_refusals_name_the_next_step() -> None:
    member = Actor("ann", roles={"alpha": Role.MEMBER})
    with pytest.raises(Forbidden, match="ask a tenant-admin"):
        authorize(member, Action.MEMBER_WRITE, "alpha")
    with pytest.raises(Forbidden, match="only to what is their own"):
        authorize(member, Action.JOB_CONTROL, "alpha", owner="bob")
    scoped = Actor("ann", roles={"alpha": Role.MEMBER}, scopes=frozenset({"job.read"}))
    with pytest.raises(Forbidden, match=r"not scoped for job\.submit"):
        authorize(scoped, Action.JOB_SUBMIT, "alpha")


@pytest.mark.parametrize("bad", ["job", "job.", "*", "job.fly", "JOB.READ", ""])
def test_unknown_scopes_are_refused(bad: str) -> None:
    with pytest.raises(InvalidInput):
        scopes_parse((bad,))


def test_scopes_are_sorted_and_single() -> None:
    assert scopes_parse(("job.read", "job.*", "job.read")) == ("job.*", "job.read")
