"""Marks what a test needs by what it is, so that `make test` can run the two kinds apart.

``pure``: below unit, properties or golden, without a database or a live millpond.  Only these run under coverage.
``postgres``: uses the database fixtures of the root conftest.
``kube``: below tests/kube.  Run by `make test-kube` alone: the other targets leave it out.
"""

from __future__ import annotations

from pathlib import Path

import pytest

PURE_FOLDERS = frozenset({"unit", "properties", "golden"})
KUBE_FOLDER = "kube"
NOT_PURE = ("live", "postgres", "gpu", "long", "kube")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Before ``-m`` chooses."""
    for item in items:
        if "postgres_url" in getattr(item, "fixturenames", ()):
            item.add_marker("postgres")
        folder = Path(item.nodeid).parts[1:2]
        if folder == (KUBE_FOLDER,):
            item.add_marker("kube")
        if PURE_FOLDERS.intersection(folder) and not any(item.get_closest_marker(name) for name in NOT_PURE):
            item.add_marker("pure")
