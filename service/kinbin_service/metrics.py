"""What a server measures of itself, in the form that Prometheus reads.

1. Every metric stands in the table METRICS; documents and tests are made from it.
2. Labels are names from short lists (routes, statuses, codes, ways of answering) and collections: never ids, keys, addresses or texts.
3. Several workers share a folder of small files (`shared_folder`), so that any of them answers for all. What a worker holds just now
   goes with it; what it counted stays.
4. Any thread may count. Nothing here reads what is stored: `collection_metrics` does, when somebody asks.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

__all__ = ["CONTENT_TYPE", "METRICS", "Described", "Metrics", "shared_folder"]

CONTENT_TYPE = prometheus_client.CONTENT_TYPE_PLAIN_0_0_4
FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""Read by prometheus_client when a worker imports it."""

# When a count began, as a metric of its own beside each: nobody asks for it.
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]

_REQUEST_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
_COMMIT_SECONDS = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)


@dataclass(frozen=True, slots=True)
class Described:
    """A metric: its name without the prefix kinbin_, what kind it is, what it says, and its labels."""

    name: str
    kind: str
    """counter (its samples end in _total), gauge or histogram."""
    text: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


METRICS = (
    Described("requests", "counter", "requests, by status; 499: the client had left", ("method", "route", "status")),
    Described("request_seconds", "histogram", "from the head of a request to its answer", ("method", "route"), _REQUEST_SECONDS),
    Described("refusals", "counter", "requests that were answered with an error, by its code", ("code",)),
    Described("answers", "counter", "answers of queries, by how they were found and what their recall is certain of", ("mode", "bound")),
    Described("commit_seconds", "histogram", "from the end of a transaction's work until it is on disk", (), _COMMIT_SECONDS),
    Described("background_failures", "counter", "failures of sealing and merging (upkeep), and of linking (links)", ("work",)),
    Described("background_failing", "gauge", "collections, once for each worker, whose work failed when it was last tried", ("work",)),
    Described("workers_ready", "gauge", "workers that take requests"),
    Described("requests_waiting", "gauge", "requests that wait for a thread"),
    Described("requests_running", "gauge", "library calls that run"),
    Described("body_bytes", "gauge", "bytes of bodies that are being received or worked on"),
    Described("connections", "gauge", "open connections"),
    Described("connections_closed", "counter", "connections refused or given up, by the code that they were told", ("code",)),
    Described("resident_bytes", "gauge", "memory of the workers, with what of the mapped files is in memory"),
)
"""What every worker measures."""


class Reports(Protocol):
    """What is sampled of a running service."""

    def measures(self) -> Mapping[str, float]:
        """Values of gauges without labels."""

    def failures(self) -> Mapping[str, Mapping[str, Any]]:
        """Of each collection, the reports of its background work."""

    def closed(self) -> Mapping[str, int]:
        """Connections that were closed so far, by code."""


class Metrics:
    """The metrics of one worker; with a shared folder, those of all when they are asked for."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._made = {one.name: _make(one, self._registry) for one in METRICS}
        self._failures: Tally[str] = Tally()
        self._closed: Tally[str] = Tally()
        self._folder = os.environ.get(FOLDER_VARIABLE)

    def request(self, method: str, route: str | None, status: int, seconds: float) -> None:
        """Count a request. route: as the table of routes has it; None: no route was found, whatever the method was."""
        if route is None:
            method = route = "other"
        self._made["requests"].labels(method, route, str(status)).inc()
        self._made["request_seconds"].labels(method, route).observe(seconds)

    def refused(self, code: str) -> None:
        """Count an answer that is an error."""
        self._made["refusals"].labels(code).inc()

    def answered(self, content: Mapping[str, Any]) -> None:
        """Count what a query was answered with: the content of one answer, or of many."""
        if "counts" in content:
            bounded = np.isfinite(content["recall_lower_bounds"]).tolist()
            told: Iterable[tuple[str, bool, str | None]] = zip(content["modes"], bounded, content["no_bounds"], strict=True)
        else:
            answers = content.get("answers", (content,))
            told = ((answer["mode"], answer["recall_lower_bound"] is not None, answer.get("no_bound")) for answer in answers)
        tally = Tally((mode, "certified" if has_bound else str(no_bound)) for mode, has_bound, no_bound in told)
        for (mode, bound), number in tally.items():
            self._made["answers"].labels(mode, bound).inc(number)

    def committed(self, seconds: float) -> None:
        """Count a commit (in the thread that made it)."""
        self._made["commit_seconds"].observe(seconds)

    def sample(self, service: Reports) -> None:
        """Note what the worker holds just now, and failures since the last look."""
        for name, value in service.measures().items():
            self._made[name].set(value)
        self._made["resident_bytes"].set(_resident_bytes())
        for code, number in service.closed().items():
            self._made["connections_closed"].labels(code).inc(number - self._closed[code])
            self._closed[code] = number
        failures, failing = Tally[str](), Tally[str]()
        for report in service.failures().values():
            for name, told in report.items():
                # Of a collection with fields the names are those of work and field.
                work = name.split(" ")[0]
                failures[work] += told["failures"]
                failing[work] += bool(told["in_a_row"])
        for work, number in failures.items():
            # A collection that was dropped takes its count with it.
            self._made["background_failures"].labels(work).inc(max(0, number - self._failures[work]))
            self._made["background_failing"].labels(work).set(failing[work])
        self._failures = failures

    def text(self, *collectors: Collector) -> bytes:
        """All metrics, those of other workers included, and what further collectors give, in Prometheus' text format."""
        registry = self._registry
        if self._folder is not None:
            _forget_the_dead(Path(self._folder))
            registry = CollectorRegistry()
            MultiProcessCollector(registry, path=self._folder)  # type: ignore[no-untyped-call]  # it registers itself
        parts = [generate_latest(registry)]
        for collector in collectors:
            own = CollectorRegistry()
            own.register(collector)
            parts.append(generate_latest(own))
        return b"".join(parts)


def _make(one: Described, registry: CollectorRegistry) -> Any:
    name, text = f"kinbin_{one.name}", one.text[0].upper() + one.text[1:]
    if one.kind == "histogram":
        return Histogram(name, text, one.labels, registry=registry, buckets=one.buckets)
    if one.kind == "gauge":
        return Gauge(name, text, one.labels, registry=registry, multiprocess_mode="livesum")
    return Counter(name, text, one.labels, registry=registry)


def _resident_bytes() -> int:
    """Resident memory of this process; 0 where the system does not tell it this way."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _forget_the_dead(folder: Path) -> None:
    """Take what workers hold that are there no more out of the sums."""
    for path in folder.glob("gauge_live*.db"):
        found = re.search(r"_(\d+)\.db$", path.name)
        if found and not _is_alive(int(found[1])):
            mark_process_dead(int(found[1]), str(folder))  # type: ignore[no-untyped-call]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@contextmanager
def shared_folder() -> Iterator[None]:
    """For the block, a folder that workers which are started in it share."""
    with tempfile.TemporaryDirectory(prefix="kinbin-metrics-") as folder:
        os.environ[FOLDER_VARIABLE] = folder
        try:
            yield
        finally:
            os.environ.pop(FOLDER_VARIABLE, None)
