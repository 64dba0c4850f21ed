"""The typed client of millpond's HTTP API: ``Client(server, token)`` with one resource group a noun.

    from millpond.sdk import Client

    with Client("http://127.0.0.1:8900", token) as client:
        job = client.jobs.submit({"type": "task", "name": "hello", "commands": ["echo hello"]})
        for change in client.jobs.watch(job["id"]):
            print(change["state"])

Answers are the API's JSON, typed as `TypedDict` (`millpond.sdk.answers`).  Errors are `millpond.sdk.errors`.
`Client` is loaded on first use, so that programs that only need the errors start fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from millpond.sdk.client import Client as Client

__all__ = ["Client"]


def __getattr__(name: str) -> object:
    if name == "Client":
        return import_module("millpond.sdk.client").Client
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
