"""Names of collections and aliases that several change at once: one succeeds, and the others are told why they did not."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
import pytest_asyncio
from nats.errors import TimeoutError as NatsTimeout

from kinbin_cluster.bucket import Bucket
from kinbin_cluster.connecting import Connection
from kinbin_cluster.errors import Aliased, Changed, Exists, NotThere
from kinbin_cluster.picture import Collection, Picture
from kinbin_cluster.registry import Registry

LONG = 30.0
PLACED = [["a"], ["b"]]


def collection(name: str | None = None) -> Collection:
    """A collection that nobody else has."""
    uid = secrets.token_hex(6)
    return Collection(name or f"c-{uid}", uid, 2, 1, {"kind": "minmax", "dim": 8}, 1.5)


@pytest_asyncio.fixture
async def there(registry: Registry, other: Registry) -> Collection:
    """A collection that both know."""
    made = collection()
    await registry.create_collection(made, PLACED)
    assert await other.wait_for(lambda picture: made.name in picture.collections, LONG)
    return made


def at(monkeypatch: pytest.MonkeyPatch, of: Registry, operation: str, meanwhile: Callable[[], Awaitable[Any]]) -> None:
    """Something that happens right before the next call of an operation of a registry's bucket."""
    plain = getattr(of._bucket, operation)
    todo = [meanwhile]

    async def later(*given: Any, **more: Any) -> Any:
        if todo:
            await todo.pop()()
        return await plain(*given, **more)

    monkeypatch.setattr(of._bucket, operation, later)


def dropped_within(monkeypatch: pytest.MonkeyPatch, by: Registry, of: Registry, name: str) -> None:
    """A drop by one registry, in the next `set_alias` of another: it looks for aliases before that, and removes the record after it."""
    looked, go = asyncio.Event(), asyncio.Event()
    dropping: list[asyncio.Task[Any]] = []

    async def wait() -> None:
        looked.set()
        await go.wait()

    async def begin() -> None:
        dropping.append(asyncio.create_task(by.drop_collection(name, aliased=False)))
        await looked.wait()

    async def end() -> None:
        go.set()
        await dropping[0]

    at(monkeypatch, by, "delete", wait)
    at(monkeypatch, of, "put", begin)
    at(monkeypatch, of, "change", end)


async def outcomes(*asked: Awaitable[Any]) -> list[str]:
    """What became of calls at once, by the name of the error, sorted; "done" for those that succeeded."""
    told = await asyncio.gather(*asked, return_exceptions=True)
    return sorted(type(one).__name__ if isinstance(one, BaseException) else "done" for one in told)


async def test_of_two_who_drop_one_does(registry: Registry, other: Registry) -> None:
    """However their steps interleave, one has dropped the collection, or the alias, and the other is told that there is none."""
    for _ in range(8):
        one = collection()
        await registry.create_collection(one, PLACED)
        assert await outcomes(registry.drop_collection(one.name), other.drop_collection(one.name)) == ["NotThere", "done"]
        again = collection()
        await registry.create_collection(again, PLACED)
        await registry.set_alias(f"{again.name}-now", again.name)
        assert await outcomes(*(by.drop_alias(f"{again.name}-now") for by in (registry, other))) == ["NotThere", "done"]


