"""What has to hold once everything is healed: what was acknowledged is there, once, and all replicas of a shard are the same."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import httpx

from faults.load import State, vector_of
from faults.running import Cluster, Program, until
from kinbin_cluster.shards import shard_of

__all__ = ["Spread", "checked", "contents", "settled"]

_PAGE = 1_000
SETTLE_SECONDS = 100.0
Item = tuple[State, tuple[float, ...], int]
Items = dict[str, Item]
"""By id: payload, vector, version."""


class Spread:
    """Which nodes hold each shard, as they say themselves."""

    def __init__(self, cluster: Cluster, uid: str, shards: int) -> None:
        self.cluster = cluster
        self.uid = uid
        self.shards = shards

    def holders(self, shard: int) -> list[Program]:
        """The nodes that have a replica."""
        return [node for node in self.cluster.nodes if self.cluster.replica(node, self.uid, shard, "/count", {}).status_code == 200]


def contents(cluster: Cluster, node: Program, uid: str, shard: int) -> Items:
    """All items of a replica."""
    found: Items = {}
    after = None
    while True:
        asked = {"after": after, "limit": _PAGE, "include": ["payload", "vector", "version"]}
        response = cluster.replica(node, uid, shard, "/scroll", asked)
        if response.status_code != 200:
            raise RuntimeError(f"{node.name} does not tell shard {shard}: {response.text[:300]}")
        page = response.json()
        for one in page["items"]:
            found[one["id"]] = one["payload"], tuple(one["vector"]), one["version"]
        after = page["next"]
        if after is None:
            return found


def settled(cluster: Cluster, uid: str, shards: int, gateways: list[str], replicas: int, name: str = "faults") -> list[str]:
    """Write once more to every shard, and wait until every replica has applied that. Returns what is wrong, if they do not."""
    ids: dict[int, str] = {}
    number = 0
    while len(ids) < shards:
        ids.setdefault(shard_of(f"settled-{number}", shards), f"settled-{number}")
        number += 1
    mark = time.time_ns()
    body = {"items": [{"id": one, "vector": vector_of(one, 0), "payload": {"v": mark, "w": -1}} for one in ids.values()]}
    key = {"Idempotency-Key": f"settled-{mark}"}

    def written() -> bool:
        try:
            return httpx.post(
                f"{gateways[mark % len(gateways)]}/v1/collections/{name}/index", json=body, headers=key, timeout=40
            ).is_success
        except httpx.HTTPError:
            return False

    def applied() -> bool:
        told = 0
        for shard, one in ids.items():
            for node in cluster.nodes:
                response = cluster.replica(node, uid, shard, "/get", {"ids": [one], "include": ["payload"]})
                items: list[Any] = response.json().get("items", []) if response.status_code == 200 else []
                told += bool(items) and items[0]["payload"]["v"] == mark
        return told >= shards * replicas

    try:
        until(written, SETTLE_SECONDS, "no write goes through, though everything is healed")
        until(applied, SETTLE_SECONDS, f"not all of {shards} shards have {replicas} replicas that applied the last write")
    except (TimeoutError, httpx.HTTPError) as error:
        return [str(error) or type(error).__name__]
    return []


def checked(cluster: Cluster, uid: str, shards: int, allowed: Mapping[str, list[State]]) -> list[str]:
    """What is wrong with the contents, if anything. allowed: what each id may be."""
    wrong: list[str] = []
    whole: Items = {}
    spread = Spread(cluster, uid, shards)
    for shard in range(shards):
        try:
            copies = _copies(cluster, spread, shard)
        except TimeoutError as error:
            return [str(error)]
        if not copies:
            return [f"nobody holds shard {shard}"]
        (first, items), *rest = copies.items()
        for name, other in rest:
            differ = {one for one in items.keys() | other.keys() if items.get(one) != other.get(one)}
            if differ:
                one = min(differ)
                wrong.append(f"shard {shard}: {first} and {name} differ in {len(differ)} items: {one} {items.get(one)} {other.get(one)}")
        foreign = [one for one in items if shard_of(one, shards) != shard]
        if foreign:
            wrong.append(f"shard {shard} has {foreign[:3]}, which belong elsewhere")
        whole |= items
    return wrong + _against(whole, allowed)


def _copies(cluster: Cluster, spread: Spread, shard: int) -> dict[str, Items]:
    """What each replica of a shard holds. One that is found damaged just now is waited for until it is made anew."""
    copies: dict[str, Items] = {}
    last = [""]

    def read() -> bool:
        try:
            copies.update((node.name, contents(cluster, node, spread.uid, shard)) for node in spread.holders(shard))
        except (RuntimeError, httpx.HTTPError) as error:
            last[0] = str(error)
            return False
        return True

    try:
        until(read, SETTLE_SECONDS, "")
    except TimeoutError:
        raise TimeoutError(f"not all replicas of shard {shard} can be read: {last[0]}") from None
    return copies


def _against(whole: Items, allowed: Mapping[str, list[State]]) -> list[str]:
    """What is not as it was acknowledged."""
    wrong: list[str] = []
    for one, states in allowed.items():
        item = whole.get(one)
        found: State = None if item is None else item[0]
        if found not in states:
            wrong.append(f"{one} is {found}, and was acknowledged as {states}")
        elif item is not None and found is not None and item[1] != tuple(vector_of(one, int(found["v"]))):
            wrong.append(f"{one} has another vector than its version {found['v']}")
    unknown: list[Any] = [one for one in whole if one not in allowed and not one.startswith("settled-")]
    if unknown:
        wrong.append(f"{len(unknown)} items were never written: {unknown[:3]}")
    return wrong
