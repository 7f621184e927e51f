"""Collections with several fields through the client: the calls of the library, and what they answer."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import kinbin
import kinbin_client
from kinbin_client import AsyncClient, AsyncFieldsCollection, Chunking, FieldsCollection, InvalidArgument
from service_app import running_app, warm_up_once

FIELDS: dict[str, Any] = {"colour": {"kernel": "chi2", "dim": 4}, "words": {}}
IDS = ["a", "b", "c"]


def vectors(forms: Any) -> dict[str, Any]:
    """Vectors of three items, in the forms of the client or of the library."""
    return {
        "colour": np.array([[4.0, 0, 0, 1], [0, 3, 1, 0], [0, 0, 2, 2]]),
        "words": [["red", "apple"], forms.Tokens({"red": 2}), {3: 1.5}],
    }


@pytest.fixture
async def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AsyncClient]:
    """A client of a service of its own."""
    monkeypatch.setattr(kinbin, "warm_up", warm_up_once)
    async with running_app(tmp_path / "service") as app:

        async def forward(request: httpx.Request) -> httpx.Response:
            content = await request.aread()
            answer = await app.client.request(request.method, request.url, content=content, headers=request.headers)
            return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)

        async with AsyncClient("http://localhost", transport=httpx.MockTransport(forward)) as one:
            yield one


async def test_the_client_answers_what_the_library_answers(client: AsyncClient, tmp_path: Path) -> None:
    """Adds, queries of every kind, gets and stats give the same on both sides, cut into requests or not."""
    made: Any = await client.create_collection("p", fields=FIELDS, seed=3)
    c = client.fields_collection("p")
    assert type(made) is type(c) is AsyncFieldsCollection
    with kinbin.open(tmp_path / "library") as database:
        database.create_collection("p", fields=FIELDS, seed=3)
        library = database.fields_collection("p")
        payloads = [{"n": 1}, None, {"n": 3}]
        added = await c.add(IDS, vectors(kinbin_client), payloads, chunking=Chunking(max_items=2))
        assert (added.indexed, added.count) == (3, 3)
        assert library.add(IDS, vectors(kinbin), payloads).indexed == 3
        x: dict[str, Any] = {"colour": np.array([3.0, 1, 0, 0]), "words": ["red"]}
        weights = {"colour": 0.25, "words": 2.0}
        for name, arguments in (
            ("query", {"vectors": x}),
            ("query", {"vectors": x, "weights": weights, "min_score": 0.1, "include": ["payload"]}),
            ("query", {"vectors": x, "combine": "product", "mode": "exact"}),
            ("query_id", {"id": "b", "fields": ["words"]}),
            ("query_id", {"id": "b", "weights": weights, "filter": {"n": {"$exists": True}}}),
        ):
            ours, theirs = getattr(library, name)(**arguments), await getattr(c, name)(**arguments)
            assert theirs.ids == ours.ids
            for got, hit in zip(theirs, ours, strict=True):
                assert got.parts == pytest.approx(hit.parts, abs=1e-9)
                assert (got.score, got.payload) == (pytest.approx(hit.score, abs=1e-9), hit.payload)
        batch = {"colour": vectors(kinbin)["colour"]}
        several = await c.query_batch(batch, {"colour": 1.0}, k=2, chunking=Chunking(max_items=2))
        assert [one.ids for one in several] == [one.ids for one in library.query_batch(batch, {"colour": 1.0}, k=2)]
        item = (await c.get(["c"])).find("c")
        assert item is not None
        assert item.vectors is not None
        assert item.vectors["colour"] == [0, 0, 2, 2]
        assert item.vectors["words"] == kinbin_client.Sparse([3], [1.5])
        info = await c.info()
        assert info.kernel is None
        assert info.fields is not None
        assert info.fields["colour"]["kernel"] == "chi2"
        assert (await c.stats())["fields"].keys() == FIELDS.keys()
        assert [one.id async for one in c.items()] == IDS
        assert (await c.delete(["a"])).count == await c.count() == 2


async def test_what_is_wrong_is_refused(client: AsyncClient) -> None:
    """What has no form is refused before it is sent, and what the service refuses names the field."""
    await client.create_collection("p", fields=FIELDS)
    c = client.fields_collection("p")
    wrong: Any = [[1, 2, 3, 4]]
    with pytest.raises(InvalidArgument, match="mapping of field to value"):
        await c.add(["a"], wrong)
    with pytest.raises(InvalidArgument, match="different numbers of vectors: 1 for"):
        await c.add(["a"], {"colour": [[1, 2, 3, 4]], "words": []})
    with pytest.raises(InvalidArgument, match="NaN"):
        await c.query({"colour": [1.0, float("nan"), 0, 0]})
    with pytest.raises(kinbin_client.InvalidInput, match="field 'colour'") as caught:
        await c.add(["a", "b"], {"colour": [[1, 2, 3, 4], [0, 0, 0, 0]], "words": [["x"], ["y"]]})
    assert caught.value.errors[0].pointer == "#/items/1/vectors/colour"
    with pytest.raises(kinbin_client.InvalidInput, match="vectors lack words"):
        await c.add(["a"], {"colour": [[1, 2, 3, 4]]})
    with pytest.raises(kinbin_client.InvalidInput, match="each field has its own"):
        await client.create_collection("q", fields=FIELDS, dim=4)


async def test_kernels_of_fields_have_parameters(client: AsyncClient) -> None:
    """Products and parameters are sent for each field, are told by info, and scores are by them."""
    fields = {"a": {"kernel": "rbf", "parameters": {"gamma": 2.0}, "dim": 2}, "b": {"kernel": "acos*gmm", "dim": 2}}
    await client.create_collection("p", fields=fields)
    c = client.fields_collection("p")
    info = await c.info()
    assert info.parameters is None
    assert info.fields is not None
    assert {name: (one["kernel"], one["parameters"]) for name, one in info.fields.items()} == {
        "a": ("rbf", {"gamma": 2.0}), "b": ("gmm*acos", {}),
    }  # fmt: skip
    await c.add(["x"], {"a": [[1, 0]], "b": [[1, 1]]})
    assert (await c.query({"a": [0, 1], "b": [1, 0]})).results[0].parts == pytest.approx({"a": np.exp(-2.0), "b": 0.375}, abs=1e-6)
    with pytest.raises(kinbin_client.InvalidInput, match="parameters came beside fields"):
        await client.create_collection("q", fields=fields, parameters={"gamma": 2.0})


@pytest.mark.parametrize("method", ["add", "query", "query_id", "query_batch", "get", "delete", "scroll", "count"])
def test_parameters_are_those_of_the_library(method: str) -> None:
    """Names, order and defaults of the client's parameters are the library's, but for what only one of them can do."""
    only = {"atomic", "progress", "cancel", "chunking", "allow_partial", "waiting", "reading"}
    sides = []
    for owner in (kinbin.FieldsCollection, FieldsCollection):
        listed = inspect.signature(getattr(owner, method)).parameters.values()
        sides.append([(one.name, str(one.default), one.kind) for one in listed if one.name not in only])
    assert sides[0] == sides[1]
