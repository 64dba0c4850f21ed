"""Names of other systems as names of ours."""

from __future__ import annotations

import re

from millpond.domain.errors import InvalidInput
from millpond.domain.names import user_parse

_OTHER = re.compile(r"[^a-z0-9-]+")


def label_of(text: str, default: str = "default") -> str:
    """A DNS label as near to `text` as can be: ``Team_A`` → ``team-a``; `default` if nothing is left."""
    return _OTHER.sub("-", text.lower()).strip("-")[:63].rstrip("-") or default


def user_of(text: str) -> str:
    """`text` if it may be a user's name, else nothing."""
    try:
        return user_parse(text) if text else ""
    except InvalidInput:
        return ""
