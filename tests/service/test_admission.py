"""Admission: the bounded queue, deadlines, clients that leave, and health under overload."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

import kinbin
from kinbin.cancelling import event_now
from kinbin_service.admission import Admission, ClientGone
from kinbin_service.priorities import FIRST, READS, WRITES
from kinbin_service.problems import Refusal
from nursery import Nursery
from service_app import App, HeldDatabase, eventually, running_app

QUERY = {"vector": [1, 2, 3]}


async def never() -> None:
    """A client that stays."""
    await asyncio.Event().wait()


class Calls:
    """Library calls that wait at a gate and remember that they ran."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.ran: list[str] = []

    def named(self, name: str) -> Callable[[], str]:
        """A call that notes its name when it starts, and returns it when the gate opens."""

        def call() -> str:
            self.ran.append(name)
            assert self.gate.wait(30)
            return name

        return call


@pytest.fixture
def calls() -> Calls:
    """Calls behind one gate."""
    return Calls()


@pytest.fixture
async def admission(calls: Calls) -> AsyncIterator[Admission]:
    """Two threads, room for two to wait, no deadline to speak of."""
    made = Admission(2, 2, 30.0)
    yield made
    calls.gate.set()
    await made.close()


def begin(admission: Admission, calls: Calls, name: str, *, writes: bool = False, gone: Any = never) -> asyncio.Task[str]:
    """A request on its way."""
    return asyncio.create_task(admission.run(calls.named(name), writes=writes, gone=gone))


async def test_at_most_threads_run_and_queue_length_wait(admission: Admission, calls: Calls) -> None:
    """Two run, two wait, the fifth is refused at once; when the gate opens all four are answered in order."""
    tasks = [begin(admission, calls, name) for name in "abcd"]
    await eventually(lambda: admission.waiting == 2)
    assert sorted(calls.ran) == ["a", "b"]
    # One that waited would be refused for its deadline.
    with pytest.raises(Refusal) as refused:
        await admission.run(calls.named("e"), writes=False, gone=never)
    assert (refused.value.code, refused.value.limit) == ("overloaded", "queue_length")
    calls.gate.set()
    assert await asyncio.gather(*tasks) == list("abcd")
    assert "e" not in calls.ran


async def test_waiting_requests_start_in_order_of_arrival(calls: Calls) -> None:
    """With one thread, calls run in the order in which they came."""
    admission = Admission(1, 10, 30.0)
    tasks = []
    for name in "abcdef":
        tasks.append(begin(admission, calls, name))
        await asyncio.sleep(0)
    calls.gate.set()
    await asyncio.gather(*tasks)
    assert calls.ran == list("abcdef")
    await admission.close()


@pytest.mark.skipif(sys.platform != "linux", reason="threads have a priority of their own on Linux only")
async def test_threads_give_way_to_the_event_loop() -> None:
    """All reads but one a little, writes more, whichever thread hands them on: most users may not raise what a thread has."""
    own = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    admission = Admission(4, 20, 30.0)

    def of_this_thread() -> tuple[str, int]:
        # So long that the next one needs another thread, or waits.
        time.sleep(0.02)
        return threading.current_thread().name.rpartition("_")[0], os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) - own

    kinds = [True, False] * 6
    found = await asyncio.gather(*(admission.run(of_this_thread, writes=writes, gone=never) for writes in kinds))
    assert found[::2] == [("kinbin-write", WRITES.less)] * 6
    assert set(found[1::2]) == {("kinbin-first-read", FIRST.less), ("kinbin-read", READS.less)}
    alone = [await admission.run(of_this_thread, writes=False, gone=never) for _ in range(3)]
    assert alone == [("kinbin-first-read", FIRST.less)] * 3
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == own
    await admission.close()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="it gives up root's rights, on Linux")
async def test_nobody_has_to_raise_a_priority(nursery: Nursery) -> None:
    """The same as a user who may lower them only."""
    assert nursery.start("priorities:as_nobody").receive() == [FIRST.less, READS.less, WRITES.less, 0]


