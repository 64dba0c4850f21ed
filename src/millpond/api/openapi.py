"""``python -m millpond.api.openapi > openapi.json``: the document that is committed."""

from __future__ import annotations

import sys

from millpond.api.app import routes_make
from millpond.api.document import openapi_text


def main() -> None:
    """Write the document to standard output."""
    sys.stdout.write(openapi_text(routes_make().openapi()))


if __name__ == "__main__":
    main()
