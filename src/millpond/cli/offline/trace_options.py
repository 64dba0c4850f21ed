"""Options of the commands that read traces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from millpond.cli.lazy import option

FORMATS = ("snapshot", "openb", "philly", "slurm", "kubernetes")


def trace_options(function: Any) -> Any:
    """How a file is read, on which pool it runs, and which part of it."""
    options: tuple[Callable[[Any], Any], ...] = (
        option("--format", type=click.Choice(FORMATS), default=None, help="trace.format"),
        option("--pool", metavar="FILE|NxCxMODEL", default="", help="trace.pool"),
        option("--queue", metavar="LEAF", default="", help="trace.queue"),
        option("--speed", metavar="X", default="", help="trace.speed"),
        option("--limit", type=click.IntRange(min=1), metavar="N", default=None, help="trace.limit"),
        option("--checkpoint-every", metavar="TIME", default="", help="trace.checkpoint_every"),
        option("--from", "begin", metavar="TIME", default="", help="trace.from"),
    )
    for wrap in reversed(options):
        function = wrap(function)
    return function
