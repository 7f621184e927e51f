"""What `kinbin cluster` asks and orders: the picture as one document, and changes of the registry's records that controllers carry out.

Each function connects, does its part and ends; `tell` is called with each line of progress. Orders stand in the registry: whoever gave
one may leave, and nothing is undone by it.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from kinbin_cluster.connecting import Connection, who_answers
from kinbin_cluster.control import Controller
from kinbin_cluster.digests import divergent
from kinbin_cluster.errors import ClusterError, LogUnavailable, NotThere
from kinbin_cluster.log import Log
from kinbin_cluster.moves import nowhere
from kinbin_cluster.objects import Objects
from kinbin_cluster.picture import Collection, Node, Picture, Shard
from kinbin_cluster.registry import Registry
from kinbin_cluster.settings import ClusterSettings

__all__ = ["Refused", "Session", "check", "drain", "forget", "move", "moved", "opened", "status"]

Tell = Callable[[str], object]
REGISTRY_SECONDS = 8.0
"""Without a quorum of its servers NATS answers no command."""
WAIT = 5.0
"""Seconds without progress after which a command that waits says why."""
SILENCE = 1.2
"""Seconds in which each node that lives has told of itself, as a rule. Those that nobody calls lost are waited for until they are."""


class Refused(ClusterError):
    """An order that makes no sense: there is no such node, or it holds the shard already."""


@dataclass(frozen=True, slots=True)
class Session:
    """A connection of a command, and what it knows of the cluster."""

    connection: Connection
    registry: Registry
    log: Log

    @property
    def picture(self) -> Picture:
        """As the registry has it now."""
        return self.registry.picture


@asynccontextmanager
async def opened(settings: ClusterSettings) -> AsyncIterator[Session]:
    """Connect, and wait until the nodes have told of themselves."""
    async with await Connection.open(settings, "command") as connection:
        registry = Registry(connection)
        try:
            await registry.start(seconds=REGISTRY_SECONDS)
        except LogUnavailable as error:
            text = f"{error}; more than half of the NATS servers have to live: {await who_answers(settings)}"
            raise LogUnavailable(text) from None
        try:
            await registry.wait_for(lambda picture: all(picture.is_live(name) for name in picture.nodes), SILENCE)
            await registry.wait_for(
                lambda picture: all(picture.is_live(name) for name, node in picture.nodes.items() if node.lost is None),
                settings.lost_seconds,
            )
            yield Session(connection, registry, Log(connection))
        finally:
            await registry.stop()


# ----------------------------------------------------------------------------------------------- status


async def status(settings: ClusterSettings) -> dict[str, Any]:
    """The cluster as one document: nodes, gateways, collections with their shards, replicas, logs and snapshots, what is wrong.

    `answering` is false where a shard has no live replica; `whole` is false where a shard lacks a replica, or a copy does not go on.
    """
    async with opened(settings) as session:
        await asyncio.sleep(SILENCE)  # gateways that are silent are not known, so that there is nothing to wait for
        picture = session.picture
        collections = [await _collection(session, one) for one in sorted(picture.collections.values(), key=lambda one: one.name)]
        shards = [shard for one in collections for shard in one["shards"]]
        return {
            "answering": all(shard["answering"] for shard in shards),
            "whole": all(shard["whole"] for shard in shards),
            "servers": await session.registry.servers(),
            "controller": (picture.leases.get("control") or {}).get("owner"),
            "nodes": [_node(picture, node) for _, node in sorted(picture.nodes.items())],
            "gateways": [asdict(gateway) for gateway in picture.live_gateways()],
            "collections": collections,
            "aliases": {name: alias.collection for name, alias in sorted(picture.aliases.items())},
            "divergences": {name.removeprefix("divergence."): job for name, job in picture.jobs.items() if name.startswith("divergence.")},
            "older_files": {name.removeprefix("older."): job for name, job in picture.jobs.items() if name.startswith("older.")},
        }


def _node(picture: Picture, node: Node) -> dict[str, Any]:
    held = list(picture.shards_of(node.name))
    told = [replica for uid, number, _ in held if (replica := picture.replica(uid, number, node.name)) is not None]
    return {
        **asdict(node),
        "live": picture.is_live(node.name),
        "unreached_by": picture.unreached_by(node.name),
        "shards": len(held),
        "items": sum(replica.items for replica in told),
        "bytes": sum(replica.bytes for replica in told),
        **picture.told(node.name),
    }


async def _collection(session: Session, collection: Collection) -> dict[str, Any]:
    shards = [await _shard(session, collection, number) for number in range(collection.shards)]
    return {
        "name": collection.name,
        "uid": collection.uid,
        "replicas": collection.replicas,
        "created": collection.created,
        "closed": collection.closed,
        "shards": shards,
    }


async def _shard(session: Session, collection: Collection, number: int) -> dict[str, Any]:
    picture, place = session.picture, (collection.uid, number)
    shard = picture.shards.get(place, Shard(()))
    try:
        log: dict[str, Any] | None = asdict(await session.log.state(*place))
    except ClusterError:
        log = None
    copies = []
    for name in shard.nodes:
        told = picture.replica(*place, name)
        role = "joining" if name in shard.joining else "leaving" if name in shard.leaving else "replica"
        copy = {"node": name, "role": role, "live": picture.is_live(name), **(asdict(told) if told is not None else {})}
        copy["lag"] = None if log is None or told is None else max(0, log["last"] - told.applied)
        copies.append(copy)
    reached = [copy for copy in copies if picture.is_reached(copy["node"]) and copy["node"] in shard.replicas]
    answering = [copy for copy in reached if copy.get("state") == "live"]
    well = [copy for copy in answering if not copy["problem"] and copy["node"] not in shard.rebuild and copy["role"] == "replica"]
    snapshots = picture.snapshots.get(place)
    return {
        "shard": number,
        "holder": shard.holder,
        "answering": bool(answering),
        "whole": len(well) >= collection.replicas,
        "nowhere": nowhere(picture, place),
        "copies": copies,
        "rebuild": list(shard.rebuild),
        "log": log,
        "snapshots": [asdict(one) for one in snapshots.newest] if snapshots is not None else [],
    }


# ----------------------------------------------------------------------------------------------- orders


async def drain(settings: ClusterSettings, node: str, tell: Tell, *, cancel: bool = False, wait: bool = True) -> None:
    """Have a node hold nothing, or let it take shards again. With `wait` until it is so. Raises Refused, ClusterError."""
    async with opened(settings) as session:
        picture = session.picture
        if node not in picture.nodes:
            raise Refused(f"there is no node {node}; there are {', '.join(sorted(picture.nodes)) or 'none'}")
        await session.registry.change_node(node, lambda held: replace(held, draining=not cancel))
        if cancel:
            for uid, number, _ in list(picture.shards_of(node)):
                await session.registry.change_shard(uid, number, lambda held: _staying(held, node))
            tell(f"{node} takes shards again")
            return
        tell(f"{node} is draining")
        if wait:
            await _wait(
                session,
                lambda picture: [f"{uid}.{number}" for uid, number, _ in picture.shards_of(node)],
                tell,
                f"on {node}",
                lambda picture: [f"{uid}.{number}" for uid, number, _ in picture.shards_of(node) if nowhere(picture, (uid, number))],
            )
            tell(f"{node} holds nothing and can be stopped")


def _staying(shard: Shard, node: str) -> Shard:
    """A record whose leaving node stays; one that only keeps a copy for a moment goes all the same."""
    if node not in shard.replicas:
        return shard
    return replace(shard, leaving=tuple(name for name in shard.leaving if name != node))


async def move(settings: ClusterSettings, collection: str, shard: int, nodes: tuple[str, str], tell: Tell, *, wait: bool = True) -> None:
    """Move a replica of a shard from the first of two nodes to the second, which answers before the first goes. Raises Refused."""
    async with opened(settings) as session:
        await moved(session, collection, shard, nodes, tell, wait=wait)


async def moved(session: Session, collection: str, shard: int, nodes: tuple[str, str], tell: Tell, *, wait: bool = True) -> None:
    """The same, by a session that is open."""
    source, target = nodes
    picture = session.picture
    found = picture.resolved(collection)
    if found is None:
        raise Refused(f"there is no collection {collection}; there are {', '.join(sorted(picture.collections)) or 'none'}")
    if not 0 <= shard < found.shards:
        raise Refused(f"there is no shard {shard} of {found.name}, which has 0 to {found.shards - 1}")
    if not picture.is_reached(target):
        why = "no gateway reaches it" if picture.is_live(target) else "it is no node that lives"
        raise Refused(f"{target} takes no shard, as {why}; these do: {', '.join(node.name for node in picture.reached()) or 'none'}")
    place = (found.uid, shard)
    held = picture.shards[place]
    if source not in held.replicas or target in held.nodes:
        raise Refused(f"the replicas of shard {shard} are on {', '.join(held.nodes)}: it moves from one of these to another node")

    def changed(record: Shard) -> Shard:
        if target in record.nodes:
            return record
        leaving = tuple(dict.fromkeys((*record.leaving, source)))
        return replace(record, joining=(*record.joining, target), leaving=leaving)

    await session.registry.change_shard(*place, changed)
    tell(f"shard {shard} of {found.name} moves from {source} to {target}")
    if wait:
        await _wait(
            session,
            lambda picture: [] if _arrived(picture.shards.get(place), source, target) else [f"{found.uid}.{shard}"],
            tell,
            f"from {source} to {target}",
        )
        tell(f"shard {shard} of {found.name} is on {target}")


def _arrived(shard: Shard | None, source: str, target: str) -> bool:
    return shard is None or (target in shard.replicas and source not in shard.nodes)


async def forget(settings: ClusterSettings, node: str) -> None:
    """Take a node that is gone out of the registry. Raises Refused when it lives, or a shard is on it."""
    async with opened(settings) as session:
        if node not in session.picture.nodes:
            raise Refused(f"there is no node {node}")
        if session.picture.is_live(node):
            raise Refused(f"{node} lives: stop it first")
        if held := list(session.picture.shards_of(node)):
            raise Refused(f"{node} holds {len(held)} shards: drain it first, or wait until they are replaced")
        await session.registry.remove_node(node)


async def _wait(
    session: Session, left: Callable[[Picture], list[str]], tell: Tell, where: str, stuck: Callable[[Picture], list[str]] = lambda _: []
) -> None:
    """Wait until no shard is left, telling what changes, and how many of them have nowhere to go."""
    said = 0
    while count := len(left(session.picture)):
        tell(f"{count} {'shard' if count == 1 else 'shards'} {where}")
        while not await session.registry.wait_for(partial(_fewer, left, count), WAIT):
            if (now := len(stuck(session.picture))) and now != said:
                why = f"no node that lives can take {now} of them, as each replica needs a node of its own"
                tell(f"{why}: start another node, or --cancel; it waits for that")
            said = now


def _fewer(left: Callable[[Picture], list[str]], count: int, picture: Picture) -> bool:
    return len(left(picture)) != count


# ----------------------------------------------------------------------------------------------- digests


async def check(settings: ClusterSettings, collection: str, tell: Tell, *, seconds: float = 60.0) -> list[dict[str, Any]]:
    """Compare the replicas of each shard at one place of its log, now. Returns for each shard the digests by node, and those that differ.

    Replicas that are silent, or did not tell in time, have no digest and are in `silent`. Raises NotThere, ClusterError.
    Cost: each node reads all of its copy once.
    """
    async with opened(settings) as session:
        found = session.picture.resolved(collection)
        if found is None:
            raise NotThere(f"there is no collection {collection}")
        controller = Controller(session.connection, session.registry, session.log, Objects(session.connection), "command")
        places = [(found.uid, number) for number in range(found.shards)]
        marks = dict(zip(places, await asyncio.gather(*(controller.mark(place) for place in places)), strict=True))
        deadline = time.monotonic() + seconds
        compared = []
        for place, mark in marks.items():
            replicas = session.picture.shards[place].replicas
            live = [name for name in replicas if session.picture.is_live(name)]  # the others are not waited for
            await session.registry.wait_for(partial(_all_told, place, mark, len(live)), max(0.0, deadline - time.monotonic()))
            digests = digests_at_one(session.picture, place, mark)
            wrong = divergent(session.picture.shards[place].holder, digests)
            compared.append(
                {
                    "shard": place[1],
                    "sequence": mark,
                    "digests": digests,
                    "divergent": wrong,
                    "silent": [name for name in replicas if name not in digests],
                }
            )
            tell(compared_line(compared[-1]))
        return compared


def compared_line(one: dict[str, Any]) -> str:
    """What `check` found of a shard, for people. One replica alone is like nothing."""
    told, silent = len(one["digests"]), one["silent"]
    found = f"{told} replicas alike" if told > 1 else f"{told or 'no'} replica told"
    if one["divergent"]:
        found = f"{', '.join(one['divergent'])} differ"
    return f"shard {one['shard']}: {found}{'; nothing from ' + ', '.join(silent) if silent else ''}"


def _all_told(place: tuple[str, int], mark: int, count: int, picture: Picture) -> bool:
    return len(digests_at_one(picture, place, mark)) >= count


def digests_at_one(picture: Picture, place: tuple[str, int], mark: int) -> dict[str, str]:
    """The digests that nodes tell of a shard at one sequence: that of the mark, or of a later one that somebody else has put behind it.

    Of several sequences the one that the most replicas tell of, of these the newest: all come to the last mark.
    """
    told = {name: picture.replica(*place, name) for name in picture.shards[place].replicas}
    found = {name: one.digest for name, one in told.items() if one is not None and one.digest is not None and one.digest[0] >= mark}
    counts = Counter(digest[0] for digest in found.values())
    at = max(counts, key=lambda sequence: (counts[sequence], sequence), default=None)
    return {name: str(digest[1]) for name, digest in found.items() if digest[0] == at}
