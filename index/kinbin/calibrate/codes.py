"""Costs of codes: scanning them, and walking links."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kinbin.calibrate.fit import Measured
from kinbin.calibrate.stage import answers_for, random_rows, rows_of, segments_of
from kinbin.codes.coder import Coder
from kinbin.codes.folded import LANES
from kinbin.codes.nodes import GRAPH
from kinbin.codes.table import Codes
from kinbin.links.graph import ENTRIES, LINKS, Graph
from kinbin.links.search import GONE, PROBES, room_for, scan_codes, search_links
from kinbin.links.widths import Width
from kinbin.rows.asked import queries_record
from kinbin.rows.rows import Rows
from kinbin.rows.scratch import Scratch
from kinbin.spaces.registry import kernel_named

__all__ = ["code_costs", "entry_cost", "far_line_cost", "walk_costs"]

_SCANS, _WALKS = 64, 256
"""Queries."""
_SCANNED, _WALKED, _FAR = 16_384, 20_000, 131_072
"""Nodes. Those that are far have 32 to 128 MiB of codes."""
_BUCKETS = 64


class _Coded:
    """A graph over rows that are gone, so that none is scored, and queries against it."""

    def __init__(self, graph: Graph, coder: Coder, errors: NDArray[np.float32], queries: Rows, kernel: str = "ngmm") -> None:
        self._places = np.full(len(graph.codes), GONE, np.uint32)
        self._keep: list[object] = [queries, graph, coder, errors]
        self._graph = graph.record(self._keep)
        GRAPH.fill(self._graph, **coder.fields(), errors=errors, places=self._places)
        self._segments = segments_of()
        self._space, self._queries, self._coder = kernel_named(kernel).record, queries, coder
        self._asked, self._answers = queries_record(queries), answers_for(queries)
        self._scratch = Scratch(wide=False)

    def scan(self) -> Callable[[], object]:
        """Scans by codes in which every code is too far."""
        codes, errors = self._coder.probes(self._queries)
        room = room_for(len(errors))
        probes = PROBES.record(codes=codes, errors=errors, room=room)
        self._keep += [codes, errors, room]
        self._asked["least"] = 1.0
        table = self._scratch.table_for(self._coder.layout)
        return lambda: scan_codes(
            self._space, self._segments, self._graph, probes, self._asked, self._scratch.record, table, self._answers.record
        )

    def walk(self, pool: int) -> Callable[[], int]:
        """Walks with such a pool. Returns how many nodes they compare."""
        beam, answers = Width(pool, reaches=False).beam, self._answers

        def walk() -> int:
            answers.forget()
            # Another pool may have taken larger work space since.
            table = self._scratch.walk(len(self._places), 512, self._coder.layout)
            search_links(self._space, self._segments, self._graph, beam, self._asked, self._scratch.record, table, answers.record)
            return int(answers.candidates.sum())

        return walk


def _coder(width: int, step: float) -> Coder:
    """Codes of bytes in which each of the first features has its own."""
    return Coder(width, False, np.arange(_BUCKETS, dtype=np.uint16), step, 0.0, 1.0)


def _scattered(n: int, seed: int) -> Rows:
    """Rows without crowds: walks meet some 20 nodes for each of their pool, as those over photographs do."""
    values = (np.random.default_rng(seed).gamma(0.5, size=(n, _BUCKETS)) + 1e-3).astype(np.float32)
    return rows_of(np.tile(np.arange(_BUCKETS, dtype=np.uint64), (n, 1)), values)


def _random_graph(nodes: int, width: int, *, shapes: bool = True) -> Graph:
    """Random codes, linked at random: walks meet nodes that lie anywhere in memory."""
    rng = np.random.default_rng(width)
    codes = Codes.of_bytes(rng.integers(0, 256, (nodes, width), dtype=np.uint8))
    graph = Graph.empty(codes, np.ones(1 if shapes else nodes, np.float32), 1e-3, shapes=shapes)
    graph.links[:, 0] = LINKS
    graph.links[:, 1 : 1 + LINKS] = rng.integers(0, nodes, (nodes, LINKS))
    graph.entries = rng.integers(0, nodes, ENTRIES, dtype=np.uint32)
    return graph


def _unlinked(nodes: int, width: int, queries: Rows, kernel: str = "ngmm") -> _Coded:
    graph = _random_graph(nodes, width, shapes=kernel_named(kernel).shapes)
    return _Coded(graph, _coder(width, 1e-3), np.zeros(nodes, np.float32), queries, kernel)


def code_costs(measured: Measured) -> None:
    """code, scan_line: exact scans by codes of several widths. line: the same under a product, whose codes are compared one by one."""
    n, widths = measured.rows(_SCANNED), (64, 192, 512, 1024)
    for kernel, names in (("ngmm", ("code", "scan_line")), ("gmm*acos", ("", "line"))):
        points = [_unlinked(n, width, _scattered(_SCANS, 2), kernel).scan() for width in widths]
        measured.fit(names, points, [(_SCANS * n, _SCANS * n * width / LANES) for width in widths])


def entry_cost(measured: Measured) -> None:
    """entry: exact scans by packed codes, by their entries."""
    n, sizes = measured.rows(_SCANNED), (16, 48, 128)
    coder, points = Coder(0, True, np.empty(0, np.uint16), 2.0**-20, 0.0, 1.0), []
    for z in sizes:
        codes, errors = coder.encode(random_rows(n, z, 1 << 40))
        graph = Graph.empty(codes, np.ones(1, np.float32), coder.step, shapes=True)
        points.append(_Coded(graph, coder, errors, random_rows(_SCANS, 32, 1 << 40)).scan())
    measured.fit(("", "entry"), points, [(_SCANS * n, _SCANS * n * z) for z in sizes])


def walk_costs(measured: Measured) -> None:
    """node: walks by the nodes they compare, less comparing; no row is scored. walk: walks that find no link."""
    rows = _scattered(measured.rows(_WALKED), 1)
    largest = float((rows.values.reshape(len(rows), -1) / rows.norms[:, None]).max())
    coder = _coder(_BUCKETS, largest / 255)
    codes, errors = coder.encode(rows)
    graph = Graph.empty(codes, np.ones(1, np.float32), coder.step, shapes=True)
    graph.insert(np.arange(len(rows)), lambda _: True)
    queries = _scattered(_WALKS, 2)
    coded = _Coded(graph, coder, errors, queries)
    points = [coded.walk(pool) for pool in (10, 20, 40, 80, 160)]
    measured.fit(("", "node"), points, [(_WALKS, point()) for point in points], less=lambda known: (0.0, known["line"]))
    # What fits leave at no node is the difference of large numbers: a walk that finds no link is measured by itself.
    alone = _Coded(replace(graph, links=np.zeros_like(graph.links)), coder, errors, queries)
    measured.fit(("walk",), [alone.walk(10)], [(_WALKS,)])


def far_line_cost(measured: Measured) -> None:
    """far_line: walks over more codes than caches hold, by the bytes of a code."""
    n, widths = measured.rows(_FAR), (256, 512, 1024)
    points = [_unlinked(n, width, _scattered(_WALKS, 2)).walk(64) for width in widths]
    counts = [(met, met * width / LANES) for width, met in zip(widths, [point() for point in points], strict=True)]
    measured.fit(("", "far_line"), points, counts)
