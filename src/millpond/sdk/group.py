"""What every resource group has: the transport, and paths with names safely in them."""

from __future__ import annotations

import uuid
from urllib.parse import quote

from millpond.sdk.transport import Transport


class Group:
    """One noun of the API."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport


def path_join(*parts: object) -> str:
    """``/v1/…`` with every part quoted, so that a name with a slash cannot become another path."""
    return "/v1/" + "/".join(quote(str(part), safe="") for part in parts)


def key_make() -> str:
    """A fresh idempotency key: the same request sent twice with it has one effect."""
    return uuid.uuid4().hex
