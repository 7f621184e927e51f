"""What a process knows of its cluster: the registry's records, and what nodes tell. Read without waiting, from any thread.

The registry's watcher alone changes it, record by record; a record itself never changes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

import orjson

__all__ = ["Alias", "Collection", "Gateway", "Node", "Picture", "Record", "Replica", "Shard", "Snapshot", "Snapshots"]


@dataclass(frozen=True, slots=True)
class Record:
    """A record of the registry: JSON there, a dataclass here. Fields that this version does not know are left alone."""

    def to_json(self) -> bytes:
        """The bytes that the registry holds."""
        return orjson.dumps(asdict(self), option=orjson.OPT_SORT_KEYS)

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        """The record of such bytes."""
        held = orjson.loads(data)
        known = {part.name for part in fields(cls)}
        return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in held.items() if name in known})


@dataclass(frozen=True, slots=True)
class Node(Record):
    """A machine of the cluster. `lost`: since when (Unix time) it is silent; `draining`: it is to hold nothing."""

    name: str
    address: str
    zone: str = ""
    weight: float = 1.0
    draining: bool = False
    lost: float | None = None


@dataclass(frozen=True, slots=True)
class Collection(Record):
    """A collection. `uid` differs for each that was ever made, so that a name that is given again is another collection."""

    name: str
    uid: str
    shards: int
    replicas: int
    configuration: dict[str, Any]
    created: float
    closed: str = ""
    """Whether writes are refused: "pause" while other shards take over its last edits, "kept" when they have. "": it is open."""
    closed_by: str = ""
    """Which run of a command closed it: what follows from that is that run's, or of who goes on with its job."""


@dataclass(frozen=True, slots=True)
class Shard(Record):
    """Who holds a shard.

    replicas: nodes that answer for it; joining: nodes that restore and replay it, and answer for nothing yet; leaving: nodes that go when
    the joining ones have come: replicas until then, and for some seconds after. holder: the one whose verdicts count first.
    snapshot_asked: the holder makes a snapshot when its newest is older than this sequence. rebuild: nodes that throw their copy away
    and restore it. epoch: counts the changes.
    """

    replicas: tuple[str, ...]
    joining: tuple[str, ...] = ()
    leaving: tuple[str, ...] = ()
    holder: str | None = None
    epoch: int = 0
    snapshot_asked: int = 0
    rebuild: tuple[str, ...] = ()
    made: float = 0.0

    @property
    def nodes(self) -> tuple[str, ...]:
        """All that have a copy of the shard, or make one, and keep it."""
        return tuple(dict.fromkeys((*self.replicas, *self.joining, *self.leaving)))


@dataclass(frozen=True, slots=True)
class Snapshot(Record):
    """A copy of a shard in the object store: it holds everything up to a sequence."""

    sequence: int
    object: str
    bytes: int
    node: str
    made: float
    doubted: bool = False
    """Whether the copy that it was made of was found to differ from others since."""


@dataclass(frozen=True, slots=True)
class Snapshots(Record):
    """The newest two snapshots of a shard, the newest first; more where they are doubted and there is no sound one yet."""

    held: tuple[dict[str, Any], ...] = ()

    @property
    def newest(self) -> list[Snapshot]:
        """They, as records."""
        return [Snapshot.from_json(orjson.dumps(snapshot)) for snapshot in self.held]

    @property
    def sound(self) -> list[Snapshot]:
        """Those that nobody doubts."""
        return [one for one in self.newest if not one.doubted]


@dataclass(frozen=True, slots=True)
class Alias(Record):
    """Another name of a collection."""

    collection: str


@dataclass(frozen=True, slots=True)
class Replica(Record):
    """What a node tells of its copy of a shard.

    state: restoring, replaying or live. digest: [sequence, hex] of the last mark. problem: why the copy does not go on, if it does not.
    opened: how far its files were when the node opened them; None where it has made them anew.
    lag, lag_seconds: messages of the log that are not applied, and for how long the log has held one; None: the node does not know.
    load: seconds of work in a second, mean of some minutes.
    """

    applied: int = 0
    state: str = "replaying"
    digest: tuple[Any, ...] | None = None
    items: int = 0
    bytes: int = 0
    problem: str | None = None
    opened: int | None = None
    lag: int | None = None
    lag_seconds: float | None = None
    load: float = 0.0


@dataclass(frozen=True, slots=True)
class Gateway(Record):
    """What a gateway tells of itself."""

    name: str
    address: str
    version: str = ""
    unreached: tuple[str, ...] = ()
    """Nodes that live and that it does not reach (`gateway.reaching`)."""


@dataclass(slots=True)
class _Heard:
    at: float
    shards: dict[tuple[str, int], Replica] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)


_KNOWN_SECONDS = 30.0


