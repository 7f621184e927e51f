"""Logs: one JSON object a line, no query strings, nothing that was sent can forge a line."""

from __future__ import annotations

import logging

import orjson
import pytest

from kinbin_service.logs import JsonFormatter
from service_app import App


def line(record: logging.LogRecord) -> dict[str, object]:
    """A record as it is written, read back."""
    text = JsonFormatter().format(record)
    assert "\n" not in text
    content: dict[str, object] = orjson.loads(text)
    return content


async def test_the_access_log_has_no_query_string(app: App, caplog: pytest.LogCaptureFixture) -> None:
    """A line of the access log names method, path, status and time, and never the query string."""
    with caplog.at_level(logging.INFO, "kinbin.access"):
        await app.client.get("/v1/limits?colour=hidden&api_key=hidden")
        await app.client.get("/v1/collections/%2e%2e?x=hidden")
    lines = [line(record) for record in caplog.records if record.name == "kinbin.access"]
    assert [(entry["method"], entry["path"], entry["status"]) for entry in lines] == [
        ("GET", "/v1/limits", 400),
        ("GET", "/v1/collections/%2e%2e", lines[1]["status"]),
    ]
    assert all(entry.keys() >= {"time", "level", "request_id", "took_ms", "client"} for entry in lines)
    assert "hidden" not in str(lines)


async def test_paths_stay_encoded_and_short_in_the_log(app: App, caplog: pytest.LogCaptureFixture) -> None:
    """Line ends and escapes in a path are logged as they were sent: encoded, and cut."""
    with caplog.at_level(logging.INFO, "kinbin.access"):
        await app.client.get("/v1/collections/a%0d%0aforged%1b[31m" + "x" * 500)
    path = str(line(caplog.records[-1])["path"])
    assert path.startswith("/v1/collections/a%0d%0aforged%1b")
    assert len(path) <= 200


def test_messages_cannot_forge_lines() -> None:
    """Line ends, escapes and lone surrogates in a message stay inside its JSON string."""
    record = logging.LogRecord("kinbin", logging.INFO, __file__, 1, 'a\r\n{"forged":1}\x1b[0m\ud800 %s', ("b\nc",), None)
    assert line(record)["message"] == 'a\r\n{"forged":1}\x1b[0m\\ud800 b\nc'


def test_tracebacks_are_part_of_the_line() -> None:
    """The traceback of an error is one field of its line."""
    try:
        raise ValueError("broken\ud800")
    except ValueError as error:
        record = logging.LogRecord("kinbin", logging.ERROR, __file__, 1, "failed", (), (type(error), error, error.__traceback__))
    content = line(record)
    assert content["level"] == "error"
    assert "ValueError: broken" in str(content["error"])
