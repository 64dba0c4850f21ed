"""One frozen `Settings`, built once by ``main`` from the environment and the command line.

Every field may be set as ``MILLPOND_<FIELD>``.  Nothing else in the server reads the environment.
"""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


def state_dir_default() -> Path:
    """The system's state folder as root, XDG's otherwise (design §8)."""
    if os.geteuid() == 0:
        return Path("/var/lib/millpond")
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "millpond"


class Settings(BaseSettings):
    """Durations are seconds."""

    model_config = SettingsConfigDict(env_prefix="MILLPOND_", frozen=True, extra="ignore")

    state_dir: Path = Field(default_factory=state_dir_default, description="Where everything is kept.")
    database_url: str = Field(default="", description="An external PostgreSQL; empty: the embedded one.")
    host: str = Field(default="127.0.0.1", description="Address that the API listens on.")
    port: int = Field(default=8900, ge=0, le=65535, description="Port of the API; 0 takes a free one.")
    sim: str = Field(default="", description="A simulated pool: 8x8xA800-80GB, or a file with `nodes`.")
    isolation: str = Field(
        default="auto", pattern="^(auto|bubblewrap|none)$", description="How jobs are isolated on this machine."
    )
    visible: str = Field(
        default="", description="Folders that isolated jobs may read besides the system's, with colons between."
    )
    body_limit: int = Field(default=1_048_576, description="Largest request body, bytes.")
    grace: int = Field(default=20, ge=0, le=600, description="Longest grace of a victim.")
    min_runtime: int = Field(default=0, ge=0, description="A job younger than this is safe from borrowed claims.")
    cooldown: int = Field(default=60, ge=0, description="Pause between borrowed evictions of the same pair of leaves.")
    hold_timeout: int = Field(default=60, ge=1, description="How long freed cards wait for their job.")
    lost_work_cap: int = Field(default=3600, ge=0, description="Most seconds of lost work that count.")
    assumed_limit: int = Field(default=86_400, ge=1, description="A job without max_duration counts as ending then.")
    reserve_after: int = Field(default=3600, ge=0, description="A job blocked so long counts as the first of its rank.")
    consolidate_after: int | None = Field(
        default=None, ge=0, description="A job that waited so long may have others moved together; empty: never."
    )
    regroup_after: int | None = Field(
        default=None,
        ge=0,
        description="A guaranteed claim that waited so long may have guaranteed jobs moved; empty: never.",
    )
    hold_back: int = Field(
        default=0, ge=0, description="So many jobs may wait although they fit, so that others waste less; 0: none."
    )
    hold_back_for: int = Field(default=600, ge=0, description="Longest that a job is held back for that, seconds.")
    log_level: str = Field(default="info", pattern="^(debug|info|warning|error)$", description="Least level logged.")
    seller: str = Field(default="", max_length=500, description="Who sends invoices: the name that stands on them.")
    seller_address: str = Field(default="", max_length=500, description="Its address.")
    seller_tax_id: str = Field(default="", max_length=500, description="Its tax id.")
    reports_dir: str = Field(default="", description="Folder for each month's reports; empty: none.")
    reports_lang: str = Field(default="en", pattern="^(en|zh)$", description="Their language.")
    otlp_endpoint: str = Field(default="", description="OpenTelemetry collector (HTTP); empty: no traces.")

    @property
    def run_dir(self) -> Path:
        """Sockets, pids and addresses; 0700."""
        return self.state_dir / "run"

    @property
    def visible_folders(self) -> tuple[str, ...]:
        return tuple(folder for folder in self.visible.split(":") if folder)

    @property
    def jobs_dir(self) -> Path:
        return self.state_dir / "jobs"

    @property
    def engine_dir(self) -> Path:
        """The supervisor's journal."""
        return self.state_dir / "engine"

    @property
    def postgres_dir(self) -> Path:
        return self.state_dir / "postgres"
