"""Traces reach a real collector's door, and without an endpoint nothing is started."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from millpond import tracing
from millpond.domain.errors import InvalidInput

SCRIPT = """
import sys
from opentelemetry.trace import get_tracer
from millpond.tracing import tracing_start
end = tracing_start(sys.argv[1])
with get_tracer("millpond.control").start_as_current_span("schedule.pass"):
    pass
end()
"""


class Collector(ThreadingHTTPServer):
    """Takes OTLP over HTTP on a free port and keeps the names of spans."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen: list[tuple[str, str, str]] = []


class Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        request = ExportTraceServiceRequest()
        request.ParseFromString(self.rfile.read(int(self.headers["Content-Length"])))
        for resource in request.resource_spans:
            names = {item.key: item.value.string_value for item in resource.resource.attributes}
            for part in resource.scope_spans:
                self.server.seen += [(self.path, names["service.name"], span.name) for span in part.spans]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as found:
        thread = threading.Thread(target=found.serve_forever)
        thread.start()
        try:
            yield found
        finally:
            found.shutdown()
            thread.join()


def test_spans_are_exported(collector: Collector) -> None:
    """In a process of its own: a tracer provider is for the whole process."""
    address = f"http://127.0.0.1:{collector.server_port}/"
    subprocess.run([sys.executable, "-c", SCRIPT, address], check=True, timeout=60)
    assert collector.seen == [("/v1/traces", "millpond", "schedule.pass")]


def test_nothing_is_started_without_an_endpoint() -> None:
    subprocess.run([sys.executable, "-c", SCRIPT, ""], check=True, timeout=60)


def test_missing_exporter_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "EXPORTABLE", False)
    with pytest.raises(InvalidInput, match="not installed"):
        tracing.tracing_start("http://127.0.0.1:4318")
