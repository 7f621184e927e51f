"""Nodes as kernels see them: where the code of each lies, and how far it is from a *probe*.

A probe is what nodes are compared with: the address of a code of bytes, or, where codes are packed, of a table in which one row
is laid out (`packed`). Kernels are handed the table (clear, and left clear), or None where codes are bytes: by its type
they are compiled once for each layout, with no branch in their loops. What differs is here; walks, pruning and scans do not know.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kinbin.codes.folded import LANES, code_distance, encode_row
from kinbin.codes.packed import QUAD, clear_entries, clear_slots, entry_distance, fill_entries, fill_slots
from kinbin.native.jit import inline
from kinbin.native.memory import float32_at, prefetch, u32_at, u64_at

__all__ = [
    "CODE_SHIFT", "GRAPH_FIELDS", "LINKS", "LINK_SHIFT", "LINK_WORDS", "NODES", "OFFSETS", "STRIDE",
    "WIDTH", "clear_probe", "code_address", "fill_probe", "graph_of_fields", "node_distance", "node_norm",
    "prefetch_code", "probe_node", "release_probe",
]  # fmt: skip

U64 = np.uint64
GRAPH_FIELDS = {
    name: place
    for place, name in enumerate(
        (
            "nodes",  # nodes that may be named
            "width",  # bytes a code; 0: codes are packed
            "code_shift",  # a block holds the codes of 2**code_shift nodes
            "codes",  # address: u64 address of each block of codes
            "code_quads",  # address: u64 quads of each block of packed codes
            "code_offsets",  # address: u32 quad of each node's packed code in its block
            "code_lines",  # cache lines of a code, in the mean
            "stride",  # words of a node's place in the one block of links (graphs in arrays); 0: see offsets
            "offsets",  # address: u32 word of each node's links in its block
            "link_shift",  # a block holds the links of 2**link_shift nodes
            "links",  # address: u64 address of each block of links
            "link_words",  # address: u64 words of each block of links
            "norms",  # address: f32 norm of each node (kernels that do not normalise)
        )
    )
}
NODES, WIDTH, CODE_SHIFT, CODES, CODE_QUADS, CODE_OFFSETS, CODE_LINES = range(7)
STRIDE, OFFSETS, LINK_SHIFT, LINKS, LINK_WORDS, NORMS = range(7, 13)
_FARTHEST = np.uint32(0xFFFFFFFF)


def graph_of_fields(fields: dict[str, int]) -> NDArray[np.uint64]:
    """What kernels are told of a graph: some of `GRAPH_FIELDS`, 0 for the others."""
    graph = np.zeros(len(GRAPH_FIELDS), np.uint64)
    for name, value in fields.items():
        graph[GRAPH_FIELDS[name]] = value
    return graph


@inline
def code_address(graph, node):
    """Where a node's code of bytes lies."""
    shift = graph[CODE_SHIFT]
    block = U64(node) >> shift
    return u64_at(graph[CODES] + U64(8) * block) + (U64(node) - (block << shift)) * graph[WIDTH]


@inline
def _packed_address(graph, node):
    """Where a node's packed code lies, and how many quads it has; 0 if the stored numbers are out of bounds."""
    block = U64(node) >> graph[CODE_SHIFT]
    place = np.int64(u32_at(graph[CODE_OFFSETS] + U64(4 * node)))
    quads = np.int64(u64_at(graph[CODE_QUADS] + U64(8) * block))
    if place >= quads:
        return U64(0), 0
    address = u64_at(graph[CODES] + U64(8) * block) + U64(4 * QUAD * place)
    own = np.int64(u32_at(address))
    return address, own if place + own <= quads else 0


@inline
def prefetch_code(graph, node, table):
    """Ask for a node's code."""
    if table is None:
        address = code_address(graph, node)
        for c in range(0, np.int64(graph[WIDTH]), LANES):
            prefetch(address + U64(c))
    else:
        block = U64(node) >> graph[CODE_SHIFT]
        address = u64_at(graph[CODES] + U64(8) * block) + U64(4 * QUAD) * U64(u32_at(graph[CODE_OFFSETS] + U64(4 * node)))
        for line in range(np.int64(graph[CODE_LINES])):
            prefetch(address + U64(LANES * line))


@inline
def node_norm(graph, node, normalised):
    """A node's norm, where it matters."""
    return np.float32(1.0) if normalised else float32_at(graph[NORMS] + U64(4 * node))


@inline
def node_distance(graph, node, probe, table):
    """The distance of a node's code from a probe, in steps. A damaged code is as far as can be."""
    if table is None:
        return code_distance(code_address(graph, node), probe, np.int64(graph[WIDTH]))
    address, quads = _packed_address(graph, node)
    return entry_distance(address, quads, probe) if quads > 0 else _FARTHEST


@inline
def fill_probe(graph, features, values, norm, hashed, buckets, step, offset, sums, code, table):
    """Make a probe of a row: (probe, error of its code). code, table: where it is made; clear it with `clear_probe`."""
    if table is None:
        error = encode_row(features, values, norm, hashed, buckets, step, offset, sums, code[: np.int64(graph[WIDTH])])
        return U64(code.ctypes.data), error
    return U64(table.ctypes.data), fill_slots(features, values, norm, step, table)


@inline
def clear_probe(features, values, table):
    """Leave the table of a probe clear."""
    if table is not None:
        clear_slots(features, values, table)


@inline
def probe_node(graph, node, table):
    """A probe of a node; release it with `release_probe` before the next."""
    if table is None:
        return code_address(graph, node)
    address, quads = _packed_address(graph, node)
    if quads > 0:
        fill_entries(address, quads, table)
    return U64(table.ctypes.data)


@inline
def release_probe(graph, node, table):
    """Leave the table of a node's probe clear."""
    if table is not None:
        address, quads = _packed_address(graph, node)
        if quads > 0:
            clear_entries(address, quads, table)
