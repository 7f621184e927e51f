"""What the decorators of kernels promise: no references are counted, and no array is made unless a kernel says that it may."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

from kinbin.kernels._jit import inline, owning, reassoc, strict


@inline
def total_of(values):  # type: ignore[no-untyped-def]
    """A function that is handed an array."""
    out = 0.0
    for x in range(len(values)):
        out += values[x]
    return out


@strict
def rows_strict(matrix):  # type: ignore[no-untyped-def]
    """A kernel that hands out an array in a loop."""
    out = 0.0
    for i in range(len(matrix)):
        out += total_of(matrix[i])
    return out


@reassoc
def rows_reassoc(matrix):  # type: ignore[no-untyped-def]
    """The same, of the other kind."""
    out = 0.0
    for i in range(len(matrix)):
        out += total_of(matrix[i])
    return out


@owning
def rows_owning(matrix):  # type: ignore[no-untyped-def]
    """The same, of the kind that may make arrays."""
    out = 0.0
    for i in range(len(matrix)):
        out += total_of(matrix[i])
    return out


@strict
def makes_one(n):  # type: ignore[no-untyped-def]
    """Makes an array without leave."""
    return np.ones(n).sum()


@owning
def may_make_one(n):  # type: ignore[no-untyped-def]
    """Makes an array with leave."""
    return np.ones(n).sum()


def code_of(kernel: Any, *arguments: Any) -> str:
    """What a kernel is compiled to for these arguments (not what lies in the cache, of which only the machine's code is left)."""
    again = numba.jit(**kernel.targetoptions)(kernel.py_func)
    again(*arguments)
    (code,) = again.inspect_llvm().values()
    return str(code)


@pytest.mark.parametrize("kernel", [rows_strict, rows_reassoc])
def test_kernels_count_no_references(kernel: Any) -> None:
    """Handing an array to an inlined function takes no atomic instruction; the kind that may own arrays shows that it otherwise would."""
    matrix = np.arange(12.0).reshape(3, 4)
    assert kernel(matrix) == 66.0
    assert "NRT_incref" not in code_of(kernel, matrix)
    assert "NRT_incref" in code_of(rows_owning, matrix)


def test_arrays_are_made_with_leave_only() -> None:
    """A kernel that would leak an array is not compiled."""
    assert may_make_one(3) == 3.0
    with pytest.raises(numba.TypingError, match="array"):
        makes_one(3)
