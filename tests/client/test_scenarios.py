"""What users do, with the blocking and the asynchronous client, against the contract in memory and against the real service."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from kinbin_client import Chunking, Conflict, InvalidInput, NotFound, Sparse, Tokens

Run = Callable[[Callable[[Any], Awaitable[None]]], Awaitable[None]]


async def test_first_steps(run: Run) -> None:
    """The short routes need no collection: add, query, add again, replace."""

    async def scenario(client: Any) -> None:
        added = await client.add(["a", "b"], [[1, 0, 1], [0, 2, 2]], payloads=[{"year": 2020}, None])
        assert (added.indexed, added.updated, added.unchanged, added.count) == (2, 0, 0, 2)
        answer = await client.query([1, 0, 1], k=5)
        assert answer.ids == ["a", "b"]
        assert answer.scores == pytest.approx([1, 1 / 3], abs=1e-6)
        assert answer.results[0].payload is None
        again = await client.add(["a", "b", "c"], [[1, 0, 1], [0, 1, 0], [1, 1, 1]], payloads=[{"year": 2020}, None, None])
        assert (again.indexed, again.updated, again.unchanged, again.count) == (1, 1, 1, 3)
        assert await client.collections() == ["default"]

    await run(scenario)


async def test_ways_to_query(run: Run) -> None:
    """By vector, by id and by many vectors the same items are found with the same scores, within the options."""

    async def scenario(client: Any) -> None:
        rows = np.array([[4, 0, 0, 1], [3, 1, 0, 1], [0, 0, 5, 0], [0, 1, 5, 0]], dtype=np.float32)
        await client.add(list("abcd"), rows, payloads=[{"n": n} for n in range(4)])
        answer = await client.query(rows[0], k=3, mode="exact", include=("payload", "vector"))
        assert answer.mode == "exact"
        assert answer.ids[0] == "a"
        assert answer.results[0].payload == {"n": 0}
        assert answer.results[0].vector == [4, 0, 0, 1]
        assert (await client.query_id("a", k=3, mode="exact", include_self=True)).scores == pytest.approx(answer.scores)
        batch = await client.query_batch(rows, k=3, mode="exact", include=("payload",))
        assert [one.ids[0] for one in batch] == list("abcd")
        assert batch[0].scores == pytest.approx(answer.scores)
        assert batch[3].results[0].payload == {"n": 3}
        for asked in (rows, [row.tolist() for row in rows]):
            certified = await client.query_batch(asked, k=3, certify=True)
            assert [one.ids[0] for one in certified] == list("abcd")
            assert all(one.recall_lower_bound == 1.0 for one in certified), "so few items are scanned"
        filtered = await client.query(rows[0], filter={"n": {"$gte": 2}})
        assert set(filtered.ids) == {"c", "d"}
        lists = await client.query_batch([row.tolist() for row in rows], filter={"n": 3}, min_score=0.0)
        assert [one.ids for one in lists] == [["d"]] * 4
        assert (await client.query(rows[0], min_score=0.99)).ids == ["a"]

    await run(scenario)


async def test_collections_are_managed(run: Run) -> None:
    """A collection is created once, found alike, refused otherwise, described and dropped."""

    async def scenario(client: Any) -> None:
        photos = await client.create_collection("photos", kernel="minmax", dim=3)
        assert photos.name == "photos"
        await client.create_collection("photos", kernel="minmax", dim=3, exist_ok=True)
        with pytest.raises(Conflict, match="choose another name or drop it first"):
            await client.create_collection("photos", kernel="minmax", dim=3)
        with pytest.raises(Conflict) as conflict:
            await client.create_collection("photos", kernel="minmax", dim=4, exist_ok=True)
        assert conflict.value.code == "collection_exists"
        await photos.add(["a"], [[1, 2, 3]])
        info = await photos.info()
        assert (info.name, info.kernel, info.dim, info.count) == ("photos", "minmax", 3, 1)
        assert await photos.stats() == info.stats
        assert await client.collections() == ["photos"]
        await client.drop_collection("photos")
        with pytest.raises(NotFound) as missing:
            await photos.count()
        assert (missing.value.status, missing.value.code) == (404, "collection_not_found")
        with pytest.raises(NotFound):
            await client.drop_collection("photos")

    await run(scenario)


async def test_items_are_read_and_deleted(run: Run) -> None:
    """Get, scroll, count and delete agree with what was added."""

    async def scenario(client: Any) -> None:
        notes = await client.create_collection("notes", dim=2)
        ids = [f"n{n:04d}" for n in range(1_250)]
        payloads = [{"even": n % 2 == 0, "n": n} for n in range(1_250)]
        await notes.add(ids, [[1, n + 1] for n in range(1_250)], payloads)
        assert await notes.count() == 1_250
        assert await notes.count({"even": True}) == 625
        found = await notes.get([*ids, "absent"])
        assert [item.id for item in found.items] == ids
        assert found.missing == ["absent"]
        assert found.find("n0007").payload == {"even": False, "n": 7}
        assert found.find("n0007").vector == [1, 8]
        assert found.find("absent") is None
        page = await notes.scroll(limit=3)
        assert [item.id for item in page.items] == ids[:3]
        assert [item.id for item in (await notes.scroll(after=page.next, limit=2)).items] == ids[3:5]
        assert [len(page.items) async for page in notes.pages(limit=500, include=())] == [500, 500, 250]
        assert [item.payload["n"] async for item in notes.items(limit=400, filter={"even": True})] == list(range(0, 1_250, 2))
        gone = await notes.delete(["n0000", "absent"])
        assert (gone.deleted, gone.count) == (1, 1_249)
        gone = await notes.delete(filter={"even": True})
        assert (gone.deleted, gone.count) == (624, 625)
        assert await notes.count() == 625

    await run(scenario)


async def test_sparse_forms_are_one(run: Run) -> None:
    """Mappings, Sparse and CSR rows of the same features are the same vectors, and come back as Sparse."""

    async def scenario(client: Any) -> None:
        words = await client.create_collection("words", kernel="ngmm")
        matrix = sparse.csr_array(([1.5, 2.0, 3.0], ([0, 0, 1], [3, 70_001, 5])), shape=(2, 70_002))
        await words.add(["a", "b"], matrix)
        again = await words.add(["a", "b"], [{3: 1.5, 70_001: 2}, Sparse([5], [3])])
        assert again.unchanged == 2
        item = (await words.get(["a"])).find("a")
        assert dict(zip(item.vector.indices, item.vector.values, strict=True)) == {3: 1.5, 70_001: 2.0}
        for form in (item.vector, {3: 1.5, 70_001: 2.0}, matrix[[0]], Sparse(np.array([3, 70_001]), np.array([1.5, 2.0], np.float32))):
            answer = await words.query(form, k=1)
            assert answer.ids == ["a"]
            assert answer.scores == pytest.approx([1.0])
        assert [one.ids for one in await words.query_batch(matrix, k=1)] == [["a"], ["b"]]

    await run(scenario)


async def test_tokens_are_counted(run: Run) -> None:
    """Token counts are found again by the same tokens, given as a mapping or as Tokens."""

    async def scenario(client: Any) -> None:
        await client.add(["x", "y"], [{"red": 3, "apple": 1}, Tokens({"blue": 1, "sky": 1})])
        assert (await client.query({"red": 3, "apple": 1}, k=1)).scores == pytest.approx([1.0])
        assert (await client.query(Tokens({"sky": 2, "blue": 2}), k=1)).ids == ["y"]

    await run(scenario)


async def test_large_add_is_cut(run: Run) -> None:
    """A large add arrives whole in several requests, as a matrix or as lists, and tells its progress."""

    async def scenario(client: Any) -> None:
        matrix = np.random.default_rng(1).random((700, 8), dtype=np.float32) + 0.1
        ids = [f"item-{n}" for n in range(700)]
        steps: list[tuple[int, int]] = []
        big = await client.create_collection("big", dim=8)
        added = await big.add(ids, matrix, chunking=Chunking(max_items=300), progress=lambda done, total: steps.append((done, total)))
        assert (added.indexed, added.count) == (700, 700)
        assert steps == [(300, 700), (600, 700), (700, 700)]
        listed = await big.add(ids, matrix.tolist(), chunking=Chunking(max_bytes=30_000))
        assert (listed.indexed, listed.unchanged, listed.count) == (0, 700, 700)
        doubled = await big.add(ids, matrix.astype(np.float64), mode="update")
        assert doubled.unchanged == 700
        answers = await big.query_batch(matrix[:60], k=1, mode="exact", chunking=Chunking(max_items=25))
        assert [one.ids[0] for one in answers] == ids[:60]

    await run(scenario)


async def test_refused_item_is_located(run: Run) -> None:
    """An item that is refused in a later request is located in the whole add, with what was acknowledged before it."""

    async def scenario(client: Any) -> None:
        vectors = [[1.0, 2.0]] * 8 + [[0.0, 0.0]]
        bad = await client.create_collection("bad", dim=2)
        with pytest.raises(InvalidInput) as refused:
            await bad.add([str(n) for n in range(9)], vectors, chunking=Chunking(max_items=3))
        assert refused.value.code == "zero_vector"
        assert [problem.position for problem in refused.value.errors] == [8]
        assert refused.value.acknowledged == 6
        assert await bad.count() == 6
        with pytest.raises(InvalidInput) as refused:
            await bad.query_batch([*vectors[:4], [0, 0]], chunking=Chunking(max_items=2))
        assert [problem.position for problem in refused.value.errors] == [4]
        assert "#/queries/4" in repr(refused.value)
        with pytest.raises(InvalidInput) as refused:
            await bad.get([*(str(n) for n in range(1_100)), ""])
        assert [problem.position for problem in refused.value.errors] == [1_100]

    await run(scenario)


async def test_modes_of_add(run: Run) -> None:
    """Insert refuses ids that are there, update those that are not, and neither writes anything then."""

    async def scenario(client: Any) -> None:
        strict = await client.create_collection("strict", dim=2)
        await strict.add(["a"], [[1, 1]], mode="insert")
        with pytest.raises(Conflict) as conflict:
            await strict.add(["b", "a"], np.ones((2, 2), np.float32), mode="insert")
        assert conflict.value.code == "item_conflict"
        assert [problem.position for problem in conflict.value.errors] == [1]
        with pytest.raises(Conflict):
            await strict.add(["a", "b"], [[1, 1], [1, 1]], mode="update")
        assert await strict.count() == 1

    await run(scenario)


async def test_errors_tell_the_limit(run: Run) -> None:
    """What passes a limit is refused, and the limits can be read."""

    async def scenario(client: Any) -> None:
        await client.add(["a"], [[1, 2]])
        with pytest.raises(InvalidInput) as refused:
            await client.query([1, 2], k=1_001)
        assert refused.value.code == "over_limit"
        assert refused.value.errors[0].pointer == "#/k"
        assert refused.value.request_id
        assert (await client.limits())["k"].value == 1_000
        with pytest.raises(NotFound) as unknown:
            await client.query_id("absent")
        assert unknown.value.code == "unknown_id"

    await run(scenario)


async def test_health_is_told(run: Run) -> None:
    """A service that runs says so."""

    async def scenario(client: Any) -> None:
        await client.wait_ready(timeout=5)
        assert await client.ready() is True
        assert (await client.health()).status == "ready"

    await run(scenario)