async def test_threads_take_what_waits_though_the_event_loop_is_busy(calls: Calls) -> None:
    """Under overload the loop is busy with refusals: a thread that is done goes on with what waits, in order, without asking the loop."""
    admission = Admission(1, 10, 30.0)
    tasks = [begin(admission, calls, name, writes=name == "c") for name in "abcd"]
    await eventually(lambda: admission.waiting == 3)
    calls.gate.set()
    end = time.monotonic() + 30
    while len(calls.ran) < 4 and time.monotonic() < end:
        time.sleep(0.001)  # noqa: ASYNC251 - it blocks the loop on purpose
    assert calls.ran == list("abcd")
    assert await asyncio.gather(*tasks) == list("abcd")
    await admission.close()
    assert (admission.running, admission.writing, admission.waiting) == (0, 0, 0)


async def test_a_read_and_a_write_may_both_start_when_a_write_ends(calls: Calls) -> None:
    """A call that ends may free more than one place in line: all that may run then, runs."""
    admission = Admission(3, 10, 30.0)
    first = Calls()
    blocking = [begin(admission, first, name, writes=True) for name in ("w1", "w2")]
    await eventually(lambda: len(first.ran) == 2)
    waiting = begin(admission, calls, "w3", writes=True)
    reads = [begin(admission, calls, name) for name in ("r1", "r2")]
    await eventually(lambda: calls.ran == ["r1"])
    assert admission.waiting == 2
    first.gate.set()
    assert await asyncio.gather(*blocking) == ["w1", "w2"]
    await eventually(lambda: len(calls.ran) == 3)
    calls.gate.set()
    assert await asyncio.gather(waiting, *reads) == ["w3", "r1", "r2"]
    await admission.close()


async def test_writes_leave_a_thread_for_reads(admission: Admission, calls: Calls) -> None:
    """Writes never take the last thread: a query passes writes that wait."""
    writes = [begin(admission, calls, name, writes=True) for name in ("w1", "w2")]
    await eventually(lambda: admission.waiting == 1)
    read = begin(admission, calls, "r")
    await eventually(lambda: "r" in calls.ran)
    assert calls.ran == ["w1", "r"]
    calls.gate.set()
    assert await asyncio.gather(*writes, read) == ["w1", "w2", "r"]


async def test_reads_leave_threads_for_writes(calls: Calls) -> None:
    """No more reads run than may; writes that came later begin, and go on with other writes, while reads wait, in order."""
    admission = Admission(4, 10, 30.0, read_threads=2)
    first = Calls()
    reads = [begin(admission, first, name) for name in ("r1", "r2")]
    await eventually(lambda: len(first.ran) == 2)
    late = [begin(admission, calls, name) for name in ("r3", "r4")]
    writes = [begin(admission, calls, name, writes=True) for name in ("w1", "w2", "w3")]
    await eventually(lambda: len(calls.ran) == 2)
    assert calls.ran == ["w1", "w2"]
    assert (admission.running, admission.writing, admission.waiting) == (4, 2, 3)
    first.gate.set()
    assert await asyncio.gather(*reads) == ["r1", "r2"]
    await eventually(lambda: len(calls.ran) == 4)
    assert sorted(calls.ran[2:]) == ["r3", "r4"]
    calls.gate.set()
    assert await asyncio.gather(*writes, *late) == ["w1", "w2", "w3", "r3", "r4"]
    await admission.close()


async def test_a_single_thread_takes_writes_too(calls: Calls) -> None:
    """With one thread there is nothing to leave free, and writes run."""
    admission = Admission(1, 1, 30.0)
    calls.gate.set()
    assert await admission.run(calls.named("w"), writes=True, gone=never) == "w"
    await admission.close()


async def test_work_that_waited_too_long_is_never_started(calls: Calls) -> None:
    """After the deadline a waiting request is refused with 503, and its work is dropped for good."""
    admission = Admission(1, 5, 0.05)
    running = begin(admission, calls, "running")
    await eventually(lambda: calls.ran)
    with pytest.raises(Refusal) as refused:
        await admission.run(calls.named("late"), writes=False, gone=never)
    assert (refused.value.code, refused.value.limit) == ("deadline", "deadline_seconds")
    assert admission.waiting == 0
    calls.gate.set()
    assert await running == "running", "work that was started is finished, however long it takes"
    await admission.close()
    assert calls.ran == ["running"]


