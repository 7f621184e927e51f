"""A request is sent again only when that is safe and may help, with pauses that grow, differ and honour Retry-After."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinbin_client import (
    ApiError,
    Chunking,
    Client,
    ConnectionFailed,
    ConnectionLost,
    ConnectTimeout,
    InvalidArgument,
    InvalidInput,
    KinbinClientError,
    RateLimited,
    Retry,
    ServerError,
    StorageFull,
    Timeout,
    TransportError,
    Unavailable,
    UnexpectedResponse,
)
from kinbin_client import _flows as flows
from kinbin_client._flows import Pause
from kinbin_client._requests import Operation, Request, ready
from kinbin_client._responses import Reply
from kinbin_client._transport import drive
from kinbin_client.retry import Repeat, may_repeat

NEVER = (False, False)
ALWAYS_ONLY = (True, False)
BOTH = (True, True)


@pytest.mark.parametrize(
    ("error", "allowed"),
    [
        (ConnectionFailed("x"), BOTH),
        (ConnectTimeout("x"), BOTH),
        (Timeout("x", outcome_unknown=False), BOTH),
        (Timeout("x"), ALWAYS_ONLY),
        (ConnectionLost("x"), ALWAYS_ONLY),
        (TransportError("x"), NEVER),
        (RateLimited(429, "overloaded", "x"), BOTH),
        (RateLimited(429, None, "a proxy"), ALWAYS_ONLY),
        (Unavailable(503, "deadline", "x"), BOTH),
        (Unavailable(503, "not_ready", "x"), BOTH),
        (Unavailable(503, "search_deadline", "x"), NEVER),
        (Unavailable(503, "storage_busy", "x"), ALWAYS_ONLY),
        (Unavailable(503, "outcome_unknown", "x"), ALWAYS_ONLY),
        (Unavailable(503, None, "a proxy"), ALWAYS_ONLY),
        (ApiError(408, "body_timeout", "x"), BOTH),
        (ApiError(408, None, "a proxy"), ALWAYS_ONLY),
        (ServerError(502, None, "x"), ALWAYS_ONLY),
        (ServerError(504, None, "x"), ALWAYS_ONLY),
        (ServerError(500, "internal", "x"), NEVER),
        (StorageFull(507, "storage_full", "x"), NEVER),
        (InvalidInput(422, "zero_vector", "x"), NEVER),
        (ApiError(404, "not_found", "x"), NEVER),
        (UnexpectedResponse("x", 200), NEVER),
        (InvalidArgument("x"), NEVER),
    ],
)
def test_repeating_is_safe(error: KinbinClientError, allowed: tuple[bool, bool]) -> None:
    """What may have been done is repeated only where twice is as good as once; what cannot pass is never repeated."""
    assert (may_repeat(error, Repeat.ALWAYS), may_repeat(error, Repeat.IF_NOT_DONE)) == allowed


@given(
    st.builds(
        Retry,
        attempts=st.integers(1, 20),
        first_pause=st.floats(0, 5),
        longest_pause=st.floats(0, 60),
        longest_retry_after=st.floats(0, 100),
    ),
    st.integers(1, 2_000),
    st.none() | st.floats(0, 200),
    st.floats(0, 1, exclude_max=True),
)
def test_pause_stays_within_the_policy(retry: Retry, failures: int, retry_after: float | None, draw: float) -> None:
    """A pause doubles from the first to the longest, is at least half of that, and comes after Retry-After; or one gives up."""
    pause = retry.pause(failures, retry_after, draw)
    if failures >= retry.attempts or (retry_after is not None and retry_after > retry.longest_retry_after):
        assert pause is None
        return
    whole = min(retry.first_pause * 2 ** (failures - 1), retry.longest_pause)
    assert pause is not None
    drawn = pause - (retry_after or 0.0)
    assert whole / 2 - 1e-9 <= drawn <= whole + 1e-9


@pytest.mark.parametrize("wrong", [{"attempts": 0}, {"first_pause": -1}, {"longest_pause": -0.1}, {"longest_retry_after": -1}])
def test_policy_that_cannot_be_is_refused(wrong: Any) -> None:
    """No attempt at all and pauses below zero are refused."""
    with pytest.raises(InvalidArgument):
        Retry(**wrong)


class Script:
    """An httpx handler that answers from a list: a status, or an exception to raise; then 200."""

    def __init__(self, *steps: int | Exception, headers: dict[str, str] | None = None) -> None:
        self.steps = list(steps)
        self.headers = headers or {}
        self.seen: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Answer one request."""
        self.seen.append(request)
        step = self.steps.pop(0) if self.steps else 200
        if isinstance(step, Exception):
            raise step
        if step == 200:
            return httpx.Response(200, json={"indexed": 1, "updated": 0, "unchanged": 0, "count": 1, "deleted": 1})
        body = json.dumps({"code": "overloaded", "detail": "later"})
        return httpx.Response(step, content=body, headers={"content-type": "application/problem+json", **self.headers})


def client(handler: Callable[[httpx.Request], httpx.Response], attempts: int = 4) -> Client:
    """A client that waits for nothing."""
    return Client("http://kinbin.test", transport=httpx.MockTransport(handler), retry=Retry(attempts=attempts, first_pause=0))


