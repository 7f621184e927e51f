"""Answers are parsed leniently, and what is not Kinbin's gives an error that says what came."""

from __future__ import annotations

import gc
import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

import kinbin_client
from kinbin_client import AddResult, Answer, ApiError, BadRequest, Hit, Problem, ServerError, Sparse, UnexpectedResponse
from kinbin_client._responses import ERROR_CLASSES, Reply, discard, model_parser, raise_for_error

PROBLEM = {
    "type": "urn:kinbin:problem:over_limit",
    "title": "A limit is passed",
    "status": 422,
    "code": "over_limit",
    "detail": "k is at most 1,000",
    "errors": [{"pointer": "#/k", "detail": "too large", "later": 1}],
    "limit": "k",
    "a_field_of_later": {},
}


def reply(status: int, content: bytes | str, content_type: str = "application/json", **headers: str) -> Reply:
    """A reply."""
    body = content.encode() if isinstance(content, str) else content
    return Reply(status, {"content-type": content_type, **{name.replace("_", "-"): value for name, value in headers.items()}}, body)


def problem(status: int, **changes: Any) -> Reply:
    """A reply with a problem document."""
    return reply(status, json.dumps({**PROBLEM, "status": status, **changes}), "application/problem+json", x_request_id="r1")


def error_of(given: Reply) -> Any:
    """The error that a reply is."""
    with pytest.raises(kinbin_client.KinbinClientError) as raised:
        raise_for_error(given)
    return raised.value


def test_reading_a_large_answer_leaves_garbage_collection_as_it_was() -> None:
    """No garbage is collected while a large answer is read; afterwards it is as before, after a refusal too."""
    seen: list[bool] = []

    class Looking(BaseModel):
        answers: list[int]

        @field_validator("answers")
        @classmethod
        def look(cls, value: list[int]) -> list[int]:
            seen.append(gc.isenabled())
            return value

    parse = model_parser(Looking)
    large = b'{"answers":[' + b",".join([b"1234567"] * 10_000) + b"]}"
    parse(Reply(200, {}, large))
    parse(Reply(200, {}, b'{"answers":[1]}'))
    assert seen == [False, True]
    with pytest.raises(UnexpectedResponse):
        parse(Reply(200, {}, large[:-2] + b',"x"]}'))
    assert gc.isenabled()
    gc.disable()
    try:
        parse(Reply(200, {}, large))
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_answer_is_read_with_unknown_fields() -> None:
    """Fields of later versions are ignored, wherever they stand; those of the contract are typed."""
    content: dict[str, Any] = {
        "results": [
            {"id": "a", "score": 1, "payload": {"x": [1]}, "vector": [1, 2.5], "later": 1},
            {"id": "b", "score": 0.5, "vector": {"indices": [3], "values": [2], "later": 1}},
        ],
        "recall_lower_bound": None,
        "no_bound": "fewer than k answers",
        "mode": "bands",
        "candidates": 412,
        "verified": 138,
        "truncated": ["postings"],
        "took_ms": 0.7,
        "later": {},
    }
    answer = model_parser(Answer)(reply(200, json.dumps(content)))
    assert answer.ids == ["a", "b"]
    assert answer.scores == [1.0, 0.5]
    assert answer.results[0] == Hit(id="a", score=1.0, payload={"x": [1]}, vector=[1.0, 2.5])
    assert answer.results[1].vector == Sparse([3], [2.0])
    assert (answer.recall_lower_bound, answer.no_bound, answer.mode) == (None, "fewer than k answers", "bands")
    assert (answer.candidates, answer.verified, answer.truncated, answer.took_ms) == (412, 138, ["postings"], 0.7)


def test_models_are_immutable() -> None:
    """What the service said cannot be changed by accident."""
    result = AddResult(indexed=1, updated=0, count=1)
    with pytest.raises(ValueError, match="frozen"):
        result.count = 2  # type: ignore[misc]  # the mistake under test


@pytest.mark.parametrize("status", sorted(ERROR_CLASSES))
def test_status_has_its_class(status: int) -> None:
    """Each documented status raises its own class with all that the problem document says."""
    error = error_of(problem(status))
    assert type(error) is ERROR_CLASSES[status]
    assert (error.status, error.code, error.detail, error.limit) == (status, "over_limit", "k is at most 1,000", "k")
    assert error.errors == (Problem("#/k", "too large"),)
    assert error.request_id == "r1"
    assert str(error) == f"{status} over_limit: k is at most 1,000 [#/k: too large]"


@pytest.mark.parametrize(("status", "expected"), [(402, BadRequest), (405, BadRequest), (418, BadRequest), (499, BadRequest)])
def test_other_client_errors_are_bad_requests(status: int, expected: type[ApiError]) -> None:
    """A 4xx without a class of its own is a BadRequest."""
    assert type(error_of(problem(status))) is expected