async def test_the_work_of_a_client_that_left_is_dropped(admission: Admission, calls: Calls) -> None:
    """A waiting request whose client leaves makes room at once, and its work is never started."""
    left = asyncio.Event()
    running = [begin(admission, calls, name) for name in "ab"]
    await eventually(lambda: len(calls.ran) == 2)
    leaver = begin(admission, calls, "leaver", gone=left.wait)
    await eventually(lambda: admission.waiting == 1)
    left.set()
    with pytest.raises(ClientGone):
        await leaver
    assert admission.waiting == 0
    calls.gate.set()
    await asyncio.gather(*running)
    assert "leaver" not in calls.ran


async def test_a_started_call_is_finished_though_its_client_left(admission: Admission, calls: Calls) -> None:
    """A write that has begun is not abandoned: its result is known, so a retry is harmless."""
    left = asyncio.Event()
    running = [begin(admission, calls, name) for name in "ab"]
    await eventually(lambda: len(calls.ran) == 2)
    waiter = begin(admission, calls, "waiter", gone=left.wait)
    await eventually(lambda: admission.waiting == 1)
    calls.gate.set()
    assert await waiter == "waiter"
    left.set()
    await asyncio.gather(*running)


async def test_a_cancelled_request_is_dropped(admission: Admission, calls: Calls) -> None:
    """Cancelling a waiting request takes it out of the queue."""
    running = [begin(admission, calls, name) for name in "ab"]
    await eventually(lambda: len(calls.ran) == 2)
    cancelled = begin(admission, calls, "cancelled")
    await eventually(lambda: admission.waiting == 1)
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)
    assert admission.waiting == 0
    calls.gate.set()
    await asyncio.gather(*running)
    assert "cancelled" not in calls.ran


async def test_errors_of_a_call_reach_its_caller_and_free_its_thread(admission: Admission) -> None:
    """An exception in the thread is raised where the call was awaited, and the thread goes on."""

    def fail() -> None:
        raise KeyError("inside")

    for _ in range(5):
        with pytest.raises(KeyError, match="inside"):
            await admission.run(fail, writes=True, gone=never)
    assert (admission.running, admission.writing) == (0, 0)


async def test_closing_finishes_what_runs_and_refuses_what_waits(calls: Calls) -> None:
    """Closing answers running calls, refuses waiting ones with 503, and leaves no thread behind."""
    before = threading.active_count()
    admission = Admission(1, 5, 30.0)
    running, waiting = begin(admission, calls, "running"), begin(admission, calls, "waiting")
    await eventually(lambda: admission.waiting == 1)
    closing = asyncio.create_task(admission.close())
    with pytest.raises(Refusal, match="stopping"):
        await waiting
    calls.gate.set()
    assert await running == "running"
    await closing
    assert threading.active_count() == before


# ------------------------------------------------------------------------------------- through HTTP


@pytest.fixture
async def small(tmp_path: Path) -> AsyncIterator[App]:
    """An application of two threads with room for three to wait, with an item in it."""
    async with running_app(tmp_path / "data", threads=2, queue_length=3, deadline_seconds=30) as running:
        await running.post("/index", {"items": [{"id": "a", "vector": [1, 2, 3]}]})
        yield running


async def test_overload_is_refused_at_once_with_health_intact(small: App) -> None:
    """With all threads held, five requests are in, the other 35 are 429 without waiting for them, and health and limits answer."""
    held = HeldDatabase(small.service.database)
    small.service.database = held  # type: ignore[assignment]
    requests = [asyncio.create_task(small.client.post("/query", json=QUERY)) for _ in range(40)]
    await eventually(lambda: sum(request.done() for request in requests) == 35)
    assert {request.result().status_code for request in requests if request.done()} == {429}
    for path in ("/healthz", "/livez", "/readyz", "/v1/limits"):
        await small.get(path)
    for _ in range(20):
        response = await small.client.post("/query", json=QUERY)
        assert (response.status_code, response.headers["retry-after"]) == (429, "1")
    held.gate.set()
    assert sorted(response.status_code for response in await asyncio.gather(*requests)) == [200] * 5 + [429] * 35
    await small.post("/query", QUERY)
    assert len(held.begun) == 6, "no refused request ever reached the library"


