"""Every benchmark, one after the other, each in its own process.

    python -m benchmarks.run [--full] [NAME...]

Prints for every figure our value, the mark (published, and measured in the same run), the bound, the ratio and whether
the aim is met, and leaves ``results/<name>.json`` behind, ``results/short/<name>.json`` without ``--full``.  A
benchmark that fails is named and the next one runs; so is one that is not done after `LIMITS`.  Ctrl-C ends the present
one and prints what there is.  Exit code 1 if any benchmark failed, 130 after Ctrl-C; a missed aim is a result, not a
failure.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.figures import ROOT, Mode, Result, folder_of, result_read
from millpond.domain.errors import InvalidInput

BENCHMARKS = {
    "packing": "B1",
    "decisions": "B2",
    "admission": "B3",
    "completion": "B4",
    "sharing": "B5",
    "eviction": "B6",
    "whatif": "B7",
    "pooling": "B9",
    "explain": "B11",
    "checked": "check",
    "start_latency": "start",
    "closing": "close",
}
"""Module of each benchmark, and its id in the guide."""

COMPILED = ROOT / "build" / "compiled"
INTERRUPTED = 130
LIMITS: dict[Mode, int] = {"short": 600, "full": 6 * 3600}
"""Seconds after which a benchmark is ended: many times what it takes."""


@dataclass(slots=True)
class Report:
    """What has been measured so far, and what has not."""

    results: list[Result] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def print(self) -> None:
        print()
        for result in self.results:
            for figure in result.figures:
                print(figure.line())
        aims = [figure for result in self.results for figure in result.figures if figure.aim is not None]
        missed = [figure for figure in aims if not figure.met]
        print(f"\n{len(aims) - len(missed)} of {len(aims)} aims met", end="")
        print("; missed: " + ", ".join(f"{figure.id} {figure.figure}" for figure in missed) if missed else "")
        for text in self.failed:
            print(f"failed: {text}")
        if self.left:
            print(f"not run: {', '.join(self.left)}")


def environment() -> dict[str, str]:
    """Ours, with the compiled core first on the path when it has been built (``make compiled``)."""
    environ = dict(os.environ)
    paths = [str(COMPILED)] if COMPILED.is_dir() else []
    paths += filter(None, environ.get("PYTHONPATH", "").split(os.pathsep))
    environ["PYTHONPATH"] = os.pathsep.join(paths)
    environ["PYTHONHASHSEED"] = "0"
    return environ


def benchmark_start(name: str, *, full: bool, folder: Path) -> subprocess.Popen[str]:
    """Start one benchmark; its own lines are dropped, since they are read from its file; progress stays visible."""
    command = [sys.executable, "-m", f"benchmarks.{name}", "--out", str(folder), *(["--full"] if full else [])]
    return subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL, text=True)


def benchmark_end(process: subprocess.Popen[str]) -> None:
    """End one, and what it has started."""
    started = psutil.Process(process.pid).children(recursive=True)
    for child in started:
        child.kill()
    process.kill()
    process.wait()


def run_all(names: Sequence[str], report: Report, *, full: bool, folder: Path) -> int:
    """Run them in order; the exit code."""
    report.left = list(names)
    for place, name in enumerate(names, 1):
        print(f"[{place}/{len(names)}] {BENCHMARKS[name]} {name} …", file=sys.stderr, flush=True)
        began = time.monotonic()
        process = benchmark_start(name, full=full, folder=folder)
        try:
            code = process.wait(timeout=LIMITS["full" if full else "short"])
        except subprocess.TimeoutExpired:
            benchmark_end(process)
            report.left.remove(name)
            report.failed.append(f"{name}, not done after {time.monotonic() - began:.0f} s and ended")
            continue
        except KeyboardInterrupt:
            # The terminal has interrupted the benchmark too; it may need a moment to stop what it started.
            process.wait()
            return INTERRUPTED
        report.left.remove(name)
        print(f"[{place}/{len(names)}] {name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        if code:
            report.failed.append(f"{name}, exit code {code}; run python -m benchmarks.{name} to see why")
        else:
            try:
                report.results.append(result_read(folder / f"{name}.json"))
            except InvalidInput as error:
                report.failed.append(f"{name}: {error.message}")
    return 1 if report.failed else 0


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}; all by default")
    parser.add_argument("--full", action="store_true", help="everything, which takes an hour or more")
    parser.add_argument("--out", type=Path, help="folder of the result files; by default benchmarks/results[/short]")
    options = parser.parse_args(argv)
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"unknown benchmark {', '.join(unknown)}; choose of {', '.join(BENCHMARKS)}")
    here = Path(__file__).parent
    names = options.names or [name for name in BENCHMARKS if (here / f"{name}.py").exists()]
    print(
        f"core: {'compiled' if COMPILED.is_dir() else 'pure Python (make compiled builds the fast one)'}",
        file=sys.stderr,
    )
    report = Report()
    folder = options.out or folder_of("full" if options.full else "short")
    code = run_all(names, report, full=options.full, folder=folder)
    report.print()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
