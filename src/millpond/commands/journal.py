"""The server's own log: one line an event, to standard output (which `up` points at ``logs/server.log``)."""

from __future__ import annotations

import logging
import sys

import structlog


def logging_setup(level: str) -> None:
    """Structured lines for ours, and the warnings of libraries.  Called once by the server's process."""
    number = logging.getLevelNamesMapping()[level.upper()]
    logging.basicConfig(
        stream=sys.stdout,
        level=max(number, logging.WARNING),
        format="%(asctime)s [%(levelname)s] %(name)s: %(message)s",
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"], bool_as_flag=False),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stdout),
        cache_logger_on_first_use=True,
    )
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
