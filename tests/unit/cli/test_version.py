"""`millpond version` without a server."""

from __future__ import annotations

from importlib.util import find_spec

from millpond import __version__
from millpond.cli.version import core
from tests.golden.scenario_files import command_output


def test_version_says_how_the_core_was_built() -> None:
    origin = str(getattr(find_spec("millpond.scheduling.plan"), "origin", ""))
    assert core() == ("python" if origin.endswith("plan.py") else "compiled")
    built = {"python": "core in pure Python", "compiled": "compiled core"}[core()]
    code, out, _ = command_output("version")
    assert code == 0
    assert out.startswith(f"millpond {__version__} ({built})\n")
