"""Writes on terms, aliases and limits: both clients against the real service in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import numpy as np
import pytest

import kinbin
from kinbin_client import AsyncClient, Chunking, Conflict, Holds, InvalidArgument, InvalidInput, NotFound, _requests, _writes
from kinbin_client.retry import Repeat
from service_app import running_app, warm_up_once


@pytest.fixture
async def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AsyncClient]:
    """A client of the service, with a collection of two items."""
    monkeypatch.setattr(kinbin, "warm_up", warm_up_once)
    async with running_app(tmp_path) as app:

        async def forward(request: httpx.Request) -> httpx.Response:
            answer = await app.client.request(request.method, request.url, content=await request.aread(), headers=request.headers)
            return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)

        async with AsyncClient("http://localhost", transport=httpx.MockTransport(forward)) as made:
            held = await made.create_collection("held", dim=2)
            await held.add(["a", "b"], [[1.0, 2.0], [2.0, 1.0]], [{"year": 2020, "x": 1}, None])
            yield made


async def test_payloads_and_versions(client: AsyncClient) -> None:
    """Payloads are replaced and patched; versions make writes conditional, and another one is a conflict that writes nothing."""
    held = client.collection("held")
    done = await held.set_payload(["b"], [{"year": 1999}])
    assert (done.updated, done.unchanged, done.count) == (1, 0, 2)
    await held.patch_payload(["a", "b"], [{"x": None}, None])
    found = await held.get(["a", "b"], include=("payload", "version"))
    assert [item.payload for item in found.items] == [{"year": 2020}, {"year": 1999}]
    a, b, nothing = await held.versions(["a", "b", "z"])
    assert ([item.version for item in found.items], nothing) == ([a, b], 0)
    with pytest.raises(Conflict) as refused:
        await held.set_payload(["a", "b"], [{}, {}], if_versions=[a, a])
    assert (refused.value.code, refused.value.errors[0].position) == ("version_conflict", 1)
    with pytest.raises(Conflict):
        await held.add(["a"], np.ones((1, 2)), if_versions=[b])
    await held.add(["a", "new"], [[5.0, 5.0], [1.0, 1.0]], if_versions=[a, 0])
    with pytest.raises(Conflict) as missing:
        await held.set_payload(["z"], [{}])
    assert missing.value.code == "item_conflict"
    for wrong in ([1, 2], "ab"):
        with pytest.raises(InvalidArgument, match="if_versions is a list"):
            await held.add(["a"], [[1.0, 1.0]], if_versions=wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="2 payloads came with 1 ids"):
        await held.set_payload(["a"], [{}, {}])


async def test_a_collection_is_compacted(client: AsyncClient) -> None:
    """Everything is merged by one call, of both halves of the client, whose answer says what the files take."""
    done = await client.collection("held").compact()
    assert done.freed_bytes == done.before_bytes - done.after_bytes
    shrunk = await client.collection("held").compact(shrink=True)
    assert 0 < shrunk.after_bytes < done.after_bytes
    asked = _writes.compact("held", True).request
    assert (asked.path, asked.body, asked.timeout) == ("/v1/collections/held/compact", b'{"shrink":true}', 3_600.0)


async def test_deletes_are_conditional(client: AsyncClient) -> None:
    """A delete with versions removes all or nothing, and is not sent again after a lost answer."""
    held = client.collection("held")
    a, b = await held.versions(["a", "b"])
    with pytest.raises(Conflict) as refused:
        await held.delete(["a", "b"], if_versions=[a, a])
    assert (refused.value.code, refused.value.errors[0].position) == ("version_conflict", 1)
    assert (await held.delete(["a", "b"], if_versions=[a, b])).deleted == 2
    assert _requests.delete("held", ["a"], None, [1]).request.repeat is Repeat.IF_NOT_DONE
    assert _requests.delete("held", ["a"], None).request.repeat is Repeat.ALWAYS


async def test_bad_items_are_told_by_their_place_in_the_whole_add(client: AsyncClient) -> None:
    """Over several requests, bad items are left out, counted, and named by where they stand in the add."""
    rows = np.ones((7, 2), np.float32)
    rows[[2, 5]] = 0
    done = await client.collection("held").add(list("cdefghi"), rows, on_error="skip", chunking=Chunking(max_items=3))
    assert (done.indexed, done.skipped, done.count) == (5, 2, 7)
    assert [(one.position, one.code) for one in done.problems] == [(2, "zero_vector"), (5, "zero_vector")]


async def test_the_same_add_under_its_key_is_done_once(client: AsyncClient) -> None:
    """An insert that is called again with its key succeeds with the same numbers; another add under the key is a conflict."""
    held = client.collection("held")
    first = await held.add(["k"], [[1.0, 1.0]], mode="insert", idempotency_key="mine")
    again = await held.add(["k"], [[1.0, 1.0]], mode="insert", idempotency_key="mine")
    assert (first.indexed, first.count) == (again.indexed, again.count) == (1, 3)
    assert (first.replayed, again.replayed) == (False, True)
    with pytest.raises(Conflict) as refused:
        await held.add(["l"], [[1.0, 1.0]], mode="insert", idempotency_key="mine")
    assert refused.value.code == "key_reused"
    for wrong in ("", "x" * 241, "ü"):
        with pytest.raises(InvalidArgument, match="an idempotency key is a string"):
            await held.add(["l"], [[1.0, 1.0]], idempotency_key=wrong)


async def test_aliases_and_limits(client: AsyncClient) -> None:
    """Aliases are set, used, listed and dropped; limits are set, shown and held."""
    await client.alias("live", "held")
    assert (await client.collection("live").query([1.0, 2.0])).ids[0] == "a"
    assert await client.aliases() == {"live": "held"}
    with pytest.raises(Conflict):
        await client.drop_collection("held")
    await client.drop_alias("live")
    with pytest.raises(NotFound) as missing:
        await client.drop_alias("live")
    assert missing.value.code == "alias_not_found"
    held = client.collection("held")
    assert await held.set_limits(items=2) == Holds(items=2, bytes=None, count=2) == await held.limits()
    with pytest.raises(InvalidInput) as refused:
        await held.add(["c"], [[1.0, 1.0]])
    assert (refused.value.code, refused.value.limit) == ("over_limit", "collection_items")
