"""Traces: a span for each request and its library call, in the trace that the client began, without what was sent."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from kinbin_service import server, tracing
from kinbin_service.settings import Settings
from service_app import running_app
from service_process import free_port

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """Keeps what would be sent."""
    exporter = InMemorySpanExporter()
    monkeypatch.setattr(tracing, "_exporter", lambda: exporter)
    return exporter


def named(spans: Sequence[ReadableSpan], name: str) -> ReadableSpan:
    """The one span of this name."""
    (found,) = [span for span in spans if span.name == name]
    return found


async def test_a_request_is_a_span_of_its_clients_trace(tmp_path: Path, kept: InMemorySpanExporter) -> None:
    """Its span belongs to the trace of the header, tells route, status and request id, and its library call is inside; all end up sent."""
    async with running_app(tmp_path / "data", traces=True) as app:
        await app.post("/index", {"items": [{"id": "secret", "vector": [1, 2]}]})
        response = await app.client.post("/query", json={"vector": [1, 2]}, headers={"traceparent": PARENT})
        await app.post("/v1/collections/secret/query", {"vector": [1, 2]}, status=404)
    spans = kept.get_finished_spans()
    query = named(spans, "POST /query")
    assert query.context is not None
    assert query.parent is not None
    assert f"{query.context.trace_id:032x}" == PARENT.split("-")[1]
    assert f"{query.parent.span_id:016x}" == PARENT.split("-")[2]
    assert dict(query.attributes or {}) == {
        "http.request.method": "POST",
        "http.route": "/query",
        "http.response.status_code": 200,
        "kinbin.request_id": response.headers["x-request-id"],
    }
    (work,) = [span for span in spans if span.parent is not None and span.parent.span_id == query.context.span_id]
    assert work.name == "library call"
    refused = named(spans, "POST /v1/collections/{name}/query")
    assert (refused.attributes or {})["error.type"] == "collection_not_found"
    assert "secret" not in "".join(span.to_json() for span in spans)


async def test_a_failure_is_told(tmp_path: Path, kept: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that fails is an error with its status, without the text of the failure."""

    def broken(*_: object) -> None:
        raise RuntimeError("secret of the inside")

    async with running_app(tmp_path / "data", traces=True) as app:
        monkeypatch.setattr(app.service.database, "collections", broken)
        await app.get("/v1/collections", status=500)
    span = named(kept.get_finished_spans(), "GET /v1/collections")
    assert named(kept.get_finished_spans(), "library call").parent is not None
    assert span.status.is_ok is False
    assert "secret" not in "".join(span.to_json() for span in kept.get_finished_spans())


async def test_without_the_setting_nothing_is_traced(tmp_path: Path, kept: InMemorySpanExporter) -> None:
    """Traces are sent only where they were asked for."""
    async with running_app(tmp_path / "data") as app:
        await app.get("/v1/collections", headers={"traceparent": PARENT})
    assert kept.get_finished_spans() == ()


def test_traces_without_their_packages_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server says at its start what is missing, and how to get it."""
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(ValueError, match=r"pip install --find-links dist 'kinbin\[traces\]'"):
        server.run(Settings(data_dir=tmp_path / "data", traces=True, port=free_port()))
