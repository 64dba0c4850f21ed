"""OpenTelemetry traces, for those who collect them: requests of the API, planning passes, orders to the engine.

Rooms make spans through the OpenTelemetry API, which does nothing until a provider is installed.  `tracing_start`
installs one that exports to ``MILLPOND_OTLP_ENDPOINT``; it needs the extra ``millpond[otel]``.
"""

from __future__ import annotations

from collections.abc import Callable

from opentelemetry import trace

from millpond import __version__
from millpond.domain.errors import InvalidInput

try:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
except ImportError:
    EXPORTABLE = False
else:
    EXPORTABLE = True


def tracing_start(endpoint: str) -> Callable[[], None]:
    """Export spans to the collector at `endpoint` (``http://host:4318``); gives what sends the rest at the end.

    An empty endpoint starts nothing.  Raises `InvalidInput` when the exporter is not installed.
    """
    if not endpoint:
        return _nothing
    if not EXPORTABLE:
        raise InvalidInput(
            "MILLPOND_OTLP_ENDPOINT is set, but the exporter is not installed",
            hint="pip install 'millpond[server,otel]', or unset it",
        )
    resource = Resource.create({"service.name": "millpond", "service.version": __version__})
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces")))
    trace.set_tracer_provider(provider)
    return provider.shutdown


def _nothing() -> None:
    pass
