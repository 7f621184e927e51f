"""The service's limits, added to the library's: the table that `/v1/limits` returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kinbin.limits import LIMITS, Limit
from kinbin_service.settings import Settings

__all__ = ["all_limits", "body_limit", "is_stream"]

PROBLEM_BYTES = 2_048
PROBLEM_ENTRIES = 8


def all_limits(settings: Settings) -> dict[str, Limit]:
    """Every limit by name: what the library takes, and what this server takes."""
    own = (
        Limit("index_body_bytes", settings.max_index_body_bytes, "bytes", "an add is held in memory"),
        Limit("query_body_bytes", settings.max_query_body_bytes, "bytes", "a query is held in memory"),
        Limit("body_bytes", settings.max_body_bytes, "bytes", "any other body is held in memory"),
        Limit("restore_body_bytes", settings.max_restore_bytes, "bytes", "an uploaded snapshot is held on disk"),
        Limit(
            "long_work",
            1,
            "snapshots made, verified or restored, or collections rebuilt, at once in a worker",
            "each reads or writes a whole collection",
        ),
        Limit("answer_items", settings.max_answer_items, "k times queries", "an answer is held in memory"),
        Limit(
            "answer_contents", settings.max_answer_contents, "k times queries with include", "payloads and vectors are larger than scores"
        ),
        Limit("threads", settings.threads, "requests at work in a worker", "more would share the same processors"),
        Limit("queue_length", settings.queue_length, "requests waiting in a worker", "a longer wait helps nobody"),
        Limit("deadline_seconds", settings.deadline_seconds, "seconds of waiting", "work that nobody waits for any more is not started"),
        Limit("search_seconds", settings.search_seconds, "seconds of one search", "a batch must not hold a thread for minutes"),
        Limit("body_seconds", settings.body_seconds, "seconds for a body to arrive", "a slow sender holds memory"),
        Limit("problem_bytes", PROBLEM_BYTES, "bytes of an error answer", "errors must not amplify"),
        Limit("problem_entries", PROBLEM_ENTRIES, "entries of an error answer", "errors must not amplify"),
    )
    return {**LIMITS, **{limit.name: limit for limit in own}}


def is_stream(scope: Mapping[str, Any]) -> bool:
    """Whether a request is a stream of lines, which has no limit as a whole: its batches have."""
    return scope["path"].endswith("/index") and b"stream=true" in scope["query_string"].split(b"&")


def body_limit(path: str, settings: Settings) -> tuple[str, int]:
    """Name and value of the limit on the body of a request to this path."""
    if path.endswith("/index"):
        return "index_body_bytes", settings.max_index_body_bytes
    if path.endswith("/query"):
        return "query_body_bytes", settings.max_query_body_bytes
    if path == "/v1/restore":
        return "restore_body_bytes", settings.max_restore_bytes
    return "body_bytes", settings.max_body_bytes