def test_upsert_is_repeated_until_it_is_acknowledged() -> None:
    """An upsert outlives lost connections, timeouts and refusals, and sends the same bytes each time."""
    script = Script(httpx.ReadError("reset"), httpx.ReadTimeout("slow"), 503)
    with client(script) as kinbin:
        assert kinbin.add(["a"], [[1.0]]).count == 1
    assert len(script.seen) == 4
    assert len({request.content for request in script.seen}) == 1


@pytest.mark.parametrize("mode", ["insert", "update"])
@pytest.mark.parametrize("step", [httpx.ReadError("reset"), httpx.ReadTimeout("slow"), httpx.RemoteProtocolError("gone"), 502, 503])
def test_insert_and_update_are_repeated_under_their_key(mode: Any, step: int | Exception) -> None:
    """After an unknown outcome, insert and update are sent again with the key that they had: the service does them once."""
    script = Script(step, step)
    with client(script) as kinbin:
        kinbin.add(["a"], [[1.0]], mode=mode)
        kinbin.add(["a"], [[1.0]], mode=mode)
    keys = [request.headers["idempotency-key"] for request in script.seen]
    assert (len(keys), len(set(keys[:3])), len(set(keys))) == (4, 1, 2)


@pytest.mark.parametrize("step", [500, 507])
def test_what_does_not_pass_is_not_repeated(step: int) -> None:
    """An answer that says that the service failed, or is full, is left to the caller."""
    script = Script(step)
    with client(script) as kinbin, pytest.raises(KinbinClientError) as raised:
        kinbin.add(["a"], [[1.0]], mode="insert")
    assert len(script.seen) == 1
    assert raised.value.acknowledged == 0


def test_requests_of_one_add_have_keys_of_their_own() -> None:
    """A large add under one key sends each of its requests with another key, the same each time; upserts need none."""
    script = Script()
    with client(script) as kinbin:
        for _ in range(2):
            kinbin.add(["a", "b", "c"], [[1.0]] * 3, idempotency_key="mine", chunking=Chunking(max_items=1))
        kinbin.add(["a"], [[1.0]])
    assert [request.headers.get("idempotency-key") for request in script.seen] == [*("mine", "mine-1", "mine-2") * 2, None]


def test_whatever_is_added_has_ids() -> None:
    """A matrix travels with its ids, so that sending it again replaces its items and adds none."""
    script = Script(httpx.ReadError("reset"))
    with client(script) as kinbin:
        kinbin.add(["a", "b"], np.eye(2))
    assert [request.headers["x-kinbin-ids"] for request in script.seen] == ['["a","b"]'] * 2


@pytest.mark.parametrize("mode", ["insert", "update"])
@pytest.mark.parametrize("step", [httpx.ConnectError("refused"), httpx.ConnectTimeout("slow"), httpx.PoolTimeout("full"), 429, 503])
def test_insert_and_update_are_repeated_when_nothing_was_done(mode: Any, step: int | Exception) -> None:
    """A refusal of the service before its work, and no connection at all, are safe to repeat in every mode."""
    script = Script(step)
    with client(script) as kinbin:
        kinbin.add(["a"], [[1.0]], mode=mode)
    assert len(script.seen) == 2


def test_attempts_are_counted() -> None:
    """After the last attempt the error of that attempt is raised."""
    script = Script(*[429] * 9)
    with client(script, attempts=3) as kinbin, pytest.raises(RateLimited):
        kinbin.add(["a"], [[1.0]])
    assert len(script.seen) == 3


def test_long_retry_after_is_left_to_the_caller() -> None:
    """A Retry-After beyond the policy is raised at once, with the seconds as an attribute."""
    script = Script(429, headers={"retry-after": "3600"})
    with client(script) as kinbin, pytest.raises(RateLimited) as raised:
        kinbin.add(["a"], [[1.0]])
    assert len(script.seen) == 1
    assert raised.value.retry_after == 3_600


def driven(flow: flows.Flow[Any], replies: list[Reply | KinbinClientError]) -> tuple[list[Request], list[float]]:
    """Drive a flow from a list of replies; the requests it sent and the pauses it made."""
    requests: list[Request] = []
    pauses: list[float] = []

    def send(request: Request) -> Reply:
        requests.append(request)
        step = replies.pop(0)
        if isinstance(step, KinbinClientError):
            raise step
        return step

    drive(flow, send, pauses.append)
    return requests, pauses


def test_pauses_are_made_between_attempts() -> None:
    """Between attempts one waits: first_pause doubled each time, halved at most by chance, after Retry-After in full."""
    busy = Reply(503, {"retry-after": "2"}, b"")
    operation: Operation[None] = ready()
    _, pauses = driven(flows.send(operation, Retry(first_pause=1)), [ConnectionLost("x"), ConnectionLost("x"), busy, Reply(200, {}, b"")])
    assert len(pauses) == 3
    assert 0.5 <= pauses[0] <= 1 <= pauses[1] <= 2
    assert 4 <= pauses[2] <= 6


