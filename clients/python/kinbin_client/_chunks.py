"""Large adds and large batches of queries, cut into requests. No I/O; a chunk is encoded when it is asked for.

Two ways for a chunk to travel:

    application/json    always possible; cut by items and by their bytes
    application/x-npy   2-d arrays of finite real numbers: adds without payloads, as float32 (which is what the
                        service stores in any case) with the ids in the header X-Kinbin-Ids; queries without
                        a filter, with all their digits. Cut by items, bytes and the length of that header
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral, Real
from typing import Any

from kinbin_client._objects import Objects
from kinbin_client._options import QueryOptions
from kinbin_client._payloads import payload_json
from kinbin_client._requests import (
    Request,
    Scope,
    id_list,
    json_request,
    named,
    npy_request,
    object_json,
    query_fields,
    to_json,
    vector_json,
    waiting,
)
from kinbin_client._terms import AddTerms, Versions
from kinbin_client.errors import InvalidArgument
from kinbin_client.vectors import ByField, Vectors, iterate_vectors

__all__ = ["Chunk", "Chunking", "OfFields", "add_chunks", "json_chunks", "query_chunks"]

IDS_HEADER = "x-kinbin-ids"
_IDS_HEADER_BYTES = 30_000
"""Servers and proxies refuse headers of more than 32 or 64 kB."""
_LONGEST_WORD = 40
"""Characters of an id that a message shows."""
_FLOAT32_MAX = 3.4028234e38
_FLOAT64_MAX = 1.7976931348623157e308
_ANSWER_ITEMS = 1_000_000
_ANSWER_CONTENTS = 10_000
"""Hits that the service returns at most for one request (k times queries), without and with payloads or vectors."""


@dataclass(frozen=True, slots=True)
class Chunking:
    """How large one request of a large add may be: each is one atomic transaction of the service.

    An item that alone has more bytes than `max_bytes` travels alone.
    """

    max_items: int = 1_000
    max_bytes: int = 8 * 1024 * 1024

    def __post_init__(self) -> None:
        if self.max_items < 1 or self.max_bytes < 1:
            raise InvalidArgument("a chunk holds at least one item and one byte")


@dataclass(frozen=True, slots=True)
class Chunk:
    """One request and how many items (or queries) it carries."""

    request: Request
    size: int


@dataclass(frozen=True, slots=True)
class OfFields:
    """Vectors of several fields, many of each, in the place of `Vectors`."""

    vectors: ByField[Vectors]
    how: Mapping[str, Any]
    """Of queries: see `_requests.combined`."""

    def encoded(self) -> tuple[int, Iterator[bytes]]:
        """How many items there are, and the JSON of the vectors of each; InvalidArgument if fields have different numbers."""
        several = {to_json(name, "field"): iterate_vectors(vectors) for name, vectors in named(self.vectors).items()}
        totals = {total for total, _ in several.values()}
        if len(totals) > 1:
            told = ", ".join(f"{total} for {name.decode()}" for name, (total, _) in several.items())
            raise InvalidArgument(f"fields have different numbers of vectors: {told}", code="bad_parameter")
        return totals.pop() if totals else 0, self._each(several)

    @staticmethod
    def _each(several: Mapping[bytes, tuple[int, Iterator[Any]]]) -> Iterator[bytes]:
        for position, row in enumerate(zip(*(vectors for _, vectors in several.values()), strict=True)):
            yield b"{" + b",".join(name + b":" + vector_json(one, position) for name, one in zip(several, row, strict=True)) + b"}"


def add_chunks(
    scope: Scope,
    ids: Sequence[str | int],
    vectors: Vectors | OfFields | Objects,
    payloads: Sequence[Mapping[str, Any] | None] | None,
    terms: AddTerms,
    chunking: Chunking,
) -> tuple[int, Iterator[Chunk]]:
    """How many items an add has, and its requests; an add of nothing is one request of nothing.

    InvalidArgument at once for lengths that differ and for an id that is there twice (the service
    could only see that within one chunk), and while iterating for a vector or payload without a JSON form.
    """
    names = id_list(ids)
    key, total, encoded = _carried(vectors)
    if len(names) != total:
        raise InvalidArgument(
            f"{total} {vectors.items if isinstance(vectors, Objects) else 'vectors'} came with {len(names)} ids; send one for each",
            code="bad_parameter",
        )
    if payloads is not None and (isinstance(payloads, str | bytes) or not isinstance(payloads, Sequence)):
        raise InvalidArgument("payloads are a list of JSON objects (dict) or None, one for each id", code="bad_parameter")
    if payloads is not None and len(payloads) != total:
        raise InvalidArgument(f"{len(payloads)} payloads came with {total} ids; send one (or None) for each", code="bad_parameter")
    _refuse_duplicates(names)
    terms = terms.checked(total)
    if payloads is None and terms.if_versions is None and key == b"vector" and _fits_npy(vectors, _FLOAT32_MAX):
        return total, _keyed(terms, _npy_adds(names, vectors, chunking, partial(npy_request, scope.index_path, terms.fields())))
    head = to_json(terms.fields(), "options")[:-1] + b',"items":['
    parts = _encoded_items(names, key, encoded, payloads, terms.if_versions)
    return total, _keyed(terms, json_chunks(parts, chunking, head, partial(json_request, "POST", scope.index_path)))


def _keyed(terms: AddTerms, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    """The chunks, each with its key, if the add has one: with it, or with mode upsert, any of them may be sent again."""
    for number, chunk in enumerate(chunks):
        yield replace(chunk, request=replace(chunk.request, headers={**chunk.request.headers, **terms.headers(number)}))


_ONLY_JSON = frozenset({"filter", "exclude", "include_self", "cursor", "group_by"})
"""Options that no address carries, and so no request whose body is a matrix."""
_WHOLE, _REAL = ("k", "offset"), ("target_recall", "min_score", "max_distance")


def query_chunks(
    scope: Scope, vectors: Vectors | OfFields | Objects, options: QueryOptions, chunking: Chunking
) -> tuple[int, Iterator[Chunk]]:
    """How many queries a batch has, and its requests; a batch of none is one request of none."""
    key, total, encoded = _carried(vectors)
    fields = query_fields(options)
    most_hits = _ANSWER_CONTENTS if fields["include"] else _ANSWER_ITEMS
    # What is no number the service refuses.
    k = sum(int(one) for one in (options.k, options.offset) if isinstance(one, Integral))
    most_queries = most_hits // k if 0 < k <= most_hits else 1
    limits = Chunking(min(chunking.max_items, most_queries), chunking.max_bytes)
    if key == b"vector" and _fit_an_address(fields) and _fits_npy(vectors, _FLOAT64_MAX):
        parameters = {**fields, "include": ",".join(fields["include"])}
        parameters |= {name: "true" for name in ("certify", "debug", "allow_partial") if name in fields}
        return total, _npy_queries(vectors, limits, partial(npy_request, scope.query_path, parameters, headers=waiting(options)))
    how = vectors.how if isinstance(vectors, OfFields) else {}
    head = to_json({**fields, **how}, "query")[:-1] + b',"queries":['
    queries = encoded if key == b"vector" else (b'{"' + key + b'":' + given + b"}" for given in encoded)
    return total, json_chunks(queries, limits, head, partial(json_request, "POST", scope.query_path, headers=waiting(options)))


def _fit_an_address(fields: Mapping[str, Any]) -> bool:
    """Whether options can stand in an address. One of a wrong type would be a text like any other there: the service refuses it in JSON."""
    numbers = ((name, kind) for names, kind in ((_WHOLE, Integral), (_REAL, Real)) for name in names)
    return fields.keys().isdisjoint(_ONLY_JSON) and all(
        isinstance(fields[name], kind) and not isinstance(fields[name], bool) for name, kind in numbers if name in fields
    )


def _carried(vectors: Vectors | OfFields | Objects) -> tuple[bytes, int, Iterator[bytes]]:
    """What items carry, and under which key: (key, how many there are, the JSON of each)."""
    if isinstance(vectors, OfFields):
        return b"vectors", *vectors.encoded()
    if isinstance(vectors, Objects):
        total, objects = vectors.encoded()
        return vectors.key.encode(), total, (object_json(one, vectors.key, position) for position, one in enumerate(objects))
    total, plain = iterate_vectors(vectors)
    return b"vector", total, (vector_json(vector, position) for position, vector in enumerate(plain))


def _encoded_items(
    names: Sequence[str],
    key: bytes,
    vectors: Iterator[bytes],
    payloads: Sequence[Mapping[str, Any] | None] | None,
    versions: Versions | None = None,
) -> Iterator[bytes]:
    for position, (name, vector) in enumerate(zip(names, vectors, strict=True)):
        item = b'{"id":' + to_json(name, "id", position) + b',"' + key + b'":' + vector
        payload = None if payloads is None else payloads[position]
        if payload is not None:
            item += b',"payload":' + payload_json(payload, position)
        if versions is not None and versions[position] is not None:
            item += b',"if_version":' + to_json(versions[position], "if_version", position)
        yield item + b"}"


def json_chunks(parts: Iterator[bytes], limits: Chunking, head: bytes, build: Callable[[bytes], Request]) -> Iterator[Chunk]:
    """Requests whose bodies are `head part,part,...]}`, each within the limits; at least one."""
    held: list[bytes] = []
    held_bytes = 0
    sent = False
    for part in parts:
        if held and (len(held) == limits.max_items or held_bytes + len(part) > limits.max_bytes):
            yield Chunk(build(head + b",".join(held) + b"]}"), len(held))
            held, held_bytes, sent = [], 0, True
        held.append(part)
        held_bytes += len(part) + 1
    if held or not sent:
        yield Chunk(build(head + b",".join(held) + b"]}"), len(held))


def _fits_npy(vectors: Any, largest: float) -> bool:
    """Whether these are a 2-d array of real numbers, all finite and within `largest`."""
    if not (hasattr(vectors, "astype") and hasattr(vectors, "dtype") and len(getattr(vectors, "shape", ())) == 2):
        return False
    if getattr(vectors.dtype, "kind", "") not in "fiu" or vectors.dtype.itemsize > 8 or 0 in vectors.shape or hasattr(vectors, "tocsr"):
        return False
    return -largest <= float(vectors.min()) and float(vectors.max()) <= largest


def _npy_adds(names: Sequence[str], matrix: Any, limits: Chunking, build: Callable[..., Request]) -> Iterator[Chunk]:
    most_rows = max(1, min(limits.max_items, limits.max_bytes // (4 * matrix.shape[1])))
    encoded = [to_json(name, "id", position).decode("ascii") for position, name in enumerate(names)]
    start = 0
    while start < len(names):
        stop = _header_stop(encoded, start, start + most_rows)
        ids = "[" + ",".join(encoded[start:stop]) + "]"
        yield Chunk(build(_npy_file(matrix[start:stop], "<f4"), {IDS_HEADER: ids}), stop - start)
        start = stop


def _npy_queries(matrix: Any, limits: Chunking, build: Callable[..., Request]) -> Iterator[Chunk]:
    type_code = "<f4" if matrix.dtype.kind == "f" and matrix.dtype.itemsize <= 4 else "<f8"
    step = max(1, min(limits.max_items, limits.max_bytes // (int(type_code[2]) * matrix.shape[1])))
    for start in range(0, matrix.shape[0], step):
        part = matrix[start : start + step]
        yield Chunk(build(_npy_file(part, type_code)), part.shape[0])


def _header_stop(encoded: Sequence[str], start: int, stop: int) -> int:
    """The end of the longest run of ids from `start`, at most to `stop`, that the header has room for; at least one id."""
    length = 2
    for position in range(start, min(stop, len(encoded))):
        length += len(encoded[position]) + 1
        if length > _IDS_HEADER_BYTES and position > start:
            return position
    return min(stop, len(encoded))


def _npy_file(matrix: Any, type_code: str) -> bytes:
    """A matrix as an .npy file of format 1.0, little-endian in C order; its head is padded to a multiple of 64 bytes."""
    rows, columns = matrix.shape
    description = f"{{'descr': '{type_code}', 'fortran_order': False, 'shape': ({rows}, {columns}), }}".encode("ascii")
    padding = -(10 + len(description) + 1) % 64
    head = description + b" " * padding + b"\n"
    entries = matrix.astype(type_code, order="C", copy=False)
    # One copy of them: they are most of what a batch of queries costs its client.
    return b"".join((b"\x93NUMPY\x01\x00", len(head).to_bytes(2, "little"), head, entries.data))


def _refuse_duplicates(names: Sequence[str]) -> None:
    if len(set(names)) == len(names):
        return
    seen: dict[str, int] = {}
    for position, name in enumerate(names):
        first = seen.setdefault(name, position)
        if first != position:
            text = f"the id {name[:_LONGEST_WORD]!r} is at position {first} already; send each id once"
            raise InvalidArgument(text, position, "duplicate_id")
