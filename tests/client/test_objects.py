"""Strings, series, point sets and images through the client: the calls of the library, and what they answer."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

import kinbin
from bundled import pictures
from kinbin_client import AsyncClient, Chunking, Client, InvalidArgument, InvalidInput, KinbinClientError
from service_app import running_app, warm_up_once

PIXELS = pictures()[:3]
KINDS: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "strings": ({"distance": "levenshtein"}, ["kitten", "sitting", "Straße 🐈"]),
    "series": ({"distance": "dtw", "parameters": {"window": 0.5}}, [[0.5, 1, 2.5], np.array([0.5, 1, 1, 2]), (3, -1)]),
    "points": ({"distance": "hausdorff", "dim": 2}, [[[0, 0.5], [1, 1]], np.ones((3, 2), np.float32), [(4, 4), (5, 5)]]),
    "images": ({"parameters": {"levels": 2}}, list(PIXELS)),
}
IDS = ["a", "b", "c"]


@pytest.fixture
async def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AsyncClient]:
    """A client of a service of its own; `sent` of it are the requests."""
    monkeypatch.setattr(kinbin, "warm_up", warm_up_once)
    async with running_app(tmp_path / "service") as app:
        sent: list[httpx.Request] = []

        async def forward(request: httpx.Request) -> httpx.Response:
            content = await request.aread()
            sent.append(request)
            answer = await app.client.request(request.method, request.url, content=content, headers=request.headers)
            return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)

        async with AsyncClient("http://localhost", transport=httpx.MockTransport(forward)) as one:
            one.sent = sent  # type: ignore[attr-defined]
            yield one


async def test_the_client_answers_what_the_library_answers(client: AsyncClient, tmp_path: Path) -> None:
    """Adds, queries, batches, gets and scrolls of every kind of objects give the same on both sides, cut into requests or not."""
    with kinbin.open(tmp_path / "library") as database:
        for items, (config, objects) in KINDS.items():
            c = await client.create_collection(items, items=items, **config)
            library = database.create_collection(items, items=items, **config)
            payloads: list[Any] = [{"n": 1}, None, {"n": 3}]
            added = await c.add(IDS, objects, payloads, chunking=Chunking(max_items=2))
            assert (added.indexed, added.count) == (3, 3)
            library.add(IDS, objects, payloads)
            found, ours = await c.query(objects[0], include=("vector", "payload")), library.query(objects[0], include=("vector", "payload"))
            assert found.ids == ours.ids
            assert found.scores == pytest.approx(ours.scores.tolist(), abs=1e-9)
            assert (found.distances is None) == (ours.distances is None) == (items == "images")
            for hit, own in zip(found, ours, strict=True):
                assert hit.payload == own.payload
                assert np.array_equal(np.array(hit.object), np.array(own.object)), items
            many = await c.query_batch(objects, k=2, chunking=Chunking(max_items=2))
            assert [one.ids for one in many] == [one.ids for one in library.query_batch(objects, k=2)]
            assert (await c.query_id("b", filter={"n": 3})).ids == library.query_id("b", filter={"n": 3}).ids == ["c"]
            assert [item.object for item in (await c.get(["c"])).items] == [_plain(library.get(["c"])[0])]
            info = await c.info()
            assert (info.items, info.kernel) == (items, library.config.kernel)
            assert (await client.create_collection(items, items=items, exist_ok=True, **config)).name == items


def _plain(item: Any) -> Any:
    return item.object.tolist() if isinstance(item.object, np.ndarray) else item.object


async def test_a_new_handle_learns_the_kind(client: AsyncClient) -> None:
    """A client that did not make a collection sends its objects by the right key, asking for the kind once; vectors never ask."""
    for items, (config, objects) in KINDS.items():
        await client.create_collection(items, items=items, **config)
        client._sender.kinds.clear()
        c = client.collection(items)
        assert (await c.add(IDS, objects)).indexed == 3
        assert (await c.query(objects[1])).ids[0] == "b"
        client._sender.kinds.clear()
        assert (await c.query_batch(objects[:2], k=1))[1].ids == ["b"]
        client._sender.kinds.clear()
        assert (await c.query(objects[1], k=1)).ids == ["b"]
        assert sum(request.method == "GET" for request in client.sent) == 3, items  # type: ignore[attr-defined]
        client.sent.clear()  # type: ignore[attr-defined]
    vectors = await client.create_collection("vectors", dim=2)
    client._sender.kinds.clear()
    await vectors.add(["a"], [[1.0, 2.0]])
    await vectors.query([1.0, 2.0])
    assert [request.method for request in client.sent] == ["PUT", "POST", "POST"]  # type: ignore[attr-defined]
    with pytest.raises(InvalidArgument, match="put tokens into a list or a set"):
        await vectors.query("kitten")
    await client.drop_collection("strings")
    await client.create_collection("strings", items="points", dim=2)
    with pytest.raises(KinbinClientError, match="point set"):
        await client.collection("strings").query("kitten")


async def test_images_come_in_every_form(client: AsyncClient, tmp_path: Path) -> None:
    """Paths, bytes, images of Pillow and arrays of one picture are one image, whose counts come back as its vector."""
    c = await client.create_collection("p", items="images")
    path = tmp_path / "a.png"
    Image.fromarray(PIXELS[0]).save(path)
    forms = [path, str(path), path.read_bytes(), Image.fromarray(PIXELS[0]), PIXELS[0]]
    assert (await c.add([str(n) for n in range(5)], forms)).indexed == 5
    for form in forms:
        answer = await c.query(form, include=("vector",))
        assert answer.scores == [1.0] * 5
        assert [hit.vector for hit in answer] == [answer.results[0].vector] * 5
        assert sum(np.array(answer.results[0].vector)) == PIXELS[0].shape[0] * PIXELS[0].shape[1]
    wrong: tuple[tuple[Any, str], ...] = (
        (tmp_path / "nothing.png", "cannot be read"),
        (PIXELS[0].astype(np.float32), "dtype float32"),
        (np.zeros((0, 3, 3), np.uint8), "shape (0, 3, 3)"),
        (5, "this is int"),
    )
    for bad, text in wrong:
        with pytest.raises(InvalidArgument) as refused:
            await c.add(["x", "y"], [path, bad])
        assert (refused.value.code, refused.value.position) == ("bad_object", 1)
        assert text in str(refused.value)
    assert await c.count() == 5


BAD: dict[str, list[Any]] = {
    "strings": [5, b"kitten", "", "x" * 20_000],
    "series": [[], [1, float("nan")], [float("inf")], "text", [[1, 2], [3]], np.ma.masked_array([1.0, 2], [True, False])],
    "points": [[], [1, 2], [[1, 2, 3]], [[1, float("nan")]], {"x": 1}],
}


async def test_bad_objects_are_refused_as_by_the_library(client: AsyncClient, tmp_path: Path) -> None:
    """What the library refuses the client refuses, with the same code and position, and the whole add is left out."""
    with kinbin.open(tmp_path / "library") as database:
        for items, objects in BAD.items():
            config, good = KINDS[items]
            c = await client.create_collection(items, items=items, **config)
            library = database.create_collection(items, items=items, **config)
            for bad in objects:
                with pytest.raises(kinbin.InvalidInput) as own:
                    library.add(["a", "b"], [good[0], bad])
                with pytest.raises((InvalidArgument, InvalidInput)) as refused:
                    await c.add(["a", "b"], [good[0], bad])
                told: Any = refused.value
                position = told.position if isinstance(told, InvalidArgument) else told.errors[0].position
                code = "bad_object" if isinstance(bad, np.ma.MaskedArray) else own.value.code
                assert (told.code, position) == (code, 1), (bad, told)
                with pytest.raises((InvalidArgument, InvalidInput)):
                    await c.query(bad)
            with pytest.raises(InvalidArgument, match="came with 1 ids"):
                await c.add(["a"], good)
            with pytest.raises(InvalidArgument, match="put a single"):
                await c.add(["a"], "kitten")
            assert await c.count() == 0


def test_the_blocking_client_sends_the_same() -> None:
    """The blocking client sends objects under their key, an old configuration for vectors, and what was chosen for objects."""
    sent: list[tuple[str, Any]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append((request.method, json.loads(request.content)))
        if request.method == "PUT":
            return httpx.Response(201, json={"name": "c", "count": 0})
        if request.url.path.endswith("/index"):
            return httpx.Response(200, json={"indexed": 1, "updated": 0, "unchanged": 0, "count": 1})
        hits = {"results": [{"id": "a", "distance": 2.0, "series": [[1, 2]]}], "mode": "exact", "candidates": 1, "verified": 1}
        return httpx.Response(200, json={"answers": [hits]} if "queries" in json.loads(request.content) else hits)

    with Client("http://kinbin.test", transport=httpx.MockTransport(answer)) as client:
        client.create_collection("v", dim=3)
        c = client.create_collection("c", items="series", distance="dtw", parameters={"window": 0.1}, dim=2)
        c.add(["a"], [np.array([[1, 2], [3, 4]])])
        found = c.query([[1.0, 2]], max_distance=3)
        batch = c.query_batch([[[1, 2]]])
    assert (found.distances, found.results[0].object, batch[0].distances) == ([2.0], [[1, 2]], [2.0])
    assert sent[0] == ("PUT", {"kernel": "ngmm", "dim": 3, "sampler": None, "bands": None, "rows": None, "seed": None})
    assert sent[1] == ("PUT", {"items": "series", "distance": "dtw", "parameters": {"window": 0.1}, "dim": 2})
    assert sent[2][1] == {"mode": "upsert", "items": [{"id": "a", "series": [[1, 2], [3, 4]]}]}
    assert (sent[3][1]["series"], sent[3][1]["max_distance"], sent[4][1]["queries"]) == ([[1.0, 2]], 3, [{"series": [[1, 2]]}])