async def test_an_overloaded_server_refuses_before_it_parses(small: App) -> None:
    """While the queue is full a body that is no JSON is 429 as any other, and so is one that is long; afterwards it is 400."""
    held = HeldDatabase(small.service.database)
    small.service.database = held  # type: ignore[assignment]
    requests = [asyncio.create_task(small.client.post("/query", json=QUERY)) for _ in range(5)]
    await eventually(lambda: small.service.admission.waiting == 3)
    headers = {"content-type": "application/json"}
    for body in (b"{", b"{" * 100_000):
        refused = await small.client.post("/query", content=body, headers=headers)
        assert (refused.status_code, refused.json()["code"], refused.headers["retry-after"]) == (429, "overloaded", "1")
        # What was read in full leaves a connection that may be used again.
        assert ("connection" in refused.headers) == (len(body) > 65_536)
    held.gate.set()
    await asyncio.gather(*requests)
    assert (await small.client.post("/query", content=b"{", headers=headers)).status_code == 400


async def test_writes_that_fill_the_queue_stop_no_query(small: App) -> None:
    """With as many writes waiting as may wait, a query is answered by the thread that writes leave free; the next write is 429."""
    held = HeldDatabase(small.service.database)
    small.service.database = held  # type: ignore[assignment]
    delete = {"ids": ["a"]}
    writes = [asyncio.create_task(small.client.post("/v1/collections/default/delete", json=delete)) for _ in range(4)]
    await eventually(lambda: small.service.admission.waiting == 3)
    refused = await small.client.post("/v1/collections/default/delete", content=b"{", headers={"content-type": "application/json"})
    assert (refused.status_code, refused.json()["code"]) == (429, "overloaded")
    query = asyncio.create_task(small.client.post("/query", json=QUERY))
    await eventually(lambda: len(held.begun) == 2)
    assert small.service.admission.waiting == 3
    held.gate.set()
    assert (await query).status_code == 200
    assert {answer.status_code for answer in await asyncio.gather(*writes)} == {200}


async def test_a_client_that_leaves_the_queue_is_not_worked_for(small: App) -> None:
    """A waiting HTTP request whose client goes away never reaches the library."""
    held = HeldDatabase(small.service.database)
    small.service.database = held  # type: ignore[assignment]
    busy = [asyncio.create_task(small.client.post("/query", json=QUERY)) for _ in range(2)]
    await eventually(lambda: len(held.begun) == 2)
    leaver = asyncio.create_task(small.client.post("/query", json=QUERY))
    await eventually(lambda: small.service.admission.waiting == 1)
    leaver.cancel()
    await eventually(lambda: small.service.admission.waiting == 0)
    held.gate.set()
    await asyncio.gather(*busy)
    assert len(held.begun) == 2


async def test_a_request_that_waits_past_the_deadline_gets_503(tmp_path: Path) -> None:
    """A request that finds no thread in time is 503 with Retry-After, and never reaches the library."""
    async with running_app(tmp_path / "data", threads=1, deadline_seconds=0.05) as app:
        await app.post("/index", {"items": [{"id": "a", "vector": [1, 2, 3]}]})
        held = HeldDatabase(app.service.database)
        app.service.database = held  # type: ignore[assignment]
        busy = asyncio.create_task(app.client.post("/query", json=QUERY))
        await eventually(lambda: held.begun)
        refused = await app.post("/query", QUERY, status=503)
        assert (refused["code"], refused["limit"]) == ("deadline", "deadline_seconds")
        held.gate.set()
        assert (await busy).status_code == 200
        assert len(held.begun) == 1