class Picture:
    """The records by name, and who was heard of when. `clock` is the time that counts for silence; `lost_seconds` how long it may last."""

    def __init__(self, lost_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.cluster = ""
        self.nodes: dict[str, Node] = {}
        self.collections: dict[str, Collection] = {}
        self.shards: dict[tuple[str, int], Shard] = {}
        self.snapshots: dict[tuple[str, int], Snapshots] = {}
        self.aliases: dict[str, Alias] = {}
        self.gateways: dict[str, tuple[float, Gateway]] = {}
        self.leases: dict[str, dict[str, Any]] = {}
        self.jobs: dict[str, dict[str, Any]] = {}
        self._lost_seconds = lost_seconds
        self._clock = clock
        self._heard: dict[str, _Heard] = {}

    def live(self) -> list[Node]:
        """The nodes that were heard of lately, by name."""
        return [self.nodes[name] for name in sorted(self.nodes) if self.is_live(name)]

    def is_live(self, node: str) -> bool:
        """Whether a node was heard of lately."""
        heard = self._heard.get(node)
        return heard is not None and self._clock() - heard.at <= self._lost_seconds

    def unreached_by(self, node: str) -> list[str]:
        """The gateways that live and do not reach a node."""
        return [gateway.name for gateway in self.live_gateways() if node in gateway.unreached]

    def is_reached(self, node: str) -> bool:
        """Whether a node lives, and not all gateways say that they do not reach it."""
        gateways = self.live_gateways()
        return self.is_live(node) and not (gateways and all(node in gateway.unreached for gateway in gateways))

    def reached(self) -> list[Node]:
        """The nodes that live and are reached, by name: those that shards may be given to."""
        return [node for node in self.live() if self.is_reached(node.name)]

    def is_draining(self, node: str) -> bool:
        """Whether a node is to hold nothing."""
        return node in self.nodes and self.nodes[node].draining

    def silent_for(self, node: str) -> float | None:
        """Seconds since a node was heard of; None when it never was."""
        heard = self._heard.get(node)
        return None if heard is None else self._clock() - heard.at

    def told(self, node: str) -> dict[str, Any]:
        """What a node told of itself beside its shards: version, load."""
        heard = self._heard.get(node)
        return {} if heard is None else heard.more

    def replica(self, uid: str, shard: int, node: str) -> Replica | None:
        """What a node told last of its copy of a shard, however long ago."""
        heard = self._heard.get(node)
        return None if heard is None else heard.shards.get((uid, shard))

    def answering(self, uid: str, shard: int) -> list[Node]:
        """The nodes to ask about a shard, the best first.

        First those that live and have the shard live; then those that live; then the others: silence may be the connection's to NATS, and
        a node that cannot be reached says so at once.
        """
        record = self.shards.get((uid, shard))
        if record is None:
            return []
        ranked = []
        for name in record.replicas:
            if name not in self.nodes:
                continue
            told = self.replica(uid, shard, name)
            ready = told is not None and told.state == "live"
            ranked.append((0 if ready and self.is_live(name) else 1 if self.is_live(name) else 2, name))
        return [self.nodes[name] for _, name in sorted(ranked)]

    def applied(self, uid: str, shard: int) -> dict[str, int]:
        """How far each live copy of a shard is, by node."""
        record = self.shards.get((uid, shard))
        told = {name: self.replica(uid, shard, name) for name in (record.nodes if record else ()) if self.is_live(name)}
        return {name: replica.applied for name, replica in told.items() if replica is not None}

    def shards_of(self, node: str) -> Iterator[tuple[str, int, Shard]]:
        """The shards that a node holds or is to hold: uid, number, record."""
        for (uid, number), record in list(self.shards.items()):
            if node in record.nodes:
                yield uid, number, record

    def collection_of(self, uid: str) -> Collection | None:
        """The collection with a uid."""
        return next((one for one in list(self.collections.values()) if one.uid == uid), None)

    def resolved(self, name: str) -> Collection | None:
        """The collection that a name or an alias means now."""
        alias = self.aliases.get(name)
        return self.collections.get(alias.collection if alias else name)

    def hear(self, node: str, data: bytes) -> None:
        """Take in what a node told."""
        told = orjson.loads(data)
        shards = {}
        for key, value in told.pop("shards", {}).items():
            uid, _, number = key.partition(".")
            shards[uid, int(number)] = Replica.from_json(orjson.dumps(value))
        self._heard[node] = _Heard(self._clock(), shards, told)

    def hear_gateway(self, data: bytes) -> None:
        """Take in what a gateway told."""
        told = Gateway.from_json(data)
        self.gateways[told.name] = (self._clock(), told)

    def hears_most(self, seconds: float) -> bool:
        """Whether at least half of the nodes and gateways that told something in the last half minute did so in the last seconds."""
        now = self._clock()
        ages = [now - one.at for one in self._heard.values()] + [now - at for at, _ in self.gateways.values()]
        known = [age for age in ages if age <= _KNOWN_SECONDS]
        return 2 * sum(age <= seconds for age in known) >= len(known)

    def live_gateways(self) -> list[Gateway]:
        """The gateways that were heard of lately, by name."""
        now = self._clock()
        return [told for _, (at, told) in sorted(self.gateways.items()) if now - at <= self._lost_seconds]
