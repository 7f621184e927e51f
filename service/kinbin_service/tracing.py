"""Traces for OpenTelemetry, an extra: a span for each request and, inside, one for its library call with the wait before it.

Where they go, and how many are kept, say the variables of OpenTelemetry (OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_TRACES_SAMPLER, …). Spans hold
method, route, status, the code of a refusal and the request id: nothing that was sent.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers
from starlette.types import Scope

import kinbin
from kinbin.errors import install
from kinbin_service.problems import REFUSED
from kinbin_service.settings import Settings

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

__all__ = ["Tracing", "check_tracing"]

_QUIET: dict[str, Any] = {"record_exception": False, "set_status_on_exception": False}
"""Texts of errors may hold what was sent, or names of files."""


def check_tracing(settings: Settings) -> None:
    """Refuse (ValueError) traces without the packages that send them."""
    if not settings.traces:
        return
    try:
        _exporter()
    except ModuleNotFoundError as error:
        raise ValueError(f"KINBIN_TRACES needs {error.name}: {install('traces')}") from None


def _exporter() -> SpanExporter:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()


class Tracing:
    """The spans of a worker. Without `settings.traces` it does nothing, and imports nothing."""

    def __init__(self, settings: Settings) -> None:
        self._provider: TracerProvider | None = None
        if not settings.traces:
            return
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        name = os.environ.get("OTEL_SERVICE_NAME", "kinbin")
        self._provider = TracerProvider(resource=Resource.create({"service.name": name, "service.version": kinbin.__version__}))
        self._provider.add_span_processor(BatchSpanProcessor(_exporter()))
        self._tracer = self._provider.get_tracer("kinbin", kinbin.__version__)

    @contextmanager
    def request(self, scope: Scope, headers: Headers, request_id: str) -> Iterator[list[int]]:
        """The span of a request, as part of the trace that it says it belongs to. Its status is put into the list that is given."""
        status: list[int] = []
        if self._provider is None:
            yield status
            return
        from opentelemetry.trace import SpanKind, Status, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        above = TraceContextTextMapPropagator().extract(dict(headers))
        with self._tracer.start_as_current_span(scope["method"], above, SpanKind.SERVER, **_QUIET) as span:
            try:
                yield status
            finally:
                route = getattr(scope.get("route"), "path", None)
                span.update_name(f"{scope['method']} {route}" if route else scope["method"])
                told = {"http.request.method": scope["method"], "http.response.status_code": status[-1] if status else 0}
                told |= {"http.route": route} if route else {}
                told |= {"error.type": scope[REFUSED]} if REFUSED in scope else {}
                span.set_attributes({**told, "kinbin.request_id": request_id})
                if status and status[-1] >= 500:
                    span.set_status(Status(StatusCode.ERROR))

    @contextmanager
    def work(self) -> Iterator[None]:
        """The span of a library call, with its wait for a thread."""
        if self._provider is None:
            yield
            return
        with self._tracer.start_as_current_span("library call", **_QUIET):
            yield

    def flush(self) -> None:
        """Send what is left, and end. Blocks, for some seconds if nobody answers."""
        if self._provider is not None:
            self._provider.shutdown()