@pytest.mark.parametrize("status", [500, 501, 502, 504, 599])
def test_other_server_errors_are_server_errors(status: int) -> None:
    """A 5xx without a class of its own is a ServerError; those with one are too."""
    assert type(error_of(problem(status))) is ServerError
    assert issubclass(ERROR_CLASSES[503], ServerError)
    assert issubclass(ERROR_CLASSES[507], ServerError)


@pytest.mark.parametrize(
    ("given", "excerpt"),
    [
        (
            reply(502, "<html>\r\n<h1>Bad Gateway</h1>\x1b[31m nginx</html>", "text/html; charset=utf-8"),
            "<html> <h1>Bad Gateway</h1> [31m nginx</html>",
        ),
        (reply(502, b"", ""), ""),
        (reply(502, b"\xff\xfe" + b"x" * 10_000, "application/octet-stream"), "xxx..."),
        (reply(502, '{"title":"Bad Gateway"}', "application/problem+json"), "Bad Gateway"),
        (reply(502, '{"code":"x","errors":3', "application/problem+json"), '"errors":3'),
        (reply(502, '{"message":"no healthy upstream"}'), "no healthy upstream"),
        (reply(502, json.dumps(PROBLEM)), "over_limit"),
    ],
)
def test_foreign_error_is_told_as_foreign(given: Reply, excerpt: str) -> None:
    """An error page of a proxy keeps its status, has no code, and its beginning is shown on one line."""
    error = error_of(given)
    assert (type(error), error.status, error.code, error.errors) == (ServerError, 502, None, ())
    assert "Bad Gateway, in a form that Kinbin does not use" in str(error)
    assert excerpt in error.detail
    assert error.detail.isprintable()
    assert len(error.detail) < 400


def test_status_nobody_knows_is_told() -> None:
    """A status outside every list is still an error with its number."""
    assert str(error_of(reply(599, "x", "text/plain"))).startswith("599 ServerError: unknown status")


@pytest.mark.parametrize(
    ("content", "content_type", "words"),
    [
        ('{"indexed":1,"upda', "application/json", "EOF"),
        ("", "application/json", "EOF"),
        ("<html>Sign in</html>", "text/html", "<html>Sign in</html>"),
        ("[1,2]", "application/json", "object"),
        ('{"indexed":"many","updated":0,"count":1}', "application/json", "indexed"),
        ('{"indexed":1,"updated":0}', "application/json", "count"),
        (b"\xff\xff", "application/json", "JSON"),
    ],
)
def test_success_of_unknown_form_is_no_success(content: bytes | str, content_type: str, words: str) -> None:
    """A 200 whose body is not what is documented (truncated, a login page) says so, with its status, type and beginning."""
    with pytest.raises(UnexpectedResponse, match=words) as raised:
        model_parser(AddResult)(reply(200, content, content_type))
    assert (raised.value.status, raised.value.content_type) == (200, content_type)
    assert "not what the service documents" in str(raised.value)


def test_redirect_is_not_followed_but_explained() -> None:
    """A redirect is an error that shows where it leads."""
    with pytest.raises(UnexpectedResponse, match=r"https://other/.*final address"):
        discard(reply(307, "", "", location="https://other/"))


def test_credentials_in_a_foreign_page_are_masked() -> None:
    """A page that echoes the request's headers does not bring the key into the error."""
    error = error_of(reply(500, "<pre>Authorization: Bearer canary-key-4711\nX: Basic Y2FuYXJ5</pre>", "text/html"))
    assert "canary" not in str(error)
    assert "Y2FuYXJ5" not in str(error)
    assert "Bearer ***" in str(error)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("3", 3.0), (" 0 ", 0.0), ("1.5", None), ("-1", None), ("soon", None), ("", None), ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0)],
)
def test_retry_after_is_read(header: str, seconds: float | None) -> None:
    """Retry-After holds seconds or a date; anything else counts as not there."""
    assert error_of(reply(429, "", "", retry_after=header)).retry_after == seconds


def test_retry_after_date_is_seconds_from_now() -> None:
    """A date of Retry-After in the future is the time until then."""
    header = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    assert error_of(reply(503, "", "", retry_after=header)).retry_after == pytest.approx(100, abs=5)


def test_error_class_is_told_by_the_status_not_by_the_body() -> None:
    """The HTTP status decides, whatever a body claims."""
    given = problem(503)
    lying = Reply(503, given.headers, given.body.replace(b'"status": 503', b'"status": 200'))
    assert lying.body != given.body
    assert type(error_of(lying)) is ERROR_CLASSES[503]
