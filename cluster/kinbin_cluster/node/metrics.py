"""A node's metrics beside those of a server: its replicas, and what it did for them. Computed when they are asked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from kinbin_cluster.measures import NODE_METRICS, Families
from kinbin_cluster.picture import Picture, Shard

if TYPE_CHECKING:
    from kinbin_cluster.node.replica import ShardReplica
    from kinbin_cluster.node.running import RunningNode

__all__ = ["NodeMetrics", "role_of"]


class NodeMetrics(Collector):
    """What `NODE_METRICS` names. `collect` may be called in any thread: it reads a moment of what the event loop changes."""

    def __init__(self, node: RunningNode, most: int) -> None:
        """most: collections whose replicas are told of, the first by name."""
        self._node = node
        self._most = most

    def collect(self) -> Iterable[Metric]:
        """The metrics of this moment."""
        made = Families(NODE_METRICS)
        picture = self._node.means.registry.picture
        names = {one.uid: name for name, one in list(picture.collections.items())}
        replicas = sorted(((names[uid], number), replica) for (uid, number), replica in list(self._node.replicas.items()) if uid in names)
        told = sorted({name for (name, _), _ in replicas})[: self._most]
        for place, replica in replicas:
            if place[0] in told:
                self._replica(made, place, replica, picture)
        for name in ("node_snapshots", "node_snapshot_failures", "node_restores", "node_restore_failures"):
            made.add(name, (), self._node.means.counts[name])
        for name in ("node_copies_thrown_away", "node_divergences"):
            made.add(name, (), self._node.means.counts[name])
        made.add("node_log_gap_seconds", (), self._node.watch.gap)
        for server, current in sorted(self._node.watch.servers.items()):
            made.add("node_nats_server", (server,), current)
        return made

    def _replica(self, made: Families, place: tuple[str, int], replica: ShardReplica, picture: Picture) -> None:
        told = replica.told()
        record = picture.shards.get((replica.uid, replica.shard), Shard(()))
        role = role_of(record, self._node.means.name)
        made.add("replica_state", (*place, told.state), 1)
        made.add("replica_role", (*place, role), 1)
        values = {
            "stuck": told.problem is not None, "lag_entries": told.lag, "lag_seconds": told.lag_seconds, "items": told.items,
            "bytes": told.bytes, "load": told.load, "reads": replica.reads, "read_seconds": replica.read_seconds,
        }  # fmt: skip
        if (applier := replica.applier) is not None:
            values |= {"entries": applier.entries, "apply_seconds": applier.seconds}
        for name, value in values.items():
            if value is not None:
                made.add(f"replica_{name}", place, value)
        snapshots = picture.snapshots.get((replica.uid, replica.shard))
        if role == "holder" and snapshots is not None and snapshots.newest:
            newest = snapshots.newest[0]
            made.add("shard_snapshot_time_seconds", place, newest.made)
            made.add("shard_snapshot_entries", place, max(0, told.applied + (told.lag or 0) - newest.sequence))


def role_of(record: Shard, node: str) -> str:
    """The part that a node has in a shard: holder, replica, joining or leaving."""
    if node in record.joining:
        return "joining"
    if node in record.leaving:
        return "leaving"
    return "holder" if record.holder == node else "replica"
