"""Matrices as .npy bodies: read without pickle, sizes checked before anything is allocated; ids from a header."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from kinbin_service.ids import id_as_text
from kinbin_service.problems import Entry, Refusal

__all__ = ["parse_ids", "parse_matrix"]

DTYPES = frozenset({"<f4", "<f8"})
HEADER_BYTES = 1_000
LENGTH_BYTES = {b"\x93NUMPY\x01\x00": 2, b"\x93NUMPY\x02\x00": 4}
"""Magic and version → how many bytes tell the length of the header. Versions 1.0 and 2.0; 3.0 is for names of fields."""

# The header is a Python dictionary of three keys. NumPy evaluates it; what a matrix of numbers needs is so little
# that it is matched instead: nothing that was sent is ever parsed as Python.
FIELD = re.compile(r"""['"](descr|fortran_order|shape)['"]\s*:\s*('[^']*'|"[^"]*"|True|False|\([\d,\s]*\))""")
HEADER = re.compile(rf"\{{\s*(?:{FIELD.pattern}\s*,?\s*){{3}}\}}\s*")


def parse_matrix(body: bytes) -> NDArray[Any]:
    """The 2-D float32 or float64 matrix of an .npy body, as a read-only view of it.

    Refused with bad_npy: anything that is no .npy file of version 1 or 2, or whose size differs from
    what its header says; with invalid_field: another dtype or another number of dimensions.
    """
    dtype, fortran_order, shape, start = _header(body)
    if dtype not in DTYPES:
        raise Refusal("invalid_field", "a matrix has little-endian float32 or float64 entries", [Entry("#", "the dtype is not <f4 or <f8")])
    if len(shape) != 2:
        found = [Entry("#", f"the array has {len(shape)} dimensions")]
        raise Refusal("invalid_field", "a matrix has two dimensions: a row for each vector", found)
    if 0 in shape:
        raise Refusal("invalid_field", "the matrix is empty", [Entry("#", "there is no row or no column")])
    expected, given = shape[0] * shape[1] * int(dtype[2]), len(body) - start
    if expected != given:
        raise Refusal("bad_npy", f"the header announces {expected:,} bytes of entries, and {given:,} follow")
    return np.frombuffer(body, dtype=dtype, offset=start).reshape(shape, order="F" if fortran_order else "C")


def _header(body: bytes) -> tuple[str, bool, tuple[int, ...], int]:
    """dtype, column-major or not, shape, and where the entries start."""
    size = LENGTH_BYTES.get(body[:8], 0)
    length = int.from_bytes(body[8 : 8 + size], "little")
    start = 8 + size + length
    text = body[8 + size : start].decode("latin-1")
    if not size or length > HEADER_BYTES or len(body) < start or not HEADER.fullmatch(text):
        raise Refusal("bad_npy", "the header is not that of a matrix in an .npy file of version 1.0 or 2.0")
    fields = dict(FIELD.findall(text))
    shape = fields.get("shape", "")
    if fields.keys() != {"descr", "fortran_order", "shape"} or fields["fortran_order"] not in ("True", "False") or shape[0] != "(":
        raise Refusal("bad_npy", "the header is not that of a matrix in an .npy file of version 1.0 or 2.0")
    return fields["descr"][1:-1], fields["fortran_order"] == "True", tuple(int(part) for part in re.findall(r"\d+", shape)), start


def parse_ids(header: bytes) -> list[str]:
    """The ids of X-Kinbin-Ids: a JSON array of strings and integers, or a list with commas (UTF-8). Which are allowed, the library says."""
    text = header.strip()
    if not text.startswith(b"["):
        try:
            return [part.strip() for part in text.decode("utf-8").split(",")]
        except UnicodeDecodeError:
            raise Refusal("bad_id", "the header X-Kinbin-Ids is not UTF-8") from None
    try:
        ids = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise Refusal("bad_id", "the header X-Kinbin-Ids begins like a JSON array, and is none") from None
    named = [id_as_text(identifier) for identifier in ids]
    if not all(isinstance(identifier, str) for identifier in named):
        raise Refusal("bad_id", "the JSON array of the header X-Kinbin-Ids holds strings and 64-bit integers only")
    return named
