"""What a benchmark gives back, and the files that keep it.

A benchmark is a module with ``run(mode) -> list[Figure]``.  A `Figure` is one measured number beside its mark (what
others published, and what the same peer does here in the same run), the bound that nobody can pass, and the aim.
``results/<name>.json`` keeps the figures of one full run with the machine, the commit and the time; those of a short
one are in ``results/short/<name>.json``, so that they never replace full ones.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import psutil

from millpond.domain.errors import InvalidInput

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
SHORT = RESULTS / "short"
PLACES = 6
"""Decimal places kept of a value that is not a whole number."""

_ALWAYS = frozenset({"id", "figure", "value", "unit"})

Mode = Literal["short", "full"]
Run = Callable[[Mode], "list[Figure]"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number.

    ``mark`` is what ``mark_source`` published, ``measured_mark`` the same peer in the same run; ``missing`` says why
    there is none although there could be ("go is not on the PATH").  ``bound`` cannot be passed by anybody.  ``aim`` is
    what the value must reach: at least (``better="more"``) or at most (``"less"``).  ``runs`` is how many runs the
    value stands for; ``note`` says what the name does not.
    """

    id: str
    figure: str
    value: float
    unit: str
    _: KW_ONLY
    runs: int = 1
    mark: float | None = None
    mark_source: str = ""
    measured_mark: float | None = None
    missing: str = ""
    bound: float | None = None
    aim: float | None = None
    better: Literal["more", "less"] = "less"
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Value over mark, where there is one; the published mark before the measured one."""
        base = self.mark if self.mark is not None else self.measured_mark
        return None if not base else self.value / base

    @property
    def met(self) -> bool | None:
        """Whether the aim is reached; None without an aim."""
        if self.aim is None:
            return None
        return self.value >= self.aim if self.better == "more" else self.value <= self.aim

    def json(self) -> dict[str, object]:
        """The form of the result file: what is not known is left out."""
        shown: dict[str, object] = {item.name: getattr(self, item.name) for item in fields(self)}
        if self.aim is None:
            del shown["better"]
        shown["ratio"] = self.ratio
        return {
            name: round(value, PLACES) if isinstance(value, float) else value
            for name, value in shown.items()
            if name in _ALWAYS or value not in (None, "")
        }

    def line(self) -> str:
        """One line: value, mark, bound, ratio, aim."""
        parts = [f"{self.id:5} {self.figure:32} {number(self.value):>12} {self.unit:8}"]
        if self.mark is not None or self.measured_mark is not None:
            published = f"{number(self.mark)} {self.mark_source}".strip() if self.mark is not None else self.mark_source
            here = f"here {number(self.measured_mark)}" if self.measured_mark is not None else ""
            parts.append("mark " + " · ".join(filter(None, (published, here))))
        if self.missing:
            parts.append(f"peer missing: {self.missing}")
        if self.bound is not None:
            parts.append(f"bound {number(self.bound)}")
        if self.ratio is not None:
            parts.append(f"ratio {self.ratio:.3f}")
        if self.aim is not None:
            sign = "≥" if self.better == "more" else "≤"
            parts.append(f"aim {sign} {number(self.aim)}: {'met' if self.met else 'MISSED'}")
        return "  ".join(parts).rstrip()


@dataclass(frozen=True, slots=True)
class Result:
    """One result file."""

    name: str
    mode: Mode
    machine: Mapping[str, object]
    commit: str
    started: str
    seconds: float
    compiled: bool
    figures: tuple[Figure, ...]

    def json(self) -> dict[str, object]:
        return {
            "machine": dict(self.machine),
            "commit": self.commit,
            "started": self.started,
            "mode": self.mode,
            "seconds": round(self.seconds, 1),
            "compiled": self.compiled,
            "figures": [figure.json() for figure in self.figures],
        }


def number(value: float | None) -> str:
    """A number as people write it: five significant digits, whole ones whole."""
    if value is None:
        return "-"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}".replace(",", " ")
    if abs(value) >= 10_000:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.5g}"


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of all do not exceed."""
    if not values:
        raise InvalidInput("no values to take a quantile of")
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


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    for line in info.read_text(encoding="utf-8").splitlines() if info.exists() else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


