"""Typical code of users, checked by mypy in its strict mode (never run): what must pass, and mistakes that must be found."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, assert_type

import httpx
import numpy as np
from numpy.typing import NDArray

from kinbin_client import (
    AddResult,
    Answer,
    AnswerBatch,
    ApiError,
    AsyncClient,
    AsyncCollection,
    Chunking,
    Client,
    Collection,
    CollectionInfo,
    DeleteResult,
    GetResult,
    Health,
    InvalidInput,
    Item,
    KinbinClientError,
    Limit,
    Page,
    Problem,
    Query,
    QueryOptions,
    RateLimited,
    Retry,
    Sparse,
    Tokens,
    Vector,
    shingles,
)


def show(done: int, total: int) -> None:
    """A callback for progress."""


def blocking(matrix: NDArray[np.float32], counts: list[Counter[str]]) -> None:
    """Everything that the blocking client does."""
    retry = Retry(attempts=2, first_pause=0.1)
    with Client("http://127.0.0.1:8080", api_key="key", timeout=httpx.Timeout(5.0, read=60.0), retry=retry) as client:
        client.wait_ready(timeout=10)
        assert_type(client.health(), Health)
        assert_type(client.ready(), bool)
        assert_type(client.limits(), dict[str, Limit])
        assert_type(client.collections(), list[str])
        photos = client.create_collection("photos", kernel="ngmm", dim=512)
        assert_type(photos, Collection)
        client.create_collection("photos", kernel="ngmm", dim=512, exist_ok=True)
        assert_type(photos.info(), CollectionInfo)
        assert_type(photos.stats(), dict[str, Any])
        ids = [f"photo-{n}" for n in range(len(matrix))]
        assert_type(photos.add(ids, matrix, progress=show), AddResult)
        assert_type(photos.add_table({"id": ids, "vector": matrix}, vectors="vector", progress=True), AddResult)
        assert_type(photos.query_batch(matrix, progress=True), AnswerBatch)
        photos.add(ids, list(matrix), [{"n": n} for n in range(len(ids))], mode="insert", chunking=Chunking(max_items=100))
        client.add(ids, counts)
        client.add(["a", "b", "c"], [[1, 2], {3: 1.5}, Sparse([1], [2.0])], [None, {"x": 1}, None])
        answer = photos.query(
            matrix[0], k=5, target_recall=0.95, min_score=0.1, filter={"n": {"$gte": 3}}, mode="exact", include=["vector"]
        )
        assert_type(answer, Answer)
        assert_type(answer.recall_lower_bound, float | None)
        photos.query_id("photo-1", mode="links", certify=True)
        assert_type(answer.results[0].vector, list[float] | Sparse | None)
        assert_type(answer.results[0].payload, dict[str, Any] | None)
        assert_type([(hit.id, hit.score) for hit in answer], list[tuple[str, float]])
        assert_type(len(answer), int)
        again = answer.results[0].vector
        if again is not None:
            assert_type(photos.query(again), Answer)
        batch = photos.query_batch(matrix, 3)
        assert_type(batch, AnswerBatch)
        assert_type([one.ids for one in batch], list[list[str]])
        assert_type(photos.query_id("photo-1"), Answer)
        assert_type(photos.query_id("photo-1", exclude=["photo-2"], cursor="").next, str | None)
        assert_type(photos.query_examples(["photo-1", matrix[0]], ["photo-2"], k=3), Answer)
        assert_type(photos.query_each([Query(id="photo-1", options=QueryOptions(k=2))]), AnswerBatch)
        assert_type(photos.get(ids), GetResult)
        assert_type(photos.delete(filter={"n": 1}), DeleteResult)
        assert_type(photos.count(), int)
        assert_type(photos.scroll(), Page)
        assert_type(photos.pages(), Iterator[Page])
        assert_type(photos.items(), Iterator[Item])
        client.drop_collection("photos")


async def local(folder: Path, matrix: NDArray[np.float32]) -> None:
    """Local mode."""
    with Client(path=folder) as client:
        assert_type(client.query([1.0, 2.0]), Answer)
    async with AsyncClient(path="data") as awaited:
        assert_type(await awaited.collection("photos").add_table({"id": ["a"], "vector": matrix}), AddResult)


def vectors() -> list[Vector]:
    """Every form of a vector."""
    weights: dict[int, float] = {3: 1.5}
    counts: dict[str, int] = {"red": 3}
    words: set[str] = {"red", "apple"}
    listed: list[str] = ["red", "apple"]
    shingled = [shingles("The quick brown fox", words=2), shingles("The quick brown fox", characters=5, segments="unicode")]
    return [
        *shingled,
        words,
        frozenset(words),
        listed,
        ("red", "apple"),
        Tokens(words),
        [0.1, 2],
        (1, 2),
        weights,
        counts,
        Counter("abc"),
        Sparse([1], [2]),
        Tokens({"a": 1}),
        np.ones(3),
        np.ones(3, np.float32),
    ]


def shared_options(client: Client) -> Answer:
    """Options kept in one place."""
    options = QueryOptions(k=5, target_recall=0.99, include=("payload",))
    client.query_batch([[1.0]], options=options, chunking=Chunking(max_items=10))
    return client.query([1.0], options=options)


def errors(client: Client) -> tuple[Problem, ...]:
    """What programs read of errors."""
    try:
        client.add(["a"], [[1.0]])
    except InvalidInput as error:
        assert_type(error.errors[0].position, int | None)
        assert_type(error.acknowledged, int | None)
        return error.errors
    except RateLimited as error:
        assert_type(error.retry_after, float | None)
    except ApiError as error:
        assert_type(error.code, str | None)
        assert_type(error.status, int)
    except KinbinClientError as error:
        assert_type(error.acknowledged, int | None)
    return ()


async def asynchronous(matrix: NDArray[np.float64]) -> None:
    """Everything that the asynchronous client does."""
    async with AsyncClient(api_key="key") as client:
        await client.wait_ready()
        assert_type(await client.health(), Health)
        assert_type(await client.ready(), bool)
        assert_type(await client.limits(), dict[str, Limit])
        assert_type(await client.collections(), list[str])
        photos = await client.create_collection("photos", kernel="minmax", sampler="dart")
        assert_type(photos, AsyncCollection)
        assert_type(client.collection("photos"), AsyncCollection)
        assert_type(await photos.info(), CollectionInfo)
        assert_type(await photos.add(["a"], matrix), AddResult)
        assert_type(await photos.query(matrix[0], include=("payload",)), Answer)
        assert_type(await client.query_id("a", 3), Answer)
        assert_type(await client.query_batch(matrix), AnswerBatch)
        assert_type(await photos.get(["a"], include=("vector",)), GetResult)
        assert_type(await photos.delete(["a"]), DeleteResult)
        assert_type(await photos.count({"x": 1}), int)
        assert_type(await photos.scroll(limit=5), Page)
        assert_type(photos.pages(), AsyncIterator[Page])
        assert_type([item async for item in photos.items()], list[Item])
        await client.drop_collection("photos")


async def mistakes(client: Client, other: AsyncClient) -> None:
    """Each of these is found by the type checker: without its mark, or when it is no longer found, the test fails."""
    client.query([1.0], kk=3)  # type: ignore[call-arg]
    client.query([1.0], mode="fast")  # type: ignore[arg-type]
    client.query([1.0], certify="yes")  # type: ignore[arg-type]
    client.query([1.0], include="payload")  # type: ignore[arg-type]
    client.query(5)  # type: ignore[arg-type]
    client.add(["a"], [[1.0]], mode="replace")  # type: ignore[arg-type]
    client.create_collection("x", sampler="dice")  # type: ignore[arg-type]
    client.collection("x").delete("a", "b")  # type: ignore[arg-type]
    print(client.query([1.0]).results[0].scores)  # type: ignore[attr-defined]  # noqa: T201
    print((await other.query([1.0])).results[0].nearness)  # type: ignore[attr-defined]  # noqa: T201
