"""Nodes as kernels see them: where the code of each lies, and how far it is from a *probe*.

A probe is what nodes are compared with: the address of a code of bytes, or, where codes are packed, of a table in which one row
is laid out (`packed`). Kernels are handed a table (`rows.scratch.Table`): the one of packed codes (clear, and left clear), None
where codes are bytes that are compared in L1, one of two dimensions where they are projections that are compared in L2. By its type
they are compiled once for each layout, with no branch in their loops (which is decided for arguments only: hence the functions that
are handed a probe's table). What differs is here; walks, pruning and scans do not know.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kinbin.codes.folded import CODER, LANES, code_distance, coding_by, encode_row, rank_of
from kinbin.codes.packed import (
    QUAD,
    clear_entries,
    clear_slots,
    entry_distance,
    entry_square_distance,
    fill_entries,
    fill_slots,
    packing_by,
)
from kinbin.codes.units import encode_unit, projecting_by, square_distance
from kinbin.native.eights import EIGHT, near_by_differences, near_by_squares
from kinbin.native.jit import inline
from kinbin.native.memory import f32_array, float32_at, prefetch, u32_at, u64_at
from kinbin.native.records import Layout
from kinbin.rows.scratch import coding_of

__all__ = [
    "GRAPH", "Nodes", "Probe", "clear_probe", "code_address", "distance_to", "fill_probe", "length_of", "near_eight",
    "node_norm", "nodes_of", "placed_probe", "prefetch_code", "probe_node", "rank_at", "release_probe",
]  # fmt: skip

U64 = np.uint64
GRAPH = Layout(
    "GRAPH",
    shapes=("count", "whether nodes are ranked by the distance of their codes alone"),
    # How queries are coded.
    **CODER.fields,
    nodes=("count", "nodes that may be named"),
    code_shift=("bits", "a block holds the codes of 2**code_shift nodes"),
    codes=("u64[]", "address of each block of codes"),
    code_quads=("u64[]", "quads of each block of packed codes"),
    code_offsets=("u32[]", "quad of each node's packed code in its block"),
    code_lines=("count", "cache lines of a code, in the mean"),
    stride=("bits", "words of a node's place in the one block of links (graphs in arrays); 0: see offsets"),
    offsets=("u32[]", "word of each node's links in its block"),
    link_shift=("bits", "a block holds the links of 2**link_shift nodes"),
    links=("u64[]", "address of each block of links"),
    link_words=("u64[]", "words of each block of links"),
    norms=("f32[]", "norm of each node, where not only shapes count"),
    entries=("u32[]", "nodes that walks begin from"),
    entry_count=("count", ""),
    errors=("f32[]", "of each node's code"),
    places=("u32[]", "rows of the runs before a node's row, plus its local row (graphs over stored rows)"),
)
_FARTHEST = np.uint32(0xFFFFFFFF)


class Nodes(NamedTuple):
    """A graph as compiled code sees it: the fields of `GRAPH`, read once, and not again for every node."""

    shapes: Any
    width: Any
    step: Any
    offset: Any
    hashed: Any
    buckets: Any
    slots: Any
    units: Any
    roots: Any
    matrix: Any
    known: Any
    known_count: Any
    nodes: Any
    code_shift: Any
    codes: Any
    code_quads: Any
    code_offsets: Any
    code_lines: Any
    stride: Any
    offsets: Any
    link_shift: Any
    links: Any
    link_words: Any
    norms: Any
    entries: Any
    entry_count: Any
    errors: Any
    places: Any


class Probe(NamedTuple):
    """What nodes are compared with."""

    address: Any
    table: Any
    norm: Any
    """Of the row: float32."""


@inline
def nodes_of(record):
    """The graph of a record."""
    return Nodes(
        record.shapes, record.width, record.step, record.offset, record.hashed, record.buckets, record.slots,
        record.units, record.roots, record.matrix, record.known, record.known_count,
        record.nodes, record.code_shift, record.codes, record.code_quads, record.code_offsets, record.code_lines,
        record.stride, record.offsets, record.link_shift, record.links, record.link_words, record.norms, record.entries,
        record.entry_count, record.errors, record.places,
    )  # fmt: skip


@inline
def code_address(graph, node):
    """Where a node's code of bytes lies."""
    shift = graph.code_shift
    block = U64(node) >> shift
    return u64_at(graph.codes + U64(8) * block) + (U64(node) - (block << shift)) * U64(graph.width)


@inline
def _packed_address(graph, node):
    """Where a node's packed code lies, and how many quads it has; 0 if the stored numbers are out of bounds."""
    block = U64(node) >> graph.code_shift
    place = np.int64(u32_at(graph.code_offsets + U64(4) * U64(node)))
    quads = np.int64(u64_at(graph.code_quads + U64(8) * block))
    if place >= quads:
        return U64(0), 0
    address = u64_at(graph.codes + U64(8) * block) + U64(4 * QUAD * place)
    own = np.int64(u32_at(address))
    return address, own if place + own <= quads else 0


@inline
def _prefetch_bytes(graph, node):
    """Ask for a node's code of bytes."""
    address = code_address(graph, node)
    for c in range(U64(0), U64(graph.width), U64(LANES)):
        prefetch(address + c)