@dataclass(slots=True)
class Beside:
    """How much other work ran on the machine since this was made: times measured beside it are too long."""

    began: float = field(default_factory=time.monotonic)
    busy: float = field(default_factory=lambda: _busy() - _own())

    def cores(self) -> float:
        """Cores that others kept busy, on the average."""
        seconds = max(1e-9, time.monotonic() - self.began)
        return max(0.0, (_busy() - _own() - self.busy) / seconds)


def _busy() -> float:
    """CPU seconds that the machine has worked."""
    times = psutil.cpu_times()
    return float(times.user + times.system)


def _own() -> float:
    """CPU seconds of this process and of those that it started and that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def folder_of(mode: Mode) -> Path:
    """Where result files of a form are kept."""
    return RESULTS if mode == "full" else SHORT


def compiled() -> bool:
    """Whether the scheduling core in use is the compiled one."""
    used = (module for name, module in list(sys.modules.items()) if name.startswith("millpond.scheduling."))
    return any(str(module.__file__).endswith((".so", ".pyd")) for module in used)


def commit() -> str:
    """The commit of the working tree, with ``+`` when source, data or settings differ from it."""
    head = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    changed = subprocess.run(
        ["git", "-C", str(ROOT), "status", "--porcelain", "--", "src", "benchmarks/*.py"],
        capture_output=True,
        text=True,
        check=False,
    )
    return head.stdout.strip() + ("+" if changed.stdout.strip() else "")


# -- files


def result_write(result: Result, folder: Path) -> Path:
    """Write ``<folder>/<name>.json``, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{result.name}.json"
    part = path.with_suffix(".json.new")
    part.write_text(json.dumps(result.json(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    part.replace(path)
    return path


def result_read(path: Path) -> Result:
    """Read a result file.  Raises `InvalidInput` naming the file and what is wrong with it."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return Result(
            name=path.stem,
            mode="full" if found.get("mode", "full") == "full" else "short",
            machine=dict(found["machine"]),
            commit=str(found["commit"]),
            started=datetime.fromisoformat(found["started"]).isoformat(),
            seconds=float(found.get("seconds", 0)),
            compiled=bool(found.get("compiled", False)),
            figures=tuple(_figure(item) for item in found["figures"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidInput(
            f"{path} is not a result file: {error}", hint=f"run python -m benchmarks.{path.stem}"
        ) from error


def _figure(item: Mapping[str, object]) -> Figure:
    known = {item.name for item in fields(Figure)}
    given = {name: value for name, value in item.items() if name in known}
    figure = Figure(**given)  # type: ignore[arg-type]
    if isinstance(figure.value, bool) or not isinstance(figure.value, int | float):
        raise TypeError(f"the value of {figure.figure} is not a number")
    return figure


# -- running one


def benchmark_run(name: str, run: Run, mode: Mode, folder: Path | None = None) -> Result:
    """Run a benchmark and write its result file, to where its form is kept unless told otherwise."""
    started, clock, beside = datetime.now(UTC), time.perf_counter(), Beside()
    figures = run(mode)
    spent = time.perf_counter() - clock
    facts = machine() | {"other_work_cores": round(beside.cores(), 2)}
    stamp = started.isoformat(timespec="seconds")
    result = Result(name, mode, facts, commit(), stamp, spent, compiled(), tuple(figures))
    result_write(result, folder_of(mode) if folder is None else folder)
    return result


def benchmark_main(name: str, run: Run, argv: Sequence[str] | None = None) -> int:
    """``python -m benchmarks.<name> [--full] [--out FOLDER]``: run it, write its file, print its lines."""
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{name}", description=sys.modules[run.__module__].__doc__
    )
    parser.add_argument("--full", action="store_true", help="all of it; without, the short form")
    parser.add_argument("--out", type=Path, help="folder of the result file; by default benchmarks/results[/short]")
    options = parser.parse_args(argv)
    result = benchmark_run(name, run, "full" if options.full else "short", options.out)
    for figure in result.figures:
        print(figure.line())
        if figure.note:
            print(f"      {figure.note}")
    return 0


def progress(text: str) -> None:
    """One line of progress on standard error, overwritten by the next on a terminal."""
    end = "\r" if sys.stderr.isatty() else "\n"
    print(f"\x1b[2K{text}" if sys.stderr.isatty() else text, end=end, file=sys.stderr, flush=True)
