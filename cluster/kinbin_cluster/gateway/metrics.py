"""A gateway's metrics beside those of a server: what it knows of its cluster, and what its requests to shards came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from kinbin_cluster.gateway.service import Gateway
from kinbin_cluster.measures import GATEWAY_METRICS, Families
from kinbin_cluster.overview import Shape, reshards, shapes

__all__ = ["GatewayMetrics"]


class GatewayMetrics(Collector):
    """What `GATEWAY_METRICS` names. `collect` may be called in any thread: it reads a moment of what the event loop changes."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def collect(self) -> Iterable[Metric]:
        """The metrics of this moment."""
        made = Families(GATEWAY_METRICS)
        picture = self._gateway.picture
        names = {one.uid: name for name, one in list(picture.collections.items())}
        told = set(sorted(names.values())[: self._gateway.settings.metrics_collections])
        for name in sorted(picture.nodes):
            made.add("cluster_node_live", (name,), picture.is_live(name))
        every = shapes(picture)
        self._cluster(made, every)
        for shape in every:
            place = (shape.collection.name, shape.number)
            if shape.collection.name in told:
                made.add("cluster_shard_replicas", place, len(shape.answering))
        for name, job in list(picture.jobs.items()):
            kind, _, place_told = name.partition(".")
            uid, _, number = place_told.partition(".")
            if kind == "divergence" and names.get(uid) in told:
                made.add("cluster_divergence_time_seconds", (names[uid], number), float(job["at"]))
        self._requests(made, names, told)
        return made

    def _cluster(self, made: Families, every: list[Shape]) -> None:
        """What is told of the cluster as a whole, and of its nodes."""
        picture = self._gateway.picture
        made.add("cluster_shards_unanswered", (), sum(not shape.answering for shape in every))
        made.add("cluster_shards_lacking", (), sum(shape.lacks > 0 for shape in every))
        made.add("cluster_shards_moving", (), sum(shape.moves for shape in every))
        made.add("cluster_resharding", (), len(reshards(picture)))
        behind: Counter[str] = Counter()
        for shape in every:
            applied = picture.applied(shape.collection.uid, shape.number)
            for node, sequence in applied.items():
                behind[node] += max(applied.values()) - sequence
        for node, count in sorted(behind.items()):
            made.add("cluster_lag_messages", (node,), count)
        if self._gateway.connection is not None:
            made.add("cluster_nats_connected", (), self._gateway.connection.connected)

    def _requests(self, made: Families, names: dict[str, str], told: set[str]) -> None:
        """What requests to nodes and to the log came to."""
        fanout = self._gateway.fanout
        for address, count in sorted(fanout.outstanding().items()):
            made.add("gateway_outstanding", (address,), count)
        for (uid, shard, work), one, gap in fanout.work.told(names):
            if names[uid] not in told:
                continue
            labels = (names[uid], shard, work)
            made.add("gateway_shard_requests", labels, one.done)
            made.add("gateway_shard_seconds", labels, one.seconds)
            made.add("gateway_shard_failures", labels, one.failed)
            made.add("gateway_gap_seconds", labels, gap)
        made.add("gateway_hedged", (), fanout.hedged)
        made.add("gateway_elsewhere", (), fanout.elsewhere)
        made.add("gateway_timeouts", (), fanout.work.timeouts)
        for outcome in ("refused", "partial"):
            made.add("gateway_shards_missing", (outcome,), fanout.work.missing[outcome])
