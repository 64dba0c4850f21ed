"""Hypothesis profiles for every test: the same examples each time in CI, fresh ones elsewhere, no deadlines.

Loaded before any test module, since `settings(...)` takes what it does not name from the profile of that moment.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_PATIENT = [HealthCheck.too_slow, HealthCheck.data_too_large]
"""A busy machine and a large world are no faults of a test."""

settings.register_profile("ci", derandomize=True, deadline=None, suppress_health_check=_PATIENT, print_blob=True)
settings.register_profile("dev", deadline=None, suppress_health_check=_PATIENT, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")
