"""What every test may use.  Fixtures of one kind of test live in that kind's own conftest."""

from __future__ import annotations

pytest_plugins = ["pytester", "tests.plugin_skips"]
