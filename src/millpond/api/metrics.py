"""Prometheus metrics of the API, and the jobs as the database has them at scrape time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from millpond import __version__

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

JobCounts = Mapping[tuple[str, str], int]
"""Jobs by (leaf, state)."""


class HttpMetrics:
    """Requests by route template and status, in a registry of its own (`registry` may be shared with the loops)."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self._requests = Counter(
            "millpond_http_requests", "HTTP requests.", ("method", "route", "status"), registry=registry
        )
        self._seconds = Histogram(
            "millpond_http_request_seconds",
            "Seconds to answer (streams: until they end).",
            ("method", "route"),
            buckets=_BUCKETS,
            registry=registry,
        )
        self.streams = Gauge("millpond_http_streams", "Open event streams.", registry=registry)
        self.execs = Gauge("millpond_http_execs", "Open exec sessions.", registry=registry)
        Gauge("millpond_build_info", "Constant 1; its labels say what runs.", ("version",), registry=registry).labels(
            __version__
        ).set(1)

    def seen(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        known = method if method in {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"} else "OTHER"
        self._requests.labels(known, route, str(status)).inc()
        self._seconds.labels(known, route).observe(seconds)


class JobMetrics:
    """Jobs by queue and state, as read for this scrape."""

    def __init__(self, counts: JobCounts) -> None:
        self._counts = counts

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily("millpond_jobs", "Live jobs by leaf and state.", labels=("queue", "state"))
        for (queue, state), count in sorted(self._counts.items()):
            family.add_metric((queue, state), count)
        yield family


def metrics_text(registry: CollectorRegistry, jobs: JobMetrics) -> bytes:
    """Everything in the text format: the registry, and the jobs now."""
    scrape = CollectorRegistry()
    scrape.register(jobs)
    return generate_latest(registry) + generate_latest(scrape)
