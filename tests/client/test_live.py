"""What only a real service and a real network show: keys, bodies refused while they are sent, a service that dies and comes back."""

from __future__ import annotations

import math
import threading
from typing import Any, get_args

import numpy as np
import pytest

import kinbin
from kinbin_client import (
    AsyncClient,
    Chunking,
    Client,
    ConnectionLost,
    KinbinClientError,
    Retry,
    TooLarge,
    TransportError,
    Unauthorized,
    _requests,
)

KEY = "canary-key-4711"

pytestmark = pytest.mark.server


@pytest.mark.parametrize("key", [None, "another-key"])
def test_key_is_checked(live_url: str, key: str | None) -> None:
    """Without the right key nothing but health is answered."""
    with Client(live_url, api_key=key) as client:
        assert client.ready()
        assert client.health().status == "ready"
        with pytest.raises(Unauthorized) as refused:
            client.query([1.0])
        assert refused.value.code == "unauthorized"
        with pytest.raises(Unauthorized):
            client.add(["a"], np.ones((1, 2), np.float32))


def test_body_over_the_limit_is_told(live_url: str) -> None:
    """An item larger than the service takes is refused as too large, though the service stops reading while it is sent."""
    with Client(live_url, api_key=KEY) as client:
        with pytest.raises(TooLarge) as refused:
            client.add(["a"], [[1.0, 2.0]], [{"text": "x" * 40_000_000}])
        assert (refused.value.code, refused.value.limit) == ("body_too_large", "index_body_bytes")
        assert client.limits()["index_body_bytes"].value < 40_000_000
        assert client.ready()


async def test_parameters_of_a_kernel(live_url: str) -> None:
    """Both clients create a collection with parameters of its kernel, are told them, and score by them."""
    for gamma, kind in ((2.0, "blocking"), (3.0, "asyncio")):
        name, wanted = f"heat-{kind}", {"gamma": gamma}
        if kind == "blocking":
            with Client(live_url, api_key=KEY) as client:
                made = client.create_collection(name, kernel="rbf", dim=2, parameters=wanted)
                made.add(["a"], [[1.0, 0.0]])
                parameters, score = made.info().parameters, made.query([0.0, 1.0]).scores[0]
        else:
            async with AsyncClient(live_url, api_key=KEY) as other:
                awaited = await other.create_collection(name, kernel="rbf", dim=2, parameters=wanted)
                await awaited.add(["a"], [[1.0, 0.0]])
                parameters, score = (await awaited.info()).parameters, (await awaited.query([0.0, 1.0])).scores[0]
        assert parameters == {"gamma": gamma}
        assert score == pytest.approx(math.exp(-gamma))


def test_samplers_are_those_of_the_library() -> None:
    """The type of `sampler` names every sampler that the library has."""
    assert set(get_args(_requests.Sampler)) == set(kinbin.SAMPLERS)


def test_client_serves_many_threads(live_url: str) -> None:
    """Threads that share a client get their own answers."""
    matrix = np.eye(16, dtype=np.float32) + 0.01
    with Client(live_url, api_key=KEY) as client:
        shared = client.create_collection("threads", dim=16)
        shared.add([str(n) for n in range(16)], matrix)
        found: dict[int, list[str]] = {}

        def ask(row: int) -> None:
            for _ in range(5):
                found.setdefault(row, []).extend(shared.query(matrix[row], k=1).ids)

        threads = [threading.Thread(target=ask, args=(row,)) for row in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        client.drop_collection("threads")
    assert found == {row: [str(row)] * 5 for row in range(16)}


def test_upsert_outlives_a_killed_service(live_service: Any) -> None:
    """A service that is killed amid a large upsert and started again has every item, without the caller noticing."""
    rows = np.random.default_rng(3).random((1_000, 4), dtype=np.float32) + 0.1
    ids = [str(n) for n in range(1_000)]
    steps: list[int] = []

    def kill_once(done: int, total: int) -> None:
        steps.append(done)
        if done == 300:
            live_service.kill()
            live_service.start()

    patient = Retry(attempts=60, first_pause=0.1, longest_pause=1.0)
    with Client(live_service.url, api_key=KEY, retry=patient) as client:
        added = client.add(ids, rows, chunking=Chunking(max_items=100), progress=kill_once)
        assert added.count == 1_000
        assert added.indexed + added.unchanged == 1_000
        assert steps == list(range(100, 1_100, 100))
        collection = client.collection("default")
        assert collection.get(ids, include=()).missing == []
        vector = np.array(collection.get(["517"]).items[0].vector, dtype=np.float32)
        np.testing.assert_array_equal(vector, rows[517])


def test_insert_into_a_killed_service_is_done_once(live_service: Any) -> None:
    """An insert that a killed service broke off is finished by the same call under the same key: what was stored is not refused."""
    rows = np.ones((400, 2), np.float32)
    ids = [str(n) for n in range(400)]

    def kill(done: int, total: int) -> None:
        if done == 200:
            live_service.kill()

    with Client(live_service.url, api_key=KEY, retry=Retry(attempts=2, first_pause=0.1)) as client:
        chunking = Chunking(max_items=100)
        with pytest.raises(TransportError) as broken:
            client.add(ids, rows, mode="insert", chunking=chunking, progress=kill, idempotency_key="mine")
        assert broken.value.acknowledged == 200
        live_service.start()
        client.wait_ready(timeout=60)
        assert client.collection("default").count() >= 200
        again = client.add(ids, rows, mode="insert", chunking=chunking, idempotency_key="mine")
        assert (again.indexed, again.count) == (400, 400)


def test_stopping_service_answers_or_refuses(live_service: Any) -> None:
    """While a service stops, calls are answered, refused or broken off as errors of the client: nothing else gets out."""
    stopped = threading.Event()
    kinds: set[str] = set()

    def ask(client: Client) -> None:
        while not stopped.is_set():
            try:
                client.limits()
                kinds.add("answered")
            except KinbinClientError as error:
                kinds.add(type(error).__name__)

    with Client(live_service.url, api_key=KEY, retry=Retry(attempts=1)) as client:
        threads = [threading.Thread(target=ask, args=(client,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        live_service.stop()
        stopped.set()
        for thread in threads:
            thread.join()
    assert "answered" in kinds
    assert kinds <= {"answered", "ConnectionFailed", ConnectionLost.__name__, "Unavailable"}
