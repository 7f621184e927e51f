"""What is stored, for Prometheus: read when it is asked for, by whichever worker is asked, as all share the files."""

from __future__ import annotations

import contextlib
import logging
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

import kinbin
from kinbin_service.expiry import expiry_of
from kinbin_service.metrics import Described

__all__ = ["COLLECTION_METRICS", "Stored", "tell_losses"]

_SECONDS = 5.0
"""What was read is given again for so long: a look at a collection is some milliseconds."""

log = logging.getLogger("kinbin.service")

Value = Callable[[Mapping[str, Any]], float | None]


def _linked(stats: Mapping[str, Any]) -> float | None:
    """The share of living rows that links cover; None without rows."""
    links = stats.get("links")
    return min(1.0, (links["rows"] if links else 0) / stats["rows"]) if stats.get("rows") else None


_VALUES: tuple[tuple[Described, Value], ...] = (
    (Described("collection_items", "gauge", "items", ("collection", "field")), lambda stats: stats.get("count")),
    (Described("collection_rows", "gauge", "living rows: different vectors", ("collection", "field")), lambda stats: stats.get("rows")),
    (
        Described("collection_fresh_rows", "gauge", "rows that are not sealed into a run yet", ("collection", "field")),
        lambda stats: stats.get("fresh_rows"),
    ),
    (
        Described("collection_dead_rows", "gauge", "deleted or replaced rows that wait for a merge", ("collection", "field")),
        lambda stats: stats.get("dead_rows"),
    ),
    (
        Described("collection_runs", "gauge", "runs of the index", ("collection", "field")),
        lambda stats: len(stats["runs"]) if "runs" in stats else None,
    ),
    (Described("collection_linked_ratio", "gauge", "share of living rows that links cover", ("collection", "field")), _linked),
    (Described("collection_bytes", "gauge", "bytes on disk", ("collection", "field")), lambda stats: stats.get("bytes")),
    (Described("collection_commits", "counter", "commits ever made", ("collection", "field")), lambda stats: stats.get("commits")),
)
COLLECTION_METRICS = (
    *(one for one, _ in _VALUES),
    Described("collections", "gauge", "collections that are there"),
    Described("snapshot_time_seconds", "gauge", "when the newest snapshot was begun, in seconds since 1970", ("collection",)),
    Described("disk_free_bytes", "gauge", "bytes that the server may still write, where collections and where snapshots lie", ("place",)),
    Described("certificate_expires_seconds", "gauge", "end of the TLS certificate in its file, in seconds since 1970; absent without TLS"),
    Described(
        "collections_damaged",
        "gauge",
        "collections that a look at what they count finds damaged, or without their files",
    ),
    Described("collections_unread", "gauge", "collections that could not be read, or are more than are told of"),
)
"""What is told of the first collections by name, and of the server. `field` is empty but where items have several vectors."""
_BY_NAME = {one.name: one for one in COLLECTION_METRICS}


class Stored(Collector):
    """What is stored in a database. `collect` blocks for as long as reading the collections takes: no work for an event loop."""

    def __init__(self, database: kinbin.Database, most: int, certificate: Path | None = None) -> None:
        """most: collections that are told of by name. certificate: the file of what the server shows."""
        self._database = database
        self._most = most
        self._certificate = certificate
        self._read: list[Metric] = []
        self._read_at = -_SECONDS

    def collect(self) -> Iterable[Metric]:
        """The metrics, at most some seconds old."""
        if time.monotonic() - self._read_at >= _SECONDS:
            self._read = self._look()
            self._read_at = time.monotonic()
        return self._read

    def _look(self) -> list[Metric]:
        names = self._database.collections()
        families = [_family(one) for one, _ in _VALUES]
        unread, damaged = max(0, len(names) - self._most), tell_losses(self._database)
        for name in names[: self._most]:
            try:
                stats = self._database.collection(name).stats()
            except kinbin.CollectionNotFound:
                continue
            except (kinbin.KinbinError, OSError) as error:
                unread += 1
                if isinstance(error, kinbin.CorruptData):
                    damaged.add(name)
                log.warning("no metrics of a collection", extra={"fields": {"collection": name, "reason": type(error).__name__}})
                continue
            for field, told in _told(stats):
                for (_, value), family in zip(_VALUES, families, strict=True):
                    number = value(told)
                    if number is not None:
                        family.add_metric([name, field], number)
        counts = {"collections": len(names), "collections_unread": unread, "collections_damaged": len(damaged)}
        numbers = [_number(name, count) for name, count in counts.items()]
        return [*families, *numbers, self._snapshots(names[: self._most]), self._disks(), self._expiry()]

    def _snapshots(self, names: list[str]) -> Metric:
        """The newest snapshot of each collection that has one."""
        family = _family(_BY_NAME["snapshot_time_seconds"])
        for name in names:
            with contextlib.suppress(kinbin.KinbinError, ValueError):
                newest = self._database.snapshots.newest(name)
                if newest is not None:
                    family.add_metric([name], newest.timestamp())
        return family

    def _disks(self) -> Metric:
        """Room on the disks; snapshots may lie on another one, whose directory is made by the first of them."""
        family = _family(_BY_NAME["disk_free_bytes"])
        for place, path in (("collections", self._database.path), ("snapshots", self._database.snapshots.folder)):
            there = next(one for one in (path, *path.absolute().parents) if one.exists())
            with contextlib.suppress(OSError):
                family.add_metric([place], shutil.disk_usage(there).free)
        return family

    def _expiry(self) -> Metric:
        ends = None if self._certificate is None else expiry_of(self._certificate)
        return _family(_BY_NAME["certificate_expires_seconds"]) if ends is None else _number("certificate_expires_seconds", ends)


def tell_losses(database: kinbin.Database) -> set[str]:
    """Log which collections are open here and have lost their files. Returns their names."""
    lost = database.losses()
    for name, told in lost.items():
        log.error("the files of a collection are lost", extra={"fields": {"collection": name, "reason": told}})
    return set(lost)


def _told(stats: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """The statistics of a collection; where it has fields, what its items are, and what each field adds."""
    fields = stats.get("fields")
    if not isinstance(fields, Mapping):
        return (("", stats),)
    of_items = ("count", "commits")
    own = {name: stats[name] for name in of_items}
    return (("", own), *((name, {key: told for key, told in field.items() if key not in of_items}) for name, field in fields.items()))


def _family(one: Described) -> GaugeMetricFamily | CounterMetricFamily:
    family = CounterMetricFamily if one.kind == "counter" else GaugeMetricFamily
    return family(f"kinbin_{one.name}", one.text[0].upper() + one.text[1:], labels=one.labels)


def _number(name: str, value: float) -> Metric:
    family = _family(_BY_NAME[name])
    family.add_metric([], value)
    return family
