"""Logs: one JSON object a line, no query strings, nothing that was sent can forge a line."""

from __future__ import annotations

import logging
import re
import sys
from pathlib import Path

import orjson
import pytest

from kinbin_service.logs import JsonFormatter, TextFormatter, configuration
from service_app import App, running_app


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


async def test_people_read_one_short_line_a_request(app: App, caplog: pytest.LogCaptureFixture) -> None:
    """On a terminal a request is its time of day, method, path, status and duration."""
    with caplog.at_level(logging.INFO, "kinbin.access"):
        await app.client.get("/v1/limits?colour=hidden")
    (text,) = (TextFormatter().format(record) for record in caplog.records if record.name == "kinbin.access")
    assert re.fullmatch(r"\d\d:\d\d:\d\d GET /v1/limits 200 \d+\.\d ms", text)


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
async def test_no_log_holds_vectors_payloads_or_keys(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, formatter: logging.Formatter
) -> None:
    """Whatever is sent, rightly or wrongly, is in no line of the log."""
    key = "secret-of-the-test"
    async with running_app(tmp_path / "data", api_key=key) as app:
        with caplog.at_level(logging.DEBUG):
            for sent in (key, "wrong-secret"):
                headers = {"authorization": f"Bearer {sent}", "content-type": "application/json"}
                good = b'{"items": [{"id": "ident", "vector": [0.123456, 2], "payload": {"note": "private"}}]}'
                for body in (good, good.replace(b"2]", b'"7.654321"]'), good[:-1]):
                    await app.client.post("/index", content=body, headers=headers)
                await app.client.post("/query", content=b'{"vector": [0.123456, 2]}', headers=headers)
            await app.client.get(f"/v1/limits?api_key={key}")
        logged = "\n".join(formatter.format(record) for record in caplog.records if record.name.split(".")[0] in {"kinbin", "uvicorn"})
    assert sum(record.name == "kinbin.access" for record in caplog.records) == 9
    for secret in (key, "wrong-secret", "0.123456", "7.654321", "private", "ident"):
        assert secret not in logged


def test_text_cannot_forge_lines_or_steer_a_terminal() -> None:
    """Line ends, escapes and lone surrogates in messages and fields are written out."""
    record = logging.LogRecord("kinbin", logging.WARNING, __file__, 1, "a\r\nforged\x1b[0m %s", ("\ud800",), None)
    record.fields = {"path": "x\ny\x9b"}
    text = TextFormatter().format(record)
    assert text.split(" ", 1)[1] == "WARNING a\\r\\nforged\\x1b[0m \\ud800: path x\\ny\\x9b"


def test_text_has_the_traceback_below() -> None:
    """The traceback of an error follows its line."""
    try:
        raise ValueError("broken")
    except ValueError as error:
        record = logging.LogRecord("kinbin", logging.ERROR, __file__, 1, "failed", (), (type(error), error, error.__traceback__))
    lines = TextFormatter().format(record).splitlines()
    assert lines[0].endswith(" ERROR failed")
    assert lines[-1] == "ValueError: broken"


@pytest.mark.parametrize(
    ("form", "terminal", "chosen"), [("auto", True, "text"), ("auto", False, "json"), ("json", True, "json"), ("text", False, "text")]
)
def test_the_form_of_the_log(monkeypatch: pytest.MonkeyPatch, form: str, terminal: bool, chosen: str) -> None:
    """A terminal gets text and all else JSON, unless one of them is asked for."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    assert configuration("info", form)["handlers"]["stderr"]["formatter"] == chosen