async def test_a_running_search_is_told_when_its_client_leaves(admission: Admission) -> None:
    """The event of a running call is set once its client has left, and what the call raises then is raised; a write has no event."""
    leaving, cancel = asyncio.Event(), threading.Event()

    def search() -> str:
        assert cancel.wait(30)
        raise InterruptedError

    asked = asyncio.create_task(admission.run(search, writes=False, gone=leaving.wait, cancel=cancel))
    await eventually(lambda: admission.running == 1)
    assert not cancel.is_set()
    leaving.set()
    with pytest.raises(InterruptedError):
        await asked


async def test_a_client_that_stays_is_answered(admission: Admission, calls: Calls) -> None:
    """A search that is watched for long and whose client stays ends with its answer, and nobody waits for the client any more."""
    cancel = threading.Event()
    watched = asyncio.Event()

    async def gone() -> None:
        watched.set()
        await asyncio.Event().wait()

    asked = asyncio.create_task(admission.run(calls.named("a"), writes=False, gone=gone, cancel=cancel))
    await asyncio.wait_for(watched.wait(), 30)
    calls.gate.set()
    assert await asked == "a"
    assert not cancel.is_set()


async def test_a_search_that_takes_too_long_ends_with_503(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that has run for its time is told to end, and answered with 503 and its limit; one whose client left is not."""

    def endless(*_: object, cancel: threading.Event, **__: object) -> None:
        assert cancel.wait(30)
        raise kinbin.SearchCancelled("told to end")

    async with running_app(tmp_path / "data", search_seconds=0.05) as app:
        await app.post("/index", {"items": [{"id": "a", "vector": [1, 2, 3]}]})
        monkeypatch.setattr(kinbin.Collection, "query_batch", endless)
        refused = await app.post("/query", {"queries": [[1, 2, 3]]}, status=503)
        assert (refused["code"], refused["limit"]) == ("search_deadline", "search_seconds")
        # On a busy machine any search may take as long as that.
        app.service.admission.search_seconds = 60.0
        assert (await app.post("/query", {"vector": [1, 2, 3]}))["results"][0]["id"] == "a"
        assert app.service.admission.running == 0


@pytest.mark.parametrize(
    ("path", "body"),
    [("count", {"filter": {"n": 1}}), ("facets", {"field": "n"}), ("scroll", {"filter": {"n": 1}}), ("get", {"ids": ["a"]}),
     ("query", {"vector": [1, 2, 3], "filter": {"n": 1}}), ("query", {"vector": [1, 2, 3], "mode": "exact"})],
)  # fmt: skip
async def test_a_read_that_takes_too_long_ends_with_503(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, body: Any) -> None:
    """Counts, facets, pages, gets and single queries end at their next look after the time of searches, and are answered with 503."""
    is_set = threading.Event.is_set

    def waiting(event: threading.Event) -> bool:
        # Only the event that a read looks at: what background threads and the loop look at is not set, and they would wait in vain.
        return event.wait(30) if event is event_now() else is_set(event)

    async with running_app(tmp_path / "data", search_seconds=0.02) as app:
        await app.post("/index", {"items": [{"id": "a", "vector": [1, 2, 3], "payload": {"n": 1}}]})
        at = f"/v1/collections/default/{path}"
        with monkeypatch.context() as patched:
            patched.setattr(threading.Event, "is_set", waiting)
            refused = await app.post(at, body, status=503)
        assert (refused["code"], refused["limit"]) == ("search_deadline", "search_seconds")
        app.service.admission.search_seconds = 60.0
        await app.post(at, body)


async def test_a_write_that_takes_long_is_never_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of searches is not that of writes: what was begun is finished and answered."""
    add = kinbin.Collection.add

    def slow(*arguments: Any, **named: Any) -> Any:
        time.sleep(0.2)
        return add(*arguments, **named)

    async with running_app(tmp_path / "data", search_seconds=0.01) as app:
        await app.put("/v1/collections/a", {"dim": 3})
        monkeypatch.setattr(kinbin.Collection, "add", slow)
        assert (await app.post("/v1/collections/a/index", {"items": [{"id": "a", "vector": [1, 2, 3]}]}))["indexed"] == 1