def test_failed_add_tells_what_was_acknowledged() -> None:
    """The error of a later request says how many items were acknowledged; adding the rest completes the add."""
    script = Script(200, 200, 507)
    steps: list[tuple[int, int]] = []
    with client(script) as kinbin, pytest.raises(StorageFull, match="4 items of this add had been acknowledged") as raised:
        kinbin.add(list("abcdef"), [[1.0]] * 6, chunking=Chunking(max_items=2), progress=lambda *step: steps.append(step))
    assert raised.value.acknowledged == 4
    assert steps == [(2, 6), (4, 6)]
    assert len(script.seen) == 3


def test_item_that_cannot_be_encoded_tells_what_was_acknowledged() -> None:
    """An item of a later request that has no JSON form fails there, after the requests before it."""
    script = Script()
    with client(script) as kinbin, pytest.raises(InvalidArgument, match="item 3:") as raised:
        kinbin.add(list("abcd"), [[1.0], [1.0], [1.0], [float("nan")]], chunking=Chunking(max_items=2))
    assert (raised.value.acknowledged, raised.value.position) == (2, 3)
    assert len(script.seen) == 1


def test_missing_answers_of_a_batch_are_an_error() -> None:
    """A batch whose answer has not one entry for each query is refused: answers would be taken for those of other queries."""

    def one_answer(request: httpx.Request) -> httpx.Response:
        answer = {"results": [], "mode": "exact", "candidates": 0, "verified": 0}
        return httpx.Response(200, json={"answers": [answer], "took_ms": 1})

    with client(one_answer) as kinbin:
        assert len(kinbin.query_batch([[1.0]])) == 1
        with pytest.raises(UnexpectedResponse, match="2 queries were sent and 1 answers came"):
            kinbin.query_batch([[1.0], [2.0]])


def test_scroll_does_not_turn_in_circles() -> None:
    """A service that hands out the same cursor again does not keep the client reading for ever."""
    page = {"items": [{"id": "a"}], "next": "again"}
    with client(lambda request: httpx.Response(200, json=page)) as kinbin, pytest.raises(UnexpectedResponse, match="cursor"):
        list(kinbin.collection("x").items())


class Clock:
    """A clock that a driver moves by its pauses."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """The time."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


def wait(timeout: float, *steps: Reply | KinbinClientError) -> int:
    """Wait for readiness against a list of replies, whose last one stays; the number of requests."""
    clock, script, sent = Clock(), list(steps), 0

    def send(request: Request) -> Reply:
        nonlocal sent
        sent += 1
        assert request.timeout is not None
        assert 0 < request.timeout <= 5
        step = script.pop(0) if len(script) > 1 else script[0]
        if isinstance(step, KinbinClientError):
            raise step
        return step

    drive(flows.wait_ready(timeout, 0.5, clock), send, clock.sleep)
    return sent


READY = Reply(200, {"content-type": "application/json"}, b'{"status":"ready"}')
STARTING = Reply(503, {"content-type": "application/problem+json"}, b'{"code":"not_ready","detail":"loading"}')
FAILED = Reply(500, {"content-type": "application/problem+json"}, b'{"code":"internal","detail":"no kernels"}')


def test_waiting_ends_when_the_service_is_ready() -> None:
    """While nobody listens, a proxy answers or the service starts, one asks again."""
    assert wait(10, ConnectionFailed("x"), Timeout("x"), Reply(502, {}, b""), STARTING, READY) == 5


def test_waiting_ends_when_time_is_up() -> None:
    """After the timeout the last reason is told."""
    with pytest.raises(Timeout, match="not ready after 2 s: 503 not_ready: loading") as raised:
        wait(2, STARTING)
    assert isinstance(raised.value.__cause__, Unavailable)


@pytest.mark.parametrize("reply", [FAILED, Reply(401, {}, b""), Reply(404, {}, b""), Reply(302, {"location": "x"}, b"")])
def test_waiting_ends_when_it_is_in_vain(reply: Reply) -> None:
    """A service that failed to start, or something else at its address, is not waited for."""
    with pytest.raises((ApiError, UnexpectedResponse)):
        wait(2, reply, READY)


@pytest.mark.parametrize(("timeout", "interval"), [(-1, 1), (1, 0)])
def test_waiting_without_end_is_refused(timeout: float, interval: float) -> None:
    """An interval of nothing would ask without a pause."""
    with pytest.raises(InvalidArgument):
        next(flows.wait_ready(timeout, interval))


def test_ready_says_yes_or_no() -> None:
    """Whether the service is ready is an answer, not an error; and it is asked once."""
    for status, expected in ((200, True), (503, False)):
        script = Script(*[status] * 3)
        with client(script) as kinbin:
            assert kinbin.ready() is expected
        assert len(script.seen) == 1


def test_driver_and_flow_keep_their_contract() -> None:
    """A flow that is driven without a reply to its request fails loudly."""
    flow = flows.send(ready(), Retry())
    assert isinstance(next(flow), Request)
    with pytest.raises(RuntimeError):
        flow.send(None)
    assert Pause(1) == Pause(1)
