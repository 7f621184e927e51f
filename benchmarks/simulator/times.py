"""What was measured on one machine (`capacity.py measure`), asked for any number of rows.

Between two measured sizes times and bytes are straight lines in logarithms; beyond them they grow as over all sizes, and never get less.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulator.draws import Draw, of_quantiles
from simulator.events import Cold
from simulator.serving import Client, Handling

__all__ = ["Times", "between"]


def between(points: Sequence[tuple[float, float]], at: float) -> float:
    """The value at a place, of points (place, value) that ascend in place; all of them above 0."""
    if len(points) < 2:
        raise ValueError("two measured sizes at least")
    logs = [(math.log(x), math.log(y)) for x, y in points]
    place = math.log(at)
    pair = next((i for i in range(1, len(points)) if points[i - 1][0] <= at <= points[i][0]), 0)
    if pair:
        (x, y), (to, value) = logs[pair - 1], logs[pair]
        return math.exp(y + (value - y) * (place - x) / (to - x))
    # One noisy size would lead far astray: the slope is that of least squares.
    middle, mean = (sum(values) / len(logs) for values in zip(*logs, strict=True))
    slope = sum((x - middle) * (y - mean) for x, y in logs) / sum((x - middle) ** 2 for x, _ in logs)
    x, y = logs[-1] if at > points[-1][0] else logs[0]
    return math.exp(y + max(0.0, slope) * (place - x))


CROWD = 131_072
"""Rows from which on walks of building are wider."""


def _logarithms(first: float, last: float) -> float:
    """The sum of log n over a range."""
    return (last * math.log(last) - last) - (first * math.log(first) - first)


@dataclass(frozen=True, slots=True)
class Times:
    """Service times, and bytes."""

    measured: Mapping[str, Any]

    @classmethod
    def read(cls, file: Path) -> Times:
        """Those of a saved result."""
        return cls(json.loads(file.read_text(encoding="utf-8"))["result"])

    def of_rows(self, what: str, rows: float) -> float:
        """A figure of a collection of so many rows: seconds of building it, bytes."""
        return between([(size["rows"], size[what]) for size in self._sizes], rows)

    def files(self, who: str, rows: float) -> float:
        """Bytes of the file of a collection of so many rows that "server" or "node" holds, filled at full rate.

        A client gives a server 10,000 rows at once, which leave hardly any free pages. A node writes what a message of the log holds, some
        hundreds of rows, which leaves as many as where a collection was built in process, 5,000 at a time.
        """
        return self.of_rows("file" if who == "node" else "live", rows)

    def log(self, rows: float) -> float:
        """Bytes of a shard's log of so many rows, on all servers: NATS keeps the newest messages twice, so the first take more."""
        return between([(count, size) for count, size in self.measured["log"]["sizes"]], rows)

    def merging(self, rows: float) -> float:
        """Seconds of processor a row that merges take beyond what they take in a collection of `base` rows."""
        base = self.figure("base")
        return max(0.0, self.of_rows("filled", rows) / rows - self.of_rows("filled", base) / base)

    def linking(self, rows: float) -> float:
        """Seconds of linking so many rows, with one thread.

        Rows beyond 131,072 take more than those before (`kinbin.links`), each as much as another, but for the logarithm of their number.
        So the largest measured size tells what they take, and the second largest, which has none, what the others take.
        """
        below, last = self._sizes[-2], self._sizes[-1]
        if rows <= CROWD:
            return between([(size["rows"], size["linking"]) for size in self._sizes[:-1]], rows)
        before = below["linking"] * CROWD / below["rows"]
        each = (last["linking"] - before) / _logarithms(CROWD, last["rows"])
        return float(before + each * _logarithms(CROWD, rows))

    def engine(self, rows: float, mode: str = "auto") -> Draw:
        """Seconds of a search in a collection of so many rows."""
        tables = [(size["rows"], size["engine"][mode]) for size in self._sizes]
        count = len(tables[0][1])
        found = [between([(size, table[i]) for size, table in tables], rows) for i in range(count)]
        # Lines of neighbouring quantiles may cross beyond what was measured.
        return of_quantiles(sorted(found))

    @property
    def _sizes(self) -> list[Mapping[str, Any]]:
        return list(self.measured["sizes"])

    @property
    def nonzeros(self) -> float:
        """Of a row, in the mean."""
        return float(self.measured["nonzeros"])

    def server(self) -> Handling:
        """The processor of one server besides the engine."""
        return _handling(self.measured["server"])

    def gateway(self) -> Handling:
        """That of a gateway, for itself and for each shard."""
        return _handling(self.measured["gateway"])

    def node(self) -> Handling:
        """That of a node besides the engine."""
        return _handling(self.measured["node"])

    def client(self, who: str, *, elsewhere: bool = False) -> Client:
        """Who asks one server ("server"), or a gateway ("gateway")."""
        part = self.measured[who]
        return Client(part["client"], part["wire"], elsewhere, _cold(part["client_cold"]))

    @property
    def hop(self) -> float:
        """Seconds from a gateway to a node and back that nobody works."""
        return float(self.measured["node"]["wire"])

    def figure(self, *path: str) -> float:
        """Any other figure, by its names from the outside in."""
        found: Any = self.measured
        for name in path:
            found = found[name]
        return float(found)


def _handling(part: Mapping[str, Any]) -> Handling:
    return Handling(part["seconds"], part.get("each_shard", 0.0), of_quantiles(part["spread"]), part["crowded"], _cold(part["cold"]))


def _cold(points: Sequence[Sequence[float]]) -> Cold:
    return Cold(tuple((share, times) for share, times in points))
