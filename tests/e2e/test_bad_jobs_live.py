"""Bad job files through the command line of a live millpond: one line, the right exit code, and no trace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.golden.test_jobs_bad import EXPECTED, FOLDER
from tests.live import Millpond, home_made, millpond_up

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def pond() -> Iterator[Millpond]:
    with (
        home_made() as folder,
        millpond_up(folder, "1x8xA800-80GB") as found,
    ):
        yield found


def traces(pond: Millpond) -> tuple[list[str], int, list[str]]:
    """Jobs, events and job folders."""
    with pond.client() as client:
        jobs = [job["id"] for job in client.jobs.list()]
        events = sum(1 for _ in client.events.list())
    folder = pond.state_dir / "jobs"
    return jobs, events, sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_bad_files_are_refused_without_a_trace(pond: Millpond, tmp_path: Path) -> None:
    before = traces(pond)
    big = tmp_path / "big.yaml"
    big.write_bytes(b"name: train\ncommands: [a]\n# " + b"x" * (10 << 20))
    lines = EXPECTED.read_text().splitlines()
    assert len(lines) >= 40
    for line in [*lines, "big.yaml:1:1: the file has more than 1 MiB (a job file is a few lines)"]:
        name = line.partition(":")[0]
        path = big if name == "big.yaml" else FOLDER / name
        done = pond.command("apply", str(path), check=False)
        assert (done.returncode, done.stdout) == (2, ""), name
        assert len(done.stderr.splitlines()) == 1, done.stderr
        assert done.stderr.startswith(f"millpond: {path}:"), done.stderr
        assert done.stderr.rstrip().endswith(")"), done.stderr
    assert traces(pond) == before


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("resources: {gpu: 9}", "it asks for 9 cards on a node, the largest has 8"),
        ("resources: {gpu: 'H100:1'}", "no node has H100 cards"),
        ("nodes: 2\nresources: {gpu: 8}", "2 nodes"),
        ("project: nowhere", "project"),
        ("tenant: nobody", "tenant"),
    ],
)
def test_what_the_server_refuses(pond: Millpond, tmp_path: Path, change: str, said: str) -> None:
    """9 cards on 8-card nodes and the like: well-formed, yet it can never be (exit 4)."""
    before = traces(pond)
    path = tmp_path / "job.yaml"
    path.write_text(f"name: never\ncommands: ['true']\n{change}\n")
    done = pond.command("apply", str(path), check=False)
    assert (done.returncode, done.stdout) == (4, "")
    assert len(done.stderr.splitlines()) == 1
    assert said in done.stderr
    assert traces(pond) == before
