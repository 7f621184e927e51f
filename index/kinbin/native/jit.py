"""The one door through which Kinbin reaches numba: named decorators. Where their code is kept: `machine_code`.

Kernels are serial and release the GIL; threads are the caller's business (parallel=True aborts a
process that calls it from several threads). No kernel here may assume finite values away.

`strict`     IEEE arithmetic in the written order: everything whose bits are stored (hashing).
`owning`     a strict function that may create arrays.
`inner`      a strict function that only kernels call.
`inline`     one that LLVM inlines into its callers. (Numba's own inlining infers the types of every copy anew, which took three
             quarters of the time that kernels take to compile.)
`reassoc`    lets the compiler reorder sums, so that they vectorise; still respects NaN and infinity. Only kernels call it.

Python cannot call the last three: `libraries.py` says what that saves.

Only `owning` functions count references to arrays. Numba would count them in every function: two atomic instructions for each
array that is handed to another function, a tenth of a walk whose nodes lie in the caches. A function that creates an array
without being marked does not compile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

from kinbin.native.libraries import InnerCompiler, keep_from_python
from kinbin.native.machine_code import keep_code
from kinbin.native.without_scipy import import_arrays

__all__ = ["inline", "inner", "owning", "reassoc", "strict"]

import_arrays()


def _compile(function: Callable[..., Any], *, inner: bool = False, **options: Any) -> Any:
    # Nobody asks for the addresses of kernels as C functions: code for that is left out.
    options |= {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    if inner:
        options |= {"pipeline_class": InnerCompiler, "no_cpython_wrapper": True, "_nrt": False}
    dispatcher: Any = numba.njit(**options)(function)
    keep_code(dispatcher)
    if inner:
        keep_from_python(dispatcher)
    return dispatcher


def strict(function: Callable[..., Any]) -> Any:
    """Compile with IEEE arithmetic in the written order."""
    return _compile(function, _nrt=False)


def owning(function: Callable[..., Any]) -> Any:
    """Compile strictly, with leave to create arrays."""
    return _compile(function)


def inner(function: Callable[..., Any]) -> Any:
    """Compile strictly, for kernels alone; LLVM decides whether to inline it."""
    return _compile(function, inner=True)


def inline(function: Callable[..., Any]) -> Any:
    """Compile strictly, for kernels alone, and inline into the callers."""
    return _compile(function, inner=True, forceinline=True)


def reassoc(function: Callable[..., Any]) -> Any:
    """Compile with leave to reorder sums (for scores, never for hashes), for kernels alone."""
    return _compile(function, inner=True, fastmath={"reassoc", "nsz", "contract"})
