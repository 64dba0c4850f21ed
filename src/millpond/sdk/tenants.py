"""Tenants, their projects and members."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from millpond.sdk.answers import Member, Project, Tenant
from millpond.sdk.group import Group, key_make, path_join


class Tenants(Group):
    def list(self) -> Iterator[Tenant]:
        return self._transport.pages(path_join("tenants"))

    def get(self, tenant: str) -> Tenant:
        return cast("Tenant", self._transport.get(path_join("tenants", tenant)))

    def create(self, name: str, title: str = "") -> Tenant:
        body = {"name": name, "title": title}
        return cast("Tenant", self._transport.send("POST", path_join("tenants"), body=body, key=key_make()))

    def delete(self, tenant: str) -> None:
        self._transport.send("DELETE", path_join("tenants", tenant))


class Projects(Group):
    def list(self, tenant: str) -> Iterator[Project]:
        return self._transport.pages(path_join("tenants", tenant, "projects"))

    def create(self, tenant: str, name: str) -> Project:
        path = path_join("tenants", tenant, "projects")
        return cast("Project", self._transport.send("POST", path, body={"name": name}, key=key_make()))

    def delete(self, tenant: str, project: str) -> None:
        self._transport.send("DELETE", path_join("tenants", tenant, "projects", project))


class Members(Group):
    """Roles of users in a tenant or, with an empty tenant, on the whole platform."""

    def list(self, tenant: str) -> Iterator[Member]:
        return self._transport.pages(_members(tenant))

    def put(self, tenant: str, user: str, role: str) -> Member:
        path = _members(tenant, user)
        return cast("Member", self._transport.send("PUT", path, body={"role": role}))

    def delete(self, tenant: str, user: str) -> None:
        self._transport.send("DELETE", _members(tenant, user))


def _members(tenant: str, *user: str) -> str:
    return path_join("tenants", tenant, "members", *user) if tenant else path_join("members", *user)
