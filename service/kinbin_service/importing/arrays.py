"""NumPy files: a matrix in `.npy`; a matrix or the parts of a CSR matrix in `.npz`. Memory-mapped; pickled objects are refused."""

from __future__ import annotations

import itertools
import shutil
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import orjson
from numpy.typing import NDArray

import kinbin
from kinbin_service.importing.batches import BATCH_VALUES, ROW_TEMPLATE, Batch, Columns, Naming, Position, SourceError
from kinbin_service.importing.vectors import Vector, shown

__all__ = ["ArraySource", "brings_ids", "open_npy", "open_npz"]

IDS = "ids"
"""The array that holds ids, unless another one is named."""

_CSR_PARTS = ("data", "indices", "indptr")


class _Matrix:
    """A dense (n, d) array on disk, read by blocks of rows."""

    def __init__(self, array: NDArray[Any], data_offset: int | None) -> None:
        self._array = array
        self.rows = int(array.shape[0])
        self._width = int(array.shape[1])
        self.told = f"{self._width:,} features"
        self._row_bytes = array.strides[0] if self.rows > 1 else array.dtype.itemsize * self._width
        self._data_offset = data_offset if array.flags.c_contiguous else None

    def end_of(self, start: int, rows: int) -> int:
        """Where a block of at most `rows` rows from `start` ends."""
        return min(self.rows, start + max(1, min(rows, BATCH_VALUES // max(1, self._width))))

    def block(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start … stop-1, copied out of the map."""
        return _numbers(self._array[start:stop])

    def offset_of(self, row: int) -> int:
        """The byte offset of a row in the file, 0 where rows do not lie one after the other in it."""
        return 0 if self._data_offset is None else self._data_offset + row * self._row_bytes


class _Csr:
    """A CSR matrix on disk, as its three arrays, read by blocks of rows."""

    def __init__(self, data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any]) -> None:
        self._data, self._indices, self._indptr = data, indices, indptr
        self.rows = int(indptr.shape[0]) - 1
        self.told = "sparse rows"

    def end_of(self, start: int, rows: int) -> int:
        """Where a block of at most `rows` rows and `BATCH_VALUES` nonzeros from `start` ends; one row at least."""
        stop = min(self.rows, start + rows)
        full = int(np.searchsorted(self._indptr[start : stop + 1], self._indptr[start] + BATCH_VALUES, side="right"))
        return min(stop, max(start + full - 1, start + 1))

    def block(self, start: int, stop: int) -> list[Vector]:
        """Rows start … stop-1. ValueError when the row bounds do not lie in the arrays."""
        bounds = self._indptr[start : stop + 1].astype(np.int64)
        if bounds[0] < 0 or bounds[-1] > self._data.shape[0] or np.any(np.diff(bounds) < 0):
            raise ValueError("indptr does not rise from 0 to the number of nonzeros: the matrix is damaged")
        low, high = int(bounds[0]), int(bounds[-1])
        data, indices = _numbers(self._data[low:high]), np.array(self._indices[low:high])
        if indices.size and int(indices.min()) < 0:
            raise ValueError("a column index is negative: the matrix is damaged")
        bounds -= low
        return [kinbin.Sparse(indices[bounds[i] : bounds[i + 1]], data[bounds[i] : bounds[i + 1]]) for i in range(stop - start)]

    def offset_of(self, row: int) -> int:  # noqa: ARG002 - the same signature as _Matrix
        """Always 0: the parts of a row lie in three places."""
        return 0


class _Payloads:
    """Payloads as `kinbin export` writes them: JSON of all rows in one array of bytes, and where each begins and ends."""

    def __init__(self, text: NDArray[Any], offsets: NDArray[Any]) -> None:
        self._text, self._offsets = text, offsets

    def block(self, start: int, stop: int) -> list[dict[str, Any] | None]:
        """The payloads of rows start … stop-1. ValueError when they are damaged."""
        bounds = self._offsets[start : stop + 1].tolist()
        if bounds != sorted(bounds) or bounds[0] < 0 or bounds[-1] > self._text.shape[0]:
            raise ValueError("payload_offsets do not rise within payloads: the archive is damaged")
        try:
            payloads = [orjson.loads(self._text[low:high].tobytes()) for low, high in itertools.pairwise(bounds)]
        except orjson.JSONDecodeError:
            raise ValueError("payloads hold something that is not JSON: the archive is damaged") from None
        if any(not (payload is None or isinstance(payload, dict)) for payload in payloads):
            raise ValueError("payloads hold something that is neither an object nor null: the archive is damaged")
        return payloads


class ArraySource:
    """The rows of an array as a source of batches."""

    unit = "rows"
    empty = 0

    def __init__(
        self,
        file: tuple[Path, str],
        matrix: _Matrix | _Csr,
        files: list[BinaryIO],
        *,
        naming: Naming,
        ids: NDArray[Any] | None = None,
        fields: dict[str, NDArray[Any]] | None = None,
        payloads: _Payloads | None = None,
        columns: Columns,
    ) -> None:
        """file: its path and format."""
        self.path, self.format = file
        self.total = matrix.rows
        self._matrix, self._files = matrix, files
        self._naming, self._ids, self._fields, self._payloads = naming, ids, fields or {}, payloads
        self.columns = columns

    def batches(self, start: Position, rows: int, *, skip_bad: bool = False) -> Iterator[Batch]:  # noqa: ARG002 - no row can be unreadable
        """Batches of at most `rows` rows from `start` on."""
        first = start.rows
        while first < self.total:
            stop = self._matrix.end_of(first, rows)
            try:
                vectors, payloads = self._matrix.block(first, stop), self._payloads_of(first, stop)
            except ValueError as error:
                raise SourceError(self.path, str(error), row=first) from None
            end = Position(stop, self._matrix.offset_of(stop), 0)
            yield Batch(self.path, self._ids_of(first, stop), vectors, payloads, range(first, stop), False, end)
            first = stop

    def done(self, position: Position) -> int:
        """Rows before a position."""
        return position.rows

    def close(self) -> None:
        """Close the files under the arrays; memory maps end with the last reference."""
        for file in self._files:
            file.close()

    def _ids_of(self, start: int, stop: int) -> list[str]:
        if self._ids is None:
            return [self._naming.of(row) for row in range(start, stop)]
        return [str(value) for value in self._ids[start:stop].tolist()]

    def _payloads_of(self, start: int, stop: int) -> list[dict[str, Any] | None] | None:
        if self._payloads is not None:
            return self._payloads.block(start, stop)
        if not self._fields:
            return None
        values = {name: column[start:stop].tolist() for name, column in self._fields.items()}
        return [{name: column[i] for name, column in values.items()} for i in range(stop - start)]


def open_npy(path: Path, *, naming: Naming) -> ArraySource:
    """A `.npy` matrix as a source. Its rows are read in place."""
    file = path.open("rb")
    try:
        array, data_offset = _map(path, file, path.name)
        matrix = _Matrix(_matrix(path, array, path.name), data_offset)
        return ArraySource((path, "npy"), matrix, [file], naming=naming, columns=Columns(matrix.told, naming.told))
    except BaseException:
        file.close()
        raise


def open_npz(
    path: Path,
    work: Path,
    *,
    naming: Naming | None = None,
    array: str | None = None,
    id_column: str | None = None,
    payload_columns: tuple[str, ...] = (),
) -> ArraySource:
    """An archive as a source: the matrix named `array` or "vectors", or the only one in it, or CSR parts (as scipy.sparse.save_npz writes).

    `id_column` and `payload_columns` name arrays of one value a row in the same archive. Without them, and without `naming`, the
    arrays of `kinbin export` are taken where they are there: `ids`, and `payloads` with `payload_offsets`. Each array used is unpacked
    into a nameless file in the folder `work`, then memory-mapped, so memory stays bounded and nothing is left behind.
    """
    archive = _Archive(path, work)
    if id_column is None and naming is None and IDS in archive.names:
        id_column = IDS
    try:
        if array is None and set(_CSR_PARTS) <= archive.names:
            matrix: _Matrix | _Csr = _open_csr(archive)
        else:
            matrix = _Matrix(_matrix(path, archive.array(archive.pick(array)), archive.pick(array)), None)
        ids = None if id_column is None else archive.column(id_column, matrix.rows, "SUiu")
        fields = {name: archive.column(name, matrix.rows, "Uiufb") for name in payload_columns}
        payloads = None if payload_columns else archive.payloads(matrix.rows)
        naming = naming or Naming(ROW_TEMPLATE, path)
        told = ("payloads",) if payloads is not None else payload_columns
        columns = Columns(matrix.told, naming.told if id_column is None else f'id from "{id_column}"', told)
        return ArraySource((path, "npz"), matrix, archive.files, naming=naming, ids=ids, fields=fields, payloads=payloads, columns=columns)
    except BaseException:
        for file in archive.files:
            file.close()
        raise


def brings_ids(path: Path) -> bool:
    """Whether an archive has an array of ids that is taken unasked. Raises SourceError, OSError."""
    return IDS in _Archive(path, path.parent).names


def _open_csr(archive: _Archive) -> _Csr:
    if "format" in archive.names:
        layout = archive.array("format").tobytes().rstrip(b"\0").replace(b"\0", b"").decode("latin-1")
        if layout != "csr":
            raise SourceError(archive.path, f"a sparse matrix of format {shown(layout)}: save it as CSR (matrix.tocsr()) first")
    data, indices, indptr = (archive.array(name) for name in _CSR_PARTS)
    if data.ndim != 1 or indices.ndim != 1 or indptr.ndim != 1 or data.shape != indices.shape or indptr.shape[0] < 1:
        raise SourceError(archive.path, "data, indices and indptr are no CSR matrix: expected 1-d arrays, data as long as indices")
    if data.dtype.kind not in "fiub" or indices.dtype.kind not in "iu" or indptr.dtype.kind not in "iu":
        raise SourceError(archive.path, "data must hold numbers, indices and indptr whole numbers")
    if int(indptr[0]) != 0 or int(indptr[-1]) != data.shape[0]:
        raise SourceError(archive.path, f"indptr must rise from 0 to the number of nonzeros, {data.shape[0]}: the matrix is damaged")
    if "shape" in archive.names and archive.array("shape").shape == (2,) and int(archive.array("shape")[0]) != indptr.shape[0] - 1:
        raise SourceError(archive.path, f"shape says {int(archive.array('shape')[0])} rows, indptr holds {indptr.shape[0] - 1}")
    return _Csr(data, indices, indptr)


class _Archive:
    """A `.npz` archive whose arrays are unpacked on demand and memory-mapped."""

    def __init__(self, path: Path, work: Path) -> None:
        self.path, self._work = path, work
        self.files: list[BinaryIO] = []
        try:
            with zipfile.ZipFile(path) as archive:
                self.names = {name.removesuffix(".npy") for name in archive.namelist()}
        except zipfile.BadZipFile as error:
            raise SourceError(path, f"not a .npz archive ({error}): was it written or copied completely?") from None

    def pick(self, name: str | None) -> str:
        """The array to import: the named one, that of `kinbin export`, or the only one."""
        if name is None and "vectors" in self.names:
            return "vectors"
        if name is None and len(self.names) == 1:
            return next(iter(self.names))
        if name is None or name not in self.names:
            problem = "which array holds the vectors?" if name is None else f"no array {shown(name)}:"
            raise SourceError(self.path, f"{problem} --array takes one of {', '.join(sorted(self.names)[:8])}")
        return name

    def array(self, name: str) -> NDArray[Any]:
        """One array of the archive."""
        if name not in self.names:
            raise SourceError(self.path, f"no array {shown(name)}: the archive holds {', '.join(sorted(self.names)[:8])}")
        return _map(self.path, self._unpack(name), name)[0]

    def column(self, name: str, rows: int, kinds: str) -> NDArray[Any]:
        """An array of one value a row."""
        array = self.array(name)
        if array.shape != (rows,) or array.dtype.kind not in kinds:
            expected = f"expected {rows} values, text or numbers, one a row"
            raise SourceError(self.path, f"array {shown(name)} is {array.dtype} of shape {array.shape}: {expected}")
        return array

    def payloads(self, rows: int) -> _Payloads | None:
        """The payloads of `kinbin export`, if there are any."""
        if not {"payloads", "payload_offsets"} <= self.names:
            return None
        text, offsets = self.array("payloads"), self.array("payload_offsets")
        if text.dtype != np.uint8 or text.ndim != 1 or offsets.shape != (rows + 1,) or offsets.dtype.kind not in "iu":
            raise SourceError(self.path, "payloads and payload_offsets are not those of kinbin export: name others in --payload-columns")
        return _Payloads(text, offsets)

    def _unpack(self, name: str) -> BinaryIO:
        with zipfile.ZipFile(self.path) as archive:
            member = next(item for item in archive.infolist() if item.filename.removesuffix(".npy") == name)
            free = shutil.disk_usage(self._work).free
            if member.file_size > free:
                raise SourceError(self.path, f"array {shown(name)} unpacks to {member.file_size:,} bytes, {self._work} has {free:,} free")
            file: BinaryIO = tempfile.TemporaryFile(dir=self._work)  # noqa: SIM115 - closed with the source  # type: ignore[assignment]
            self.files.append(file)
            try:
                with archive.open(member) as packed:
                    shutil.copyfileobj(packed, file, 1 << 20)
            except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
                raise SourceError(self.path, f"array {shown(name)} cannot be unpacked ({error}): was the file copied completely?") from None
        file.flush()
        return file


def _map(path: Path, file: BinaryIO, name: str) -> tuple[NDArray[Any], int]:
    """The array in an open `.npy` file, memory-mapped, and the offset of its data. As np.load(mmap_mode="r", allow_pickle=False)."""
    file.seek(0)
    try:
        version = np.lib.format.read_magic(file)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read_header(file)
    except (ValueError, SyntaxError, EOFError, struct.error) as error:
        raise SourceError(path, f"{name} is not an array in .npy format ({shown(str(error), 120)})") from None
    if dtype.hasobject:
        raise SourceError(path, f"{name} holds pickled Python objects, which are never loaded: save a plain array of numbers")
    offset = file.tell()
    size = dtype.itemsize
    for extent in shape:
        size *= int(extent)
    file.seek(0, 2)
    if file.tell() < offset + size:
        raise SourceError(
            path, f"{name} should hold {size:,} bytes of numbers and holds {file.tell() - offset:,}: was it written or copied completely?"
        )
    if size == 0 or shape == ():
        file.seek(offset)
        return np.frombuffer(file.read(size), dtype=dtype).reshape(shape), offset
    mapped: NDArray[Any] = np.memmap(file, dtype=dtype, mode="r", offset=offset, shape=shape, order="F" if fortran else "C")
    return mapped, offset


def _numbers(array: NDArray[Any]) -> NDArray[Any]:
    """A copy in memory, C-contiguous: float32 as it is, all else as float64."""
    return np.array(array, dtype=np.float32 if array.dtype == np.float32 else np.float64, order="C")


def _matrix(path: Path, array: NDArray[Any], name: str) -> NDArray[Any]:
    """The array when it is a matrix of real numbers."""
    if array.dtype.kind not in "fiub":
        raise SourceError(path, f"{name} holds {array.dtype}: expected real numbers, such as float32")
    if array.ndim != 2 or array.shape[1] == 0:
        advice = " (one vector? reshape it to (1, n))" if array.ndim == 1 else ""
        raise SourceError(path, f"{name} has shape {array.shape}: expected a matrix, (rows, dimensions){advice}")
    return array
