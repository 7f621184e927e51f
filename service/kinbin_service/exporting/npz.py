""".npz: the vectors as arrays that NumPy and SciPy load, ids and payloads beside them.

    vectors                      (n, d) float32, of a collection with a dimension
    data, indices, indptr        … or the parts of a CSR matrix, of one without (with `shape` and `format`, as scipy.sparse.load_npz wants)
    ids                          n strings
    payloads, payload_offsets    UTF-8 JSON of all payloads; that of row i lies between offsets i and i + 1

Arrays are collected in nameless files beside the target, as their lengths stand at the head of an archive: an export takes twice its
size on disk while it runs, and memory for one page.
"""

from __future__ import annotations

import contextlib
import itertools
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

import numpy as np
import orjson
from numpy.lib import format as npy
from numpy.typing import NDArray

from kinbin_service.exporting.items import Stored

__all__ = ["write_npz"]

_CHUNK = 1 << 20
_IDS = 10_000
_LARGEST = 2**63 - 1


def write_npz(pages: Iterable[list[Stored]], file: IO[bytes], dim: int | None, work: Path) -> int:
    """Write items, `work` being a folder for what is collected; how many there were."""
    with contextlib.ExitStack() as stack:
        names = ("ids", "payloads", "payload_offsets", *(("vectors",) if dim is not None else ("data", "indices", "indptr")))
        parts: dict[str, IO[bytes]] = {name: stack.enter_context(tempfile.TemporaryFile(dir=work)) for name in names}
        collected = _Collected(parts)
        for page in pages:
            for item in page:
                collected.take(item)
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            collected.write(archive, dim)
    return collected.count


class _Collected:
    """Arrays that grow in files, one row after the other."""

    def __init__(self, parts: dict[str, IO[bytes]]) -> None:
        self._parts = parts
        self.count = 0
        self._longest = 1
        self._nonzeros = 0
        self._payload_bytes = 0
        self._width = 0
        for name in ("payload_offsets", "indptr"):
            self._put(name, np.zeros(1, np.int64))

    def take(self, item: Stored) -> None:
        """One more row."""
        self.count += 1
        self._longest = max(self._longest, len(item.id))
        self._parts["ids"].write(item.id.encode() + b"\n")  # an id holds printable characters only
        payload = orjson.dumps(item.payload)
        self._parts["payloads"].write(payload)
        self._payload_bytes += len(payload)
        self._put("payload_offsets", np.array([self._payload_bytes], np.int64))
        if item.features is None:
            self._put("vectors", item.values)
            return
        self._nonzeros += item.values.size
        self._width = max(self._width, int(item.features.max(initial=-1)) + 1)
        self._put("data", item.values)
        self._put("indices", item.features)
        self._put("indptr", np.array([self._nonzeros], np.int64))

    def write(self, archive: zipfile.ZipFile, dim: int | None) -> None:
        """All arrays into an archive."""
        self._write_ids(archive)
        if dim is not None:
            self._copy(archive, "vectors", "<f4", (self.count, dim))
        else:
            self._copy(archive, "data", "<f4", (self._nonzeros,))
            self._copy(archive, "indices", "<i8", (self._nonzeros,))
            self._copy(archive, "indptr", "<i8", (self.count + 1,))
            _member(archive, "shape", np.array([self.count, min(self._width, _LARGEST)], np.int64))
            _member(archive, "format", np.array(b"csr"))
        self._copy(archive, "payloads", "|u1", (self._payload_bytes,))
        self._copy(archive, "payload_offsets", "<i8", (self.count + 1,))

    def _put(self, name: str, array: NDArray[np.float32] | NDArray[np.int64]) -> None:
        if name in self._parts:
            self._parts[name].write(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())

    def _copy(self, archive: zipfile.ZipFile, name: str, dtype: str, shape: tuple[int, ...]) -> None:
        part = self._parts[name]
        part.seek(0)
        with _opened(archive, name, dtype, shape) as member:
            for chunk in iter(lambda: part.read(_CHUNK), b""):
                member.write(chunk)

    def _write_ids(self, archive: zipfile.ZipFile) -> None:
        part = self._parts["ids"]
        part.seek(0)
        dtype = f"<U{self._longest}"
        with _opened(archive, "ids", dtype, (self.count,)) as member:
            while lines := list(itertools.islice(part, _IDS)):
                member.write(np.array([line[:-1].decode() for line in lines], dtype).tobytes())


@contextlib.contextmanager
def _opened(archive: zipfile.ZipFile, name: str, dtype: str, shape: tuple[int, ...]) -> Iterator[IO[bytes]]:
    """A member of an archive, behind its .npy header."""
    with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
        npy.write_array_header_1_0(member, {"descr": dtype, "fortran_order": False, "shape": shape})
        yield member


def _member(archive: zipfile.ZipFile, name: str, array: NDArray[np.generic]) -> None:
    with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w") as member:
        npy.write_array(member, array, allow_pickle=False)
