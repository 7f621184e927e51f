"""What the decorators of kernels promise: no references are counted, and no array is made unless a kernel says that it may."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

from kinbin.native.jit import owning, strict
from kinbin.native.records import LAYOUTS
from kinbin.segments.scan import scan


@strict
def makes_one(n):  # type: ignore[no-untyped-def]
    """Makes an array without leave."""
    return np.ones(n).sum()


@owning
def may_make_one(n):  # type: ignore[no-untyped-def]
    """Makes an array with leave."""
    return np.ones(n).sum()


def code_of_scans(**options: Any) -> str:
    """What exact scans are compiled to (not what lies in the cache, of which only the machine's code is left)."""
    again = numba.jit(**scan.targetoptions | options)(scan.py_func)
    names = ("SPACE", "RUN", "QUERIES", "SCRATCH", "ANSWERS")
    again.compile(tuple(numba.types.Array(numba.from_dtype(LAYOUTS[name].dtype), 1, "C") for name in names))
    (code,) = again.inspect_llvm().values()
    return str(code)


@pytest.mark.slow
def test_kernels_count_no_references() -> None:
    """Handing an array to an inlined function takes no atomic instruction, as it would if numba were left to itself."""
    counts = "@NRT_incref("
    assert counts not in code_of_scans()
    assert counts in code_of_scans(_nrt=True)


def test_arrays_are_made_with_leave_only() -> None:
    """A kernel that would leak an array is not compiled."""
    assert may_make_one(3) == 3.0
    with pytest.raises(numba.TypingError, match="array"):
        makes_one(3)
