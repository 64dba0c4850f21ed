"""What every benchmark needs: the machine's name tag, a millpond of its own, quantiles, and the result file."""

from __future__ import annotations

import contextlib
import json
import math
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil

from millpond.sdk import Client

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number.  ``mark`` is the limit that it should stay under, where there is one."""

    id: str
    figure: str
    value: float
    unit: str
    runs: int
    mark: float | None = None
    mark_source: str = ""

    @property
    def holds(self) -> bool:
        return self.mark is None or self.value < self.mark


@dataclass(frozen=True, slots=True)
class Pond:
    """A running millpond of our own."""

    state_dir: Path
    client: Client

    def processes(self) -> list[psutil.Process]:
        """The control plane: server, supervisor and PostgreSQL, with all that PostgreSQL started."""
        server = json.loads((self.state_dir / "run" / "server.json").read_text())["pid"]
        found = {server: psutil.Process(server)}
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if any(str(self.state_dir) in word for word in process.cmdline()):
                    found[process.pid] = process
                    found |= {child.pid: child for child in process.children(recursive=True)}
        found.pop(os.getpid(), None)
        return list(found.values())


@contextlib.contextmanager
def pond_open(pool: str, isolation: str = "none") -> Iterator[Pond]:
    """``millpond up`` in a temporary state folder on a free port, ended and removed afterwards."""
    state_dir = Path(tempfile.mkdtemp(prefix="millpond-bench-"))
    state_dir.chmod(0o755)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MILLPOND_")}
    environ |= {"MILLPOND_STATE_DIR": str(state_dir), "MILLPOND_PORT": "0", "MILLPOND_ISOLATION": isolation}
    program = str(Path(sys.executable).with_name("millpond"))
    try:
        subprocess.run([program, "up", "--sim", pool], env=environ, check=True, timeout=120, stdout=subprocess.DEVNULL)
        address = json.loads((state_dir / "run" / "server.json").read_text())["address"]
        token = (state_dir / "run" / "admin.token").read_text().strip()
        with Client(address, token) as client:
            yield Pond(state_dir, client)
    finally:
        subprocess.run([program, "down"], env=environ, check=False, timeout=120, stdout=subprocess.DEVNULL)
        shutil.rmtree(state_dir, ignore_errors=True)


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def machine() -> dict[str, object]:
    """What the figures depend on."""
    return {
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def result_write(name: str, figures: Sequence[Figure]) -> Path:
    """Write ``results/<name>.json`` and print the figures."""
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    result = {
        "machine": machine(),
        "commit": commit.stdout.strip(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "figures": [
            {key: value for key, value in _fields(figure).items() if value is not None and value != ""}
            for figure in figures
        ],
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    for figure in figures:
        limit = (
            "" if figure.mark is None else f"  (limit {figure.mark} {figure.unit}{'' if figure.holds else ', MISSED'})"
        )
        print(f"{figure.figure:24} {figure.value:10.2f} {figure.unit}{limit}")
    return path


def _fields(figure: Figure) -> dict[str, object]:
    return {
        "id": figure.id,
        "figure": figure.figure,
        "value": round(figure.value, 3),
        "unit": figure.unit,
        "mark": figure.mark,
        "mark_source": figure.mark_source,
        "runs": figure.runs,
    }


def _cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
