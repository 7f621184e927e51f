"""The cluster as one document, from what a process knows of it: nodes, shards with their copies, what moves, what is wrong. Pure functions.

`kinbin cluster status` asks the logs besides; this asks nobody, so that a page may ask for it every other second.
"""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import TypedDict

from kinbin_cluster.moves import nowhere
from kinbin_cluster.picture import Collection, Node, Picture, Shard

__all__ = ["ClusterOverview", "Shape", "overview", "reshards", "shapes"]


class NodeOverview(TypedDict):
    """A node. `lag`: of its replica that is the furthest behind; `load`: seconds of work in a second; null: it has not told.

    `unreached_by`: gateways that live and do not reach it.
    """

    name: str
    address: str
    zone: str
    weight: float
    draining: bool
    live: bool
    unreached_by: list[str]
    lost: float | None
    version: str | None
    shards: int
    items: int
    bytes: int
    load: float
    lag: int | None
    disk_bytes: int | None
    disk_free: int | None


class CopyOverview(TypedDict):
    """A copy of a shard. `role`: replica, joining or leaving; `lag`: messages of the log that it has not applied."""

    node: str
    role: str
    live: bool
    state: str | None
    applied: int | None
    lag: int | None
    lag_seconds: float | None
    items: int
    bytes: int
    load: float
    problem: str | None


class ShardOverview(TypedDict):
    """A shard. `state`: unanswered, lacking, moving or well; `lacks`: replicas that are missing; `nowhere`: no node can take one."""

    shard: int
    state: str
    lacks: int
    nowhere: bool
    holder: str | None
    items: int
    bytes: int
    copies: list[CopyOverview]


class CollectionOverview(TypedDict):
    """A collection. `closed`: "pause" or "kept" where it takes no writes."""

    name: str
    replicas: int
    closed: str
    shards: list[ShardOverview]


class GatewayOverview(TypedDict):
    """A gateway that was heard of lately."""

    name: str
    address: str
    version: str


class ReshardOverview(TypedDict):
    """A collection that is being cut into other shards, or whose cutting was broken off."""

    name: str
    into: str
    shards: int
    state: str


class ClusterOverview(TypedDict):
    """`answering`: each shard has a replica that answers; `whole`: each has all of them. `controller`: the node that decides."""

    answering: bool
    whole: bool
    controller: str | None
    nodes: list[NodeOverview]
    gateways: list[GatewayOverview]
    collections: list[CollectionOverview]
    reshards: list[ReshardOverview]


@dataclass(frozen=True, slots=True)
class Shape:
    """How a shard is."""

    collection: Collection
    number: int
    record: Shard
    answering: tuple[str, ...]
    """The nodes whose replica of it is live, and that gateways reach."""

    @property
    def lacks(self) -> int:
        """How many replicas are missing: those that answer, against those that the collection is to have."""
        return max(0, self.collection.replicas - len(self.answering))

    @property
    def moves(self) -> bool:
        """Whether a replica joins or leaves."""
        return bool(self.record.joining or self.record.leaving)

    @property
    def state(self) -> str:
        """unanswered, lacking, moving or well: the worst of what holds."""
        if not self.answering:
            return "unanswered"
        return "lacking" if self.lacks else "moving" if self.moves else "well"


def shapes(picture: Picture) -> list[Shape]:
    """Every shard, by the name of its collection and its number."""
    found = []
    for _, collection in sorted(picture.collections.items()):
        for number in range(collection.shards):
            record = picture.shards.get((collection.uid, number), Shard(()))
            live = [node for node in record.replicas if _answers(picture, collection.uid, number, node)]
            found.append(Shape(collection, number, record, tuple(live)))
    return found


def _answers(picture: Picture, uid: str, number: int, node: str) -> bool:
    told = picture.replica(uid, number, node)
    return picture.is_reached(node) and told is not None and told.state == "live"


def overview(picture: Picture) -> ClusterOverview:
    """The document of GET /v1/cluster."""
    every = shapes(picture)
    collections: dict[str, CollectionOverview] = {}
    for shape in every:
        one = shape.collection
        empty: CollectionOverview = {"name": one.name, "replicas": one.replicas, "closed": one.closed, "shards": []}
        collections.setdefault(one.name, empty)["shards"].append(_shard(picture, shape))
    return {
        "answering": all(shape.answering for shape in every),
        "whole": not any(shape.lacks for shape in every),
        "controller": (picture.leases.get("control") or {}).get("owner"),
        "nodes": [_node(picture, node) for _, node in sorted(picture.nodes.items())],
        "gateways": [{"name": one.name, "address": one.address, "version": one.version} for one in picture.live_gateways()],
        "collections": list(collections.values()),
        "reshards": reshards(picture),
    }


def _node(picture: Picture, node: Node) -> NodeOverview:
    held = [(uid, number) for uid, number, _ in picture.shards_of(node.name)]
    told = [replica for place in held if (replica := picture.replica(*place, node.name)) is not None]
    more = picture.told(node.name)
    return {
        "name": node.name,
        "address": node.address,
        "zone": node.zone,
        "weight": node.weight,
        "draining": node.draining,
        "live": picture.is_live(node.name),
        "unreached_by": picture.unreached_by(node.name),
        "lost": node.lost,
        "version": more.get("version"),
        "shards": len(held),
        "items": sum(replica.items for replica in told),
        "bytes": sum(replica.bytes for replica in told),
        "load": round(sum(replica.load for replica in told), 4),
        "lag": max((replica.lag for replica in told if replica.lag is not None), default=None),
        "disk_bytes": more.get("disk_bytes"),
        "disk_free": more.get("disk_free"),
    }


def _shard(picture: Picture, shape: Shape) -> ShardOverview:
    copies = [_copy(picture, shape, name) for name in shape.record.nodes]
    well = [copy for copy in copies if copy["node"] in shape.answering] or copies
    return {
        "shard": shape.number,
        "state": shape.state,
        "lacks": shape.lacks,
        "nowhere": nowhere(picture, (shape.collection.uid, shape.number)),
        "holder": shape.record.holder,
        "items": max((copy["items"] for copy in well), default=0),
        "bytes": max((copy["bytes"] for copy in well), default=0),
        "copies": copies,
    }


def _copy(picture: Picture, shape: Shape, node: str) -> CopyOverview:
    record, place = shape.record, (shape.collection.uid, shape.number)
    told = picture.replica(*place, node)
    made: CopyOverview = {
        "node": node,
        "role": "joining" if node in record.joining else "leaving" if node in record.leaving else "replica",
        "live": picture.is_live(node),
        "state": None, "applied": None, "lag": None, "lag_seconds": None, "items": 0, "bytes": 0, "load": 0.0, "problem": None,
    }  # fmt: skip
    if told is not None:
        made |= {
            "state": told.state, "applied": told.applied, "lag": told.lag, "lag_seconds": told.lag_seconds, "items": told.items,
            "bytes": told.bytes, "load": told.load, "problem": told.problem,
        }  # fmt: skip
    return made


def reshards(picture: Picture) -> list[ReshardOverview]:
    """The collections that are being cut into other shards, or whose cutting was broken off."""
    jobs = [job for name, job in sorted(picture.jobs.items()) if name.startswith("reshard.")]
    return [
        {"name": job["name"], "into": job["into"], "shards": job["shards"], "state": job["state"]}
        for job in jobs
        if job.get("state", "none") != "none"
    ]
