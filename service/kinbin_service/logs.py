"""Logs: short lines for people on a terminal, otherwise one JSON object a line. Nothing that was sent can forge a line in either.

Names, ids and texts appear inside JSON strings, or without the characters that end a line or steer a terminal. What is logged holds no
vectors, no payloads, no query strings and no keys: only what the calls of `logging` name.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any

import orjson

__all__ = ["JsonFormatter", "TextFormatter", "configuration"]


class JsonFormatter(logging.Formatter):
    """time, level, logger, message, the `fields` given as extra, and the traceback of an error."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _text(record.getMessage()),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["error"] = _text(self.formatException(record.exc_info))
        return orjson.dumps(line, default=repr).decode()


class TextFormatter(logging.Formatter):
    """Time of day, level where it is not info, message, fields; a request as `POST /query 200 3.1 ms`; the traceback of an error below."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and more of them for a traceback."""
        fields: dict[str, Any] = getattr(record, "fields", {})
        time = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        level = "" if record.levelno == logging.INFO else f"{record.levelname} "
        if record.name == "kinbin.access":
            said = f"{fields['method']} {fields['path']} {fields['status']} {fields['took_ms']:.1f} ms"
        else:
            said = record.getMessage() + (": " if fields else "") + ", ".join(f"{name} {value}" for name, value in fields.items())
        lines = [f"{time} {level}{said}"]
        if record.exc_info:
            lines += self.formatException(record.exc_info).splitlines()
        return "\n".join("".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line) for line in lines)


def _text(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def configuration(level: str, form: str = "auto") -> dict[str, Any]:
    """Logging for a server process: everything to standard error. form: "text", "json", or "auto": text on a terminal, else JSON."""
    chosen = form if form != "auto" else "text" if sys.stderr.isatty() else "json"
    levels = {"kinbin": level.upper(), "uvicorn": level.upper()}
    if chosen == "text" and level == "info":
        levels["uvicorn"] = "WARNING"  # its steps of starting and ending say nothing to people
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": JsonFormatter}, "text": {"()": TextFormatter}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": chosen}},
        "loggers": {name: {"handlers": ["stderr"], "level": least, "propagate": False} for name, least in levels.items()},
    }
