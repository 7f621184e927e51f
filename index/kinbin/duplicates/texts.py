"""Near duplicates among texts, in a folder of work: bounded memory, whatever the number of texts, and on from where it was killed.

    texts ──▶ sets of shingles (records.bin) ──▶ equal sets are one (first.bin) ──▶ keys of bands (keys.bin) ──▶ clusters (clusters.bin)

Two texts are near whose sets of shingles have a Jaccard similarity of `min_score`; candidates share a band of min-wise hashes, and each is
verified exactly. Clusters are single linkage. All that grows with the number of texts lies in files that are mapped, so that it
counts as page cache; what is held besides is `Budget`, and 20 bytes a character of the texts that are handed over at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.duplicates.identical import note_first
from kinbin.duplicates.minhash import MinHash
from kinbin.duplicates.planning import ALL_PAIRS, Plan, choose_plan
from kinbin.duplicates.search import Budget, Join, chunks_of, folded_keys
from kinbin.duplicates.shingling import Shingler
from kinbin.duplicates.work import Appended, Work
from kinbin.errors import InvalidInput
from kinbin.hashing import content_hash
from kinbin.parameters import is_number
from kinbin.rows.record import pack_rows, record_offsets
from kinbin.segments.source import Source, read_records
from kinbin.spaces.registry import space_of

__all__ = ["TextClusters", "TextDuplicates"]

Progress = Callable[[str, int, int], object]
_READ = ("records.bin", "ends.bin", "content.bin")
_FILES = (*_READ, "first.bin", "rows.bin", "keys.bin", "clusters.bin")
"""Of the stages."""
_NOTED_BYTES = 64 << 20
"""What is written between two notes: so much may have to be read again after a kill."""
_LEAST_MEMORY = 256
_MOST_SEED = (1 << 63) - 1
_FIXED_MB = 128
"""What the program takes besides its buffers, of the memory that it may take."""


@dataclass(frozen=True, slots=True)
class TextClusters:
    """What was found."""

    cluster: NDArray[np.uint32]
    """(n,) of each text the number of the first text of its cluster: its own, if it is the first, or alone."""
    miss_probability: float
    compared: int
    """Pairs of different sets that were verified."""

    @property
    def kept(self) -> int:
        """How many texts are the first of their cluster."""
        return sum(int((part == np.arange(first, first + len(part))).sum()) for first, part in _parts(self.cluster))


class TextDuplicates:
    """One job. Texts are added in order; `position` tells, after a kill, where to go on.

    Usage:
        with TextDuplicates(folder, shingler=Shingler(words=3)) as job:
            job.add(texts[job.documents:])
            job.finish().cluster
    """

    def __init__(
        self, folder: Path, *, shingler: Shingler, min_score: float = 0.8, miss: float = 0.01, seed: int = 0, memory_mb: int = 1024,
        source: str = "",
    ) -> None:  # fmt: skip
        """folder: of the work, made if it is not there. source: what tells this input from others: work on another is not gone on with.

        memory_mb: what may be held, of memory that is no page cache.

        Raises:
            InvalidInput: a parameter is malformed, or the folder is that of another job, or another process works in it.
        """
        if not isinstance(shingler, Shingler):
            text = f"the shingler is a kinbin.Shingler, such as Shingler(words=3), not {type(shingler).__name__}"
            raise InvalidInput.of("bad_parameter", text, field="shingler")
        if not is_number(min_score) or not 0.0 < min_score <= 1.0:
            raise InvalidInput.of("bad_parameter", "min_score is a similarity above 0 and up to 1", field="min_score")
        if not is_number(miss) or not 1e-9 <= miss < 1.0:
            raise InvalidInput.of("bad_parameter", "miss is a probability from 1e-9 to below 1", field="miss")
        if not is_number(seed) or not hasattr(seed, "__index__") or not 0 <= seed <= _MOST_SEED:
            raise InvalidInput.of("bad_parameter", "seed is a whole number from 0 to 2**63 - 1", field="seed")
        if memory_mb < _LEAST_MEMORY:
            raise InvalidInput.of("bad_parameter", f"memory is {_LEAST_MEMORY} MB or more", field="memory")
        self._shingler, self._least, self._miss, self._sampler = shingler, float(min_score), float(miss), MinHash(seed)
        share = (memory_mb - _FIXED_MB) << 20
        self._space = space_of("minmax")
        job = {"format": 1, **shingler.told, "min_score": min_score, "miss": miss, "seed": seed, "source": source}
        self._work = Work(Path(folder), job, _FILES)
        self._budget = Budget(places=share // 48, keys=0, row_bytes=share // 16, zeros=self._work.scratch)
        self._records, self._ends, self._content = (Appended(self._work, name) for name in _READ)
        self._noted = self._records.size

    def __enter__(self) -> TextDuplicates:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def documents(self) -> int:
        """Texts that were added, before a kill as well: those that are to come follow."""
        return self._ends.size // 8

    @property
    def position(self) -> Any:
        """What was said with the last of them, in plain data; None: there is none."""
        return self._work.notes.get("position")

    @property
    def is_read(self) -> bool:
        """Whether all texts were added: `finish` was begun."""
        return bool(self._work.notes.get("read", False))

    def add(self, texts: Sequence[str], position: Any = None) -> None:
        """Add texts. They are on disk once 64 MB have been written, or `finish` begins; position: where the texts behind them begin.

        Cost: 5 µs a text of 60 words.

        Raises:
            InvalidInput: these are no texts, or all have been added before. StorageFull.
        """
        if self.is_read:
            raise InvalidInput.of("bad_parameter", "all texts have been added before", field="texts")
        if isinstance(texts, str):
            raise InvalidInput.of("bad_parameter", "texts are a list: put one into a list of its own", field="texts")
        wrong = next((place for place, text in enumerate(texts) if not isinstance(text, str)), None)
        if wrong is not None:
            text = f"texts are strings, not {type(texts[wrong]).__name__}"
            raise InvalidInput.of("bad_parameter", text, position=wrong, field="texts")
        rows = self._shingler.rows(texts)
        offsets = record_offsets(rows.indptr, True)
        # Texts without a shingle have no record.
        sizes = np.where(np.diff(rows.indptr) > 0, np.diff(offsets), 0)
        some = np.flatnonzero(sizes)
        full = rows.take(some.astype(np.int64))
        packed_at = record_offsets(full.indptr, True)
        records = np.zeros(int(packed_at[-1]), np.uint8)
        pack_rows(full.indptr, full.features, full.values, full.norms, True, packed_at, records)
        self._ends.write(self._records.size + np.cumsum(sizes, dtype=np.uint64))
        self._content.write(content_hash(rows))
        self._records.write(records)
        if self._records.size - self._noted >= _NOTED_BYTES:
            self._note(position)

    def finish(self, progress: Progress | None = None) -> TextClusters:
        """Find the clusters; what was done before a kill is not done again.

        progress(stage, done, of) is told of "hashing" and "comparing". Cost: some 10 µs a text of 60 words.

        Raises:
            InvalidInput: no number of bands keeps the miss at this score. StorageFull.
        """
        if not self.is_read:
            self._note(self.position, read=True)
        work, n = self._work, self.documents
        base, ends = work.array("records.bin", np.uint8), work.array("ends.bin", np.uint64)
        content = work.array("content.bin", np.uint64)
        first = work.made("first.bin", n, np.uint32, lambda out: note_first(base, ends, content, out))
        rows = work.made("rows.bin", _count_rows(ends, first), np.uint32, lambda out: _list_rows(ends, first, out))
        source = self._source(base, ends, rows)
        plan = self._planned(source)
        keys = work.made("keys.bin", plan.bands * len(rows), np.uint32, lambda out: self._hash(source, plan, out, progress))
        clusters = work.made("clusters.bin", n, np.uint32, lambda out: self._join(source, plan, keys, (first, rows, out), progress))
        return TextClusters(clusters, plan.miss, int(work.notes.get("compared", 0)))

    def close(self) -> None:
        """Let go of the files; the work stays."""
        for file in (self._records, self._ends, self._content):
            file.close()
        self._work.close()

    def remove(self) -> None:
        """Remove the work; the folder as well, if nothing else is in it."""
        for file in (self._records, self._ends, self._content):
            file.close()
        self._work.remove()

    @staticmethod
    def discard(folder: Path) -> None:
        """Remove the work that a folder holds, of whatever job, to begin anew; nothing if there is no folder.

        Raises:
            InvalidInput: another process works in it, or it holds something else.
        """
        Work.discard(Path(folder), _FILES)

    def _note(self, position: Any, **more: Any) -> None:
        files = dict(zip(_READ, (self._records, self._ends, self._content), strict=True))
        for file in files.values():
            file.sync()
        self._work.note(sizes={name: file.size for name, file in files.items()}, position=position, **more)
        self._noted = self._records.size

    def _source(self, base: NDArray[np.uint8], ends: NDArray[np.uint64], rows: NDArray[np.uint32]) -> Source:
        """Where the records of rows lie, in files as well."""
        numbers, addresses = self._work.scratch(len(rows), np.uint64), self._work.scratch(len(rows), np.uint64)
        rooms = self._work.scratch(len(rows), np.int64)
        start = np.uint64(base.ctypes.data if len(base) else 0)
        for place, part in _parts(rows):
            some = part.astype(np.int64)
            begin = np.where(some > 0, ends[np.maximum(some - 1, 0)], np.uint64(0))
            numbers[place : place + len(part)] = part
            addresses[place : place + len(part)] = start + begin
            rooms[place : place + len(part)] = (ends[some] - begin).astype(np.int64)
        return Source(numbers, addresses, rooms)

    def _planned(self, source: Source) -> Plan:
        """The plan: it stays the same once it was chosen."""
        if "plan" not in self._work.notes:
            plan = choose_plan(source, self._space, True, self._least, self._miss)
            self._work.note(plan=asdict(plan))
        return Plan(**self._work.notes["plan"])

    def _hash(self, source: Source, plan: Plan, out: NDArray[np.uint32], progress: Progress | None) -> None:
        """Write the keys, band by band."""
        n = len(source)
        keys = out.reshape(plan.bands, n) if plan.bands else None
        for some in chunks_of(np.arange(n), source.rooms, self._budget):
            rows = read_records(source.addresses[some], source.rooms[some], True)
            if keys is not None:
                keys[:, some[0] : some[-1] + 1] = folded_keys(self._sampler.codes(rows, plan.r, plan.bands * plan.fold), plan).T
            if progress is not None:
                progress("hashing", int(some[-1]) + 1, n)

    def _join(
        self, source: Source, plan: Plan, keys: NDArray[np.uint32],
        texts: tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]], progress: Progress | None,
    ) -> None:  # fmt: skip
        """Write of each text the first of its cluster."""
        n = len(source)
        parents = self._work.scratch(n, np.uint32)
        for place, part in _parts(parents):
            part[:] = np.arange(place, place + len(part), dtype=np.uint32)
        join = Join(source, self._space, True, plan, self._least, budget=self._budget, progress=progress)
        if plan != ALL_PAIRS or n:
            for _ in join.clusters(keys.reshape(plan.bands, n) if plan.bands else keys.reshape(0, n), parents):
                pass
        self._work.note(compared=join.compared)
        first, rows, out = texts
        _name(first, rows, parents, out)


def _parts(array: NDArray[Any], size: int = 1 << 20) -> Any:
    """(first place, part) of parts of an array."""
    return ((first, array[first : first + size]) for first in range(0, len(array), size))


def _count_rows(ends: NDArray[np.uint64], first: NDArray[np.uint32]) -> int:
    return sum(len(part) for part in _rows(ends, first))


def _list_rows(ends: NDArray[np.uint64], first: NDArray[np.uint32], out: NDArray[np.uint32]) -> None:
    place = 0
    for part in _rows(ends, first):
        out[place : place + len(part)] = part
        place += len(part)


def _rows(ends: NDArray[np.uint64], first: NDArray[np.uint32]) -> Any:
    """The texts that are compared: the first of equal sets, of those that have a shingle; some at a time."""
    before = np.uint64(0)
    for place, part in _parts(ends):
        sizes = np.diff(part, prepend=before)
        before = part[-1]
        numbers = np.arange(place, place + len(part))
        yield numbers[(sizes > 0) & (first[place : place + len(part)] == numbers)].astype(np.uint32)


def _name(first: NDArray[np.uint32], rows: NDArray[np.uint32], parents: NDArray[np.uint32], out: NDArray[np.uint32]) -> None:
    """Write of each text the first of its cluster."""
    for place, part in _parts(first):
        out[place : place + len(part)] = part
    for place, part in _parts(rows):
        roots = parents[place : place + len(part)]
        while True:
            above = parents[roots]
            if np.array_equal(above, roots):
                break
            roots = above
        out[part] = rows[roots]
    for place, part in _parts(first):
        # An equal set has the cluster of its first text.
        out[place : place + len(part)] = out[part]
