"""A collection as answers tell it: its configuration, how it lies in the cluster, and how many items it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import kinbin
from kinbin_cluster.gateway.verdicts import counts_of
from kinbin_cluster.picture import Collection

__all__ = ["configuration", "describe", "together"]

_SECONDS = 2.0
_OF_ONE = ("kernel", "parameters", "dim", "sampler", "bands", "rows")
_ALIKE = ("items", "kernel", "parameters", "dim", "sampler", "bands", "rows_per_band")
"""What `stats` of every shard has alike."""
_SUMS = ("count", "rows", "fresh_rows", "dead_rows", "bytes")
"""Numbers of `stats` that are added up."""


def configuration(schema: kinbin.Schema, collection: Collection) -> dict[str, Any]:
    """Name, configuration and shards. The seed stays secret."""
    told = {name: _of_one(one) for name, one in schema.config.items()}
    if schema.has_fields:
        config = dict.fromkeys(_OF_ONE) | {"items": "vectors", "fields": told}
    else:
        config = {"items": schema.config[""].items, **told[""]}
    return {"name": collection.name, **config, "cluster": {"shards": collection.shards, "replicas": collection.replicas}}


def _of_one(config: kinbin.CollectionConfig) -> dict[str, Any]:
    """Of the whole, or of a field, what a server tells."""
    told = {part: getattr(config, part) for part in _OF_ONE}
    names = {str(feature): name for feature, name in config.feature_names.items()}
    return told | {"feature_names": names} if names else told


async def describe(service: Any, collection: Collection) -> dict[str, Any]:
    """The answer of PUT. `count` is None where a shard does not tell."""
    counts = await counts_of((service.picture, service.fanout), collection.uid, range(collection.shards), _SECONDS)
    known = [count for count in counts if count is not None]
    count = sum(known) if len(known) == collection.shards else None
    return {**configuration(service.schemas.of(collection), collection), "count": count, "stats": {}}


def together(by_shard: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """The `stats` of shards as one: configuration, sums, indexes, runs with the number of their shard, and the same of each field.

    Left out is what is of one index: links, pools, ways, what failed in the background.
    """
    parts = list(by_shard.values())
    told = {key: parts[0][key] for key in _ALIKE if parts and key in parts[0]}
    told |= {key: sum(part[key] for part in parts) for key in _SUMS if all(key in part for part in parts)}
    if parts and all("indexes" in part for part in parts):
        told["indexes"] = _indexes([part["indexes"] for part in parts])
    if all("fields" in part for part in parts):
        fields = parts[0]["fields"] if parts else ()
        return told | {"fields": {name: together({shard: one["fields"][name] for shard, one in by_shard.items()}) for name in fields}}
    return told | {"runs": [{"shard": shard, **run} for shard, part in by_shard.items() for run in part["runs"]]}


def _indexes(told: Sequence[Mapping[str, Any] | None]) -> dict[str, Any] | None:
    """Payload indexes of shards as those of one: ready once they are in every shard. None: none is declared."""
    known = [one for one in told if one is not None]
    if not known:
        return None
    fields = {name: kind for one in known for name, kind in one["fields"].items()}
    ready = {name: len(known) == len(told) and all(one["fields"].get(name, {}).get("ready") for one in known) for name in fields}
    return {
        "fields": {name: {"kind": one["kind"], "ready": ready[name]} for name, one in fields.items()},
        "ready": all(ready.values()),
        "progress": min(one["progress"] for one in known),
        "behind": sum(one["behind"] for one in known),
        "bytes": sum(one["bytes"] for one in known),
    }
