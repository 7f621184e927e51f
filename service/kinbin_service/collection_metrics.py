"""What is stored, for Prometheus: read when it is asked for, by whichever worker is asked, as all share the files."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

import kinbin
from kinbin_service.metrics import Described

__all__ = ["COLLECTION_METRICS", "Stored"]

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
    Described("collections_unread", "gauge", "collections that could not be read, or are more than are told of"),
)
"""What is told of the first collections by name. `field` is empty but where items have several vectors."""


class Stored(Collector):
    """What is stored in a database. `collect` blocks for as long as reading the collections takes: no work for an event loop."""

    def __init__(self, database: kinbin.Database, most: int) -> None:
        self._database = database
        self._most = most
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
        unread = max(0, len(names) - self._most)
        for name in names[: self._most]:
            try:
                stats = self._database.collection(name).stats()
            except kinbin.CollectionNotFound:
                continue
            except (kinbin.KinbinError, OSError) as error:
                unread += 1
                log.warning("no metrics of a collection", extra={"fields": {"collection": name, "reason": type(error).__name__}})
                continue
            for field, told in _told(stats):
                for (_, value), family in zip(_VALUES, families, strict=True):
                    number = value(told)
                    if number is not None:
                        family.add_metric([name, field], number)
        return [*families, _number("collections", len(names)), _number("collections_unread", unread)]


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
    described = next(one for one in COLLECTION_METRICS if one.name == name)
    family = _family(described)
    family.add_metric([], value)
    return family