@inline
def prefetch_code(graph, node, table):
    """Ask for a node's code."""
    if table is None or table.ndim == 2:
        _prefetch_bytes(graph, node)
    else:
        block = U64(node) >> graph.code_shift
        address = u64_at(graph.codes + U64(8) * block) + U64(4 * QUAD) * U64(u32_at(graph.code_offsets + U64(4) * U64(node)))
        for line in range(graph.code_lines):
            prefetch(address + U64(LANES * line))


@inline
def node_norm(graph, node):
    """A node's norm, where it matters; 1 where it does not."""
    return np.float32(1.0) if graph.shapes != 0 else float32_at(graph.norms + U64(4) * U64(node))


@inline
def _distance(graph, node, probed, table):
    """`distance_to` what is at an address."""
    if table is None:
        return code_distance(code_address(graph, node), probed, graph.width)
    if table.ndim == 2:
        return square_distance(code_address(graph, node), probed, graph.width)
    address, quads = _packed_address(graph, node)
    if quads <= 0:
        return _FARTHEST
    return entry_square_distance(address, quads, probed) if graph.units != 0 else entry_distance(address, quads, probed)


@inline
def distance_to(graph, node, probe):
    """The distance of a node's code from a probe: in steps, or of unit rows in squares of them. A damaged code is as far as can be."""
    return _distance(graph, node, probe.address, probe.table)


@inline
def length_of(graph, distance, table):
    """How far apart codes of such a distance (`distance_to`) are: in L1, or of unit rows in L2."""
    if table is None:
        return distance * graph.step
    if table.ndim == 2:
        return np.sqrt(np.float64(distance)) * graph.step
    return np.sqrt(np.float64(distance)) * graph.step if graph.units != 0 else distance * graph.step


@inline
def _near_bytes(graph, node, probed, reach, table):
    """`near_eight`, by a probe's address and table."""
    errors = graph.errors + U64(4) * U64(node)
    if table is None:
        return near_by_differences(code_address(graph, node), U64(graph.width), probed, errors, graph.step, reach)
    if table.ndim == 2:
        return near_by_squares(code_address(graph, node), U64(graph.width), probed, errors, graph.step, reach)
    near = U64(0)
    for place in range(EIGHT):
        distance = length_of(graph, _distance(graph, node + place, probed, table), table)
        if not distance - float32_at(errors + U64(4 * place)) > reach:
            near |= U64(1) << U64(place)
    return near


@inline
def near_eight(graph, node, probe, reach):
    """A bit for each of eight nodes of one block from one on: set unless its code, less its error, is farther from a probe than reach."""
    return _near_bytes(graph, node, probe.address, reach, probe.table)


@inline
def rank_at(graph, node, probe):
    """The rank of a node from a probe: see `rank_of`."""
    return rank_of(distance_to(graph, node, probe), graph.step, graph.shapes != 0, probe.norm, node_norm(graph, node))


@inline
def fill_probe(graph, features, values, norm, scratch, table):
    """Make a probe of a row: (probe, error of its code). table: where a packed one is made; clear it with `clear_probe`."""
    if table is None:
        sums, code = coding_of(scratch)
        error = encode_row(coding_by(graph), features, values, norm, sums, code[: graph.width])
        return Probe(U64(code.ctypes.data), table, np.float32(norm)), error
    if table.ndim == 2:
        _, code = coding_of(scratch)
        error = encode_unit(projecting_by(graph), features, values, f32_array(U64(table.ctypes.data), graph.width), code)
        return Probe(U64(code.ctypes.data), table, np.float32(norm)), error
    error = fill_slots(packing_by(graph), features, values, norm, table)
    return Probe(U64(table.ctypes.data), table, np.float32(norm)), error


@inline
def placed_probe(graph, features, values, norm, address, table):
    """A probe of a row whose code, if it is one of bytes, lies at an address; clear it with `clear_probe`."""
    if table is None:
        return Probe(address, table, np.float32(norm))
    if table.ndim == 2:
        return Probe(address, table, np.float32(norm))
    fill_slots(packing_by(graph), features, values, norm, table)
    return Probe(U64(table.ctypes.data), table, np.float32(norm))


@inline
def clear_probe(features, values, table):
    """Leave the table of a probe clear."""
    if table is None:
        return
    if table.ndim == 1:
        clear_slots(features, values, table)


@inline
def probe_node(graph, node, table):
    """A probe of a node; release it with `release_probe` before the next."""
    norm = node_norm(graph, node)
    if table is None:
        return Probe(code_address(graph, node), table, norm)
    if table.ndim == 2:
        return Probe(code_address(graph, node), table, norm)
    address, quads = _packed_address(graph, node)
    if quads > 0:
        fill_entries(address, quads, table)
    return Probe(U64(table.ctypes.data), table, norm)


@inline
def release_probe(graph, node, table):
    """Leave the table of a node's probe clear."""
    if table is None:
        return
    if table.ndim == 1:
        address, quads = _packed_address(graph, node)
        if quads > 0:
            clear_entries(address, quads, table)
