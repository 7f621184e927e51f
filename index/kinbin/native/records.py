"""Records: what belongs together crosses into kernels as one structured array of one element.

A call of a kernel with 36 arguments costs 2.3 µs, with eight records 1.1 µs, with eight tuples of four 13 µs. A record is filled
once, by Python, for what lives long (a view, a link set, work space) and again for each batch of queries. It holds addresses and
numbers; whoever owns it keeps what they point to alive.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.native.memory import address_of

__all__ = ["LAYOUTS", "Layout", "Record"]

Record = NDArray[np.void]
_ELEMENTS = {"u8": "|u1", "u16": "<u2", "u32": "<u4", "u64": "<u8", "i64": "<i8", "f32": "<f4", "f64": "<f8"}
_NUMBERS = {"count": "<i8", "number": "<f8", "bits": "<u8", "address": "<u8"}
LAYOUTS: dict[str, Layout] = {}
"""All layouts by name: what kernels are called with is written down by these names (`specialisations.txt`)."""


class Layout:
    """The fields of a record.

    Each is a "count", a "number" (float64), "bits" (a number that shifts addresses), an "address" of anything, or the address of a
    contiguous array, which is told by its elements: "f32[]".
    """

    def __init__(self, name: str, **fields: tuple[str, str]) -> None:
        """fields: by name, what kind it is, and what it means."""
        self.name = name
        self.fields = fields
        self.dtype = np.dtype([(field, _NUMBERS.get(kind, "<u8")) for field, (kind, _) in fields.items()])
        self._elements = {field: np.dtype(_ELEMENTS[kind[:-2]]) for field, (kind, _) in fields.items() if kind.endswith("[]")}
        LAYOUTS[name] = self

    def offset(self, field: str) -> int:
        """Where a field lies in a record, in bytes: each takes eight."""
        return 8 * self.dtype.names.index(field) if self.dtype.names else 0

    def zeros(self, count: int = 1) -> Record:
        """So many records of zeros."""
        return np.zeros(count, self.dtype)

    def record(self, **values: Any) -> Record:
        """One record. Fields that are not given are 0."""
        out = self.zeros()
        self.fill(out, **values)
        return out

    def fill(self, record: Record, **values: Any) -> None:
        """Set some fields of one record; an array, which has to outlive the record, stands for its address.

        Cost: 2 µs an array, 0.3 µs a number.
        """
        one = record[0]
        for name, value in values.items():
            if isinstance(value, np.ndarray):
                assert value.dtype == self._elements[name], f"{self.name}.{name} is an array of {self._elements[name]}, not {value.dtype}"
                assert value.flags.c_contiguous, f"{self.name}.{name} is one piece of memory"
                one[name] = address_of(value)
            else:
                one[name] = value
