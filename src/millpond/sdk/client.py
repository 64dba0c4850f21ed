"""`Client`: everything that the API offers, one resource group a noun."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from millpond.domain.errors import InvalidInput
from millpond.sdk.accounts import Accounts
from millpond.sdk.budgets import Budgets
from millpond.sdk.events import Events
from millpond.sdk.invoices import Invoices
from millpond.sdk.jobs import Jobs, Offers
from millpond.sdk.nodes import Cards, Nodes
from millpond.sdk.prices import Prices
from millpond.sdk.queues import Queues
from millpond.sdk.reports import Reports
from millpond.sdk.system import System
from millpond.sdk.tenants import Members, Projects, Tenants
from millpond.sdk.tokens import Tokens
from millpond.sdk.transport import Transport
from millpond.sdk.usage import Usage


class Client:
    """A connection to the server at `server` (``http://host:port``) with a bearer token.

    Threads may share one.  `timeout` is for one answer, in seconds; streams have their own.  Use it as a context
    manager, or `close` it.
    """

    def __init__(
        self, server: str, token: str = "", *, timeout: float = 30.0, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        if not token.isascii() or any(character.isspace() for character in token):
            raise InvalidInput("the token has characters that no token has", hint="copy it again: it begins with mp_")
        self.transport = Transport(server, token, timeout=timeout, sleep=sleep)
        self.jobs = Jobs(self.transport)
        self.offers = Offers(self.transport)
        self.queues = Queues(self.transport)
        self.nodes = Nodes(self.transport)
        self.cards = Cards(self.transport)
        self.tenants = Tenants(self.transport)
        self.projects = Projects(self.transport)
        self.members = Members(self.transport)
        self.tokens = Tokens(self.transport)
        self.events = Events(self.transport)
        self.invoices = Invoices(self.transport)
        self.budgets = Budgets(self.transport)
        self.prices = Prices(self.transport)
        self.accounts = Accounts(self.transport)
        self.reports = Reports(self.transport)
        self.usage = Usage(self.transport)
        self.system = System(self.transport)

    @property
    def server(self) -> str:
        return self.transport.server

    def close(self) -> None:
        self.transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
