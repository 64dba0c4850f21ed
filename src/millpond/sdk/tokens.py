"""Tokens: bearer secrets.  The secret is in the answer to `create` and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from millpond.sdk.answers import Token, TokenCreated
from millpond.sdk.group import Group, path_join


class Tokens(Group):
    def list(self) -> Iterator[Token]:
        return self._transport.pages(path_join("tokens"))

    def create(
        self, *, user: str = "", label: str = "", scopes: Sequence[str] = (), expires_at: str | None = None
    ) -> TokenCreated:
        """A token for `user` (empty: yourself).  `expires_at` is ISO 8601 with a zone."""
        body = {"user": user, "label": label, "scopes": list(scopes), "expires_at": expires_at}
        return cast("TokenCreated", self._transport.send("POST", path_join("tokens"), body=body))

    def revoke(self, token: str) -> None:
        self._transport.send("DELETE", path_join("tokens", token))
