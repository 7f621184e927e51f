"""What nodes and gateways measure of a cluster: the tables of its metrics, and what they are computed from.

Labels are names of collections, numbers of shards, names of nodes, and words of short lists: never ids of items, keys or addresses of
clients. Metrics of shards are told of the first collections by name, as many as `metrics_collections` says. Everything here belongs to one
event loop; whoever reads in another thread reads a moment.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from kinbin_service.metrics import Described

__all__ = ["GATEWAY_METRICS", "NODE_METRICS", "Families", "Lag", "Rate", "ShardWork", "Worked"]

_SHARD = ("collection", "shard")

NODE_METRICS = (
    Described("replica_state", "gauge", "1 for the state of each replica: restoring, replaying or live", (*_SHARD, "state")),
    Described("replica_role", "gauge", "1 for the part of each replica: holder, replica, joining or leaving", (*_SHARD, "role")),
    Described("replica_stuck", "gauge", "whether something keeps a replica from going on; the log of the node says what", _SHARD),
    Described("replica_lag_entries", "gauge", "messages of the shard's log that the replica has not applied", _SHARD),
    Described("replica_lag_seconds", "gauge", "for how long the log has held a message that the replica has not applied", _SHARD),
    Described("replica_items", "gauge", "items of the replica", _SHARD),
    Described("replica_bytes", "gauge", "bytes of its files", _SHARD),
    Described("replica_load", "gauge", "seconds of reads and of applying in a second, mean of the last minutes", _SHARD),
    Described("replica_reads", "counter", "requests that gateways asked of the replica", _SHARD),
    Described("replica_read_seconds", "counter", "what these took, waiting for a thread included", _SHARD),
    Described("replica_entries", "counter", "entries of the log that were applied", _SHARD),
    Described("replica_apply_seconds", "counter", "what applying them took", _SHARD),
    Described("shard_snapshot_time_seconds", "gauge", "when the newest snapshot was made, in seconds since 1970; the holder tells", _SHARD),
    Described(
        "shard_snapshot_entries", "gauge", "messages behind the newest snapshot: what a new replica replays; the holder tells", _SHARD
    ),
    Described("node_snapshots", "counter", "snapshots of shards that this node has made"),
    Described("node_snapshot_failures", "counter", "snapshots that it could not make, or not store"),
    Described("node_restores", "counter", "replicas that it restored from a snapshot"),
    Described("node_restore_failures", "counter", "restores that failed; they are tried again"),
    Described("node_copies_thrown_away", "counter", "local copies that were made anew: cut off from the log, damaged, or ordered to"),
    Described("node_divergences", "counter", "copies that differed from the others, found by this node while it controls the cluster"),
    Described("node_log_gap_seconds", "gauge", "seconds since NATS last told how long the logs are"),
    Described("node_nats_server", "gauge", "whether a NATS server lives and has all of the registry, as its leader tells", ("server",)),
)
"""Of a node, beside those of a server."""

GATEWAY_METRICS = (
    Described("cluster_node_live", "gauge", "whether the gateway has heard of a node lately", ("node",)),
    Described("cluster_shards_unanswered", "gauge", "shards that no live node answers for"),
    Described("cluster_shards_lacking", "gauge", "shards with fewer replicas that answer than their collection is to have"),
    Described("cluster_shards_moving", "gauge", "shards that a replica joins or leaves"),
    Described("cluster_resharding", "gauge", "collections that are being cut into other shards"),
    Described("cluster_shard_replicas", "gauge", "replicas that answer", _SHARD),
    Described("cluster_divergence_time_seconds", "gauge", "when copies of a shard last differed, in seconds since 1970", _SHARD),
    Described("cluster_lag_messages", "gauge", "messages that a node's replicas are behind the first of their shard", ("node",)),
    Described("cluster_nats_connected", "gauge", "whether the gateway is connected to NATS: without, it reads and does not write"),
    Described("gateway_outstanding", "gauge", "requests that a node has not answered yet", ("address",)),
    Described(
        "gateway_shard_requests", "counter", "reads, and parts of writes, that a shard answered or the log acknowledged", (*_SHARD, "work")
    ),
    Described("gateway_shard_seconds", "counter", "what these took", (*_SHARD, "work")),
    Described("gateway_shard_failures", "counter", "those that nobody answered, or that were not acknowledged in time", (*_SHARD, "work")),
    Described(
        "gateway_gap_seconds",
        "gauge",
        "seconds since the first failure that no success has followed; 0 while requests succeed",
        (*_SHARD, "work"),
    ),
    Described("gateway_hedged", "counter", "second requests that were sent as the first were late"),
    Described("gateway_elsewhere", "counter", "requests that another replica was asked as one failed"),
    Described("gateway_timeouts", "counter", "requests to a shard that were given up when their time was over"),
    Described("gateway_shards_missing", "counter", "shards that reads lacked: refused with 503, or answered in part", ("outcome",)),
)
"""Of a gateway, beside those of a server. `work` is read or write."""

_MOST_SEEN = 512
_MINUTES = 300.0


class Lag:
    """How far a replica is behind its log, by looks at the log's end."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()
        """Time and end of the log, of looks at which it was longer than before; what is applied is forgotten."""

    def look(self, now: float, last: int, applied: int) -> None:
        """The log ended with `last` at a time. Beyond many looks with nothing applied the later ones are left out."""
        while self._seen and self._seen[0][1] <= applied:
            self._seen.popleft()
        if last > applied and (not self._seen or last > self._seen[-1][1]):
            if len(self._seen) < _MOST_SEEN:
                self._seen.append((now, last))
            else:
                self._seen[-1] = (self._seen[-1][0], last)

    def behind(self, now: float, applied: int) -> tuple[int, float]:
        """Messages of the log, as it was last seen, that are not applied; for how long it has held the first, since a look saw it.

        May be called in any thread.
        """
        waiting = [one for one in tuple(self._seen) if one[1] > applied]
        return (waiting[-1][1] - applied, max(0.0, now - waiting[0][0])) if waiting else (0, 0.0)


