"""`down` when the database cannot be asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from millpond.commands.down import machine_stop
from millpond.config import Settings
from millpond.domain.errors import Unavailable

NOWHERE = "postgresql://nobody:secret@127.0.0.1:1/none"


def test_a_database_that_does_not_answer_does_not_keep_the_rest_running(tmp_path: Path) -> None:
    settings = Settings(state_dir=tmp_path, database_url=NOWHERE)
    assert not machine_stop(settings, keep_jobs=True, grace=0).anything
    with pytest.raises(Unavailable) as refused:
        machine_stop(settings, keep_jobs=False, grace=0)
    assert "--keep-jobs" in refused.value.hint
    assert "secret" not in str(refused.value)