async def test_a_drop_whose_record_was_dropped_is_told_so(
    registry: Registry, other: Registry, there: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has read the record before another one removed it did not drop it; where it is made anew meanwhile, that one stays."""
    at(monkeypatch, registry, "delete", lambda: other.drop_collection(there.name))
    with pytest.raises(NotThere):
        await registry.drop_collection(there.name)
    first, second = collection(there.name), collection(there.name)
    await other.create_collection(first, PLACED)

    async def made_anew() -> None:
        await other.drop_collection(there.name)
        await other.create_collection(second, PLACED)

    at(monkeypatch, registry, "delete", made_anew)
    with pytest.raises(Changed):
        await registry.drop_collection(there.name)
    assert await registry.wait_for(lambda picture: picture.resolved(there.name) == second, LONG)


async def test_an_answer_that_was_lost_is_no_loss(registry: Registry, there: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has dropped a collection, and did not hear so, is not told that somebody else did."""
    js = registry._connection.js
    plain, lost = js.publish, [True]

    async def publish(*given: Any, **more: Any) -> Any:
        told = await plain(*given, **more)
        if lost:
            lost.pop()
            raise NatsTimeout
        return told

    monkeypatch.setattr(js, "publish", publish)
    assert (await registry.drop_collection(there.name)) == there
    assert not lost


async def test_a_collection_is_dropped_or_led_to(
    registry: Registry, other: Registry, there: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An alias that is set while a collection is dropped either is refused and leaves nothing, or keeps the collection."""
    alias = f"{there.name}-now"
    at(monkeypatch, registry, "delete", lambda: other.set_alias(alias, there.name))
    with pytest.raises(Aliased):
        await registry.drop_collection(there.name, aliased=False)
    assert registry.picture.resolved(alias) == there
    await registry.drop_alias(alias)
    dropped_within(monkeypatch, other, registry, there.name)
    with pytest.raises(NotThere):
        await registry.set_alias(alias, there.name)
    for one in (registry, other):
        assert await one.wait_for(lambda picture: alias not in picture.aliases and there.name not in picture.collections, LONG)


async def test_an_alias_of_a_collection_that_goes_leads_where_it_led(
    registry: Registry, other: Registry, there: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the new target is dropped while an alias is led to it, the alias keeps the old one."""
    target, alias = collection(), f"{there.name}-now"
    await registry.create_collection(target, PLACED)
    await registry.set_alias(alias, there.name)
    assert await other.wait_for(lambda picture: alias in picture.aliases, LONG)
    dropped_within(monkeypatch, other, registry, target.name)
    with pytest.raises(NotThere):
        await registry.set_alias(alias, target.name)
    assert await other.wait_for(lambda picture: picture.resolved(alias) == there, LONG)


async def test_an_alias_that_was_led_elsewhere_is_not_dropped(
    registry: Registry, other: Registry, there: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A drop of an alias that another gateway swaps meanwhile is refused; one that is set while it is dropped is there afterwards."""
    target, alias = collection(), f"{there.name}-now"
    await registry.create_collection(target, PLACED)
    await registry.set_alias(alias, there.name)
    at(monkeypatch, registry, "delete", lambda: other.set_alias(alias, target.name))
    with pytest.raises(Changed):
        await registry.drop_alias(alias)
    assert await registry.wait_for(lambda picture: picture.resolved(alias) == target, LONG)
    at(monkeypatch, registry, "replace", lambda: other.drop_alias(alias))
    await registry.set_alias(alias, there.name)
    assert registry.picture.resolved(alias) == there


async def test_a_name_is_a_collection_or_an_alias(registry: Registry, other: Registry, there: Collection) -> None:
    """Of a collection and an alias that get one name at once one stays, and who made the other is told."""
    for _ in range(8):
        one = collection()
        told = await outcomes(registry.create_collection(one, PLACED), other.set_alias(one.name, there.name))
        assert told in (["Aliased", "done"], ["Exists", "done"])
        assert await registry.wait_for(partial(_one_of_both, one.name), LONG)


def _one_of_both(name: str, picture: Picture) -> bool:
    return (name in picture.collections) != (name in picture.aliases)


async def test_a_create_beside_a_drop_makes_one(
    registry: Registry, other: Registry, there: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was in the way and is dropped before it could be looked at is in nobody's way."""
    again = collection(there.name)
    at(monkeypatch, registry, "get", lambda: other.drop_collection(there.name))
    await registry.create_collection(again, PLACED)
    assert registry.picture.resolved(there.name) == again
    with pytest.raises(Exists):
        await other.create_collection(collection(there.name), PLACED)


async def test_a_record_has_one_revision_a_change(connection: Connection) -> None:
    """`put` tells what was there, `replace` and `delete` touch no other revision; the same bytes are written only where that is asked."""
    bucket, key = Bucket(connection, "test"), secrets.token_hex(6)
    await bucket.open(LONG)
    made = await bucket.put(key, lambda _: b"1")
    assert made.before is None
    assert await bucket.put(key, lambda _: b"1") == (b"1", made.revision)
    assert await bucket.change(key, lambda held: held, touch=True) == b"1"
    assert await bucket.replace(key, b"2", made.revision) is None
    with pytest.raises(Changed):
        await bucket.delete(key, made.revision)
    data, revision = await bucket.get(key)
    assert (data, revision > made.revision) == (b"1", True)
    await bucket.delete(key, revision)
    with pytest.raises(NotThere):
        await bucket.delete(key, revision)