class Rate:
    """Seconds of work in a second: an exponential mean of five minutes."""

    def __init__(self) -> None:
        self.value = 0.0
        self._before: tuple[float, float] | None = None

    def look(self, now: float, worked: float) -> None:
        """So many seconds were worked in all until now. A sum that is less than before began anew, and counts from the next look on."""
        if self._before is not None and now > self._before[0]:
            passed = now - self._before[0]
            done = max(0.0, worked - self._before[1])
            self.value += (1.0 - math.exp(-passed / _MINUTES)) * (done / passed - self.value)
        self._before = (now, worked)


@dataclass(slots=True)
class ShardWork:
    """What one kind of work on one shard came to."""

    done: int = 0
    seconds: float = 0.0
    failed: int = 0
    bad: float | None = None
    """When it failed for the first time since it last succeeded; None: the last one succeeded."""

    def gap(self, now: float) -> float:
        """For how many seconds nothing has succeeded that was asked. Time before the first failure does not count: nobody asked."""
        return 0.0 if self.bad is None else max(0.0, now - self.bad)


class Worked:
    """What a gateway's requests to shards came to."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.by_shard: dict[tuple[str, int, str], ShardWork] = {}
        """By uid, shard, and "read" or "write"."""
        self.timeouts = 0
        self.missing: Counter[str] = Counter()
        """Shards that reads lacked, by outcome: "refused" or "partial"."""
        self._clock = clock

    def note(self, place: tuple[str, int], work: str, seconds: float, *, good: bool) -> None:
        """One request to a shard has ended."""
        one = self.by_shard.get((*place, work))
        if one is None:
            one = self.by_shard[*place, work] = ShardWork()
        if good:
            one.done += 1
            one.seconds += seconds
            one.bad = None
        else:
            one.failed += 1
            if one.bad is None:
                one.bad = self._clock()

    def told(self, uids: Iterable[str]) -> Iterator[tuple[tuple[str, int, str], ShardWork, float]]:
        """Of collections that are there: place and kind of work, what it came to, and its gap. What is gone is forgotten."""
        known, now = set(uids), self._clock()
        for key, one in list(self.by_shard.items()):
            if key[0] in known:
                yield key, one, one.gap(now)
            else:
                self.by_shard.pop(key, None)


class Families:
    """The families of a table of metrics, to be filled and then iterated."""

    def __init__(self, table: Iterable[Described]) -> None:
        self._made: dict[str, Any] = {}
        for one in table:
            kind = CounterMetricFamily if one.kind == "counter" else GaugeMetricFamily
            self._made[one.name] = kind(f"kinbin_{one.name}", one.text[0].upper() + one.text[1:], labels=one.labels)

    def add(self, name: str, labels: Iterable[object], value: float) -> None:
        """Add a sample."""
        self._made[name].add_metric([str(one) for one in labels], value)

    def __iter__(self) -> Iterator[Metric]:
        """The families."""
        return iter(self._made.values())
