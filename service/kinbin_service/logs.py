"""Logs as one JSON object a line. Names, ids and texts appear inside JSON strings only, so nothing that was sent can forge a line."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

import orjson

__all__ = ["JsonFormatter", "configuration"]


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


def _text(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def configuration(level: str) -> dict[str, Any]:
    """Logging for a server process: everything to standard error."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": JsonFormatter}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
        "loggers": {name: {"handlers": ["stderr"], "level": level.upper(), "propagate": False} for name in ("kinbin", "uvicorn")},
    }
