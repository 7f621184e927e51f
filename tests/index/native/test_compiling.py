"""What the decorators of kernels promise: no references are counted, and no array is made unless a kernel says that it may."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

from kinbin.links.walk import walk
from kinbin.native.jit import owning, strict


@strict
def makes_one(n):  # type: ignore[no-untyped-def]
    """Makes an array without leave."""
    return np.ones(n).sum()


@owning
def may_make_one(n):  # type: ignore[no-untyped-def]
    """Makes an array with leave."""
    return np.ones(n).sum()


def code_of_walks(**options: Any) -> str:
    """What walks over codes of bytes are compiled to (not what lies in the cache, of which only the machine's code is left)."""
    again = numba.jit(**walk.targetoptions | options)(walk.py_func)
    words, bits, places = (numba.types.Array(one, 1, "C") for one in (numba.uint64, numba.uint8, numba.int64))
    entries = numba.types.Array(numba.uint32, 1, "C")
    again.compile(
        (words, numba.float64, numba.boolean, numba.uint64, numba.none, numba.float32, entries, numba.int64, numba.int64, numba.int64,
         words, bits, places, words)
    )  # fmt: skip
    (code,) = again.inspect_llvm().values()
    return str(code)


def test_walks_count_no_references() -> None:
    """Handing an array to an inlined function takes no atomic instruction, as it would if numba were left to itself."""
    counts = "@NRT_incref("
    assert counts not in code_of_walks()
    assert counts in code_of_walks(_nrt=True)


def test_arrays_are_made_with_leave_only() -> None:
    """A kernel that would leak an array is not compiled."""
    assert may_make_one(3) == 3.0
    with pytest.raises(numba.TypingError, match="array"):
        makes_one(3)
