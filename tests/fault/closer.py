"""Closes a month of every account, one a transaction, and says each that it has done; made to be killed.

python -m tests.fault.closer URL MONTH NOW
"""

from __future__ import annotations

import json
import os
import sys
from datetime import datetime

from millpond.authz.actors import SYSTEM
from millpond.db.session import Database
from millpond.domain.records import Page
from millpond.services.deps import Services
from millpond.services.idempotency import once_make
from millpond.services.invoices import Closed, invoices_close


def main(url: str, month: str, now: str) -> None:
    """One run through all accounts.  ``now``: the clock stands still, so that runs can be compared."""
    database = Database(url, pool_size=1)
    moment = datetime.fromisoformat(now)
    services = Services(database, None, lambda: moment, os.urandom)
    after = ""

    def render(page: Page[Closed]) -> object:
        return {"done": [[one.tenant, one.fresh and one.invoice is not None] for one in page.items], "next": page.next}

    while True:
        reply = invoices_close(services, SYSTEM, month, (after, 1), once_make("", "close", after), render)
        sys.stdout.write(reply.body + "\n")
        sys.stdout.flush()
        after = json.loads(reply.body)["next"]
        if not after:
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
