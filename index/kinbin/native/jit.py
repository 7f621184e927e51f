"""The one door through which Kinbin reaches numba: named decorators. Where their code is kept: `machine_code`.

Kernels are serial and release the GIL; threads are the caller's business (parallel=True aborts a
process that calls it from several threads). No kernel here may assume finite values away.

`strict`     IEEE arithmetic in the written order: everything whose bits are stored (hashing).
`reassoc`    lets the compiler reorder sums, so that they vectorise; still respects NaN and infinity.
`inline`     a strict function that LLVM inlines into its callers; Python cannot call it. (Numba's own inlining infers the types
             of every copy anew, which took three quarters of the time that kernels take to compile.)
`owning`     a strict function that may create arrays.

Only the last counts references to arrays. Numba would count them in every function: two atomic instructions for each
array that is handed to another function, a tenth of a walk whose nodes lie in the caches. A function that creates an array
without being marked does not compile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

from kinbin.native.machine_code import keep_code, keep_from_python

__all__ = ["inline", "owning", "reassoc", "strict"]


def _compile(function: Callable[..., Any], **options: Any) -> Any:
    # Nobody asks for the addresses of kernels as C functions: code for that is left out.
    options |= {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    dispatcher: Any = numba.njit(**options)(function)
    keep_code(dispatcher)
    return dispatcher


def strict(function: Callable[..., Any]) -> Any:
    """Compile with IEEE arithmetic in the written order."""
    return _compile(function, _nrt=False)


def owning(function: Callable[..., Any]) -> Any:
    """Compile strictly, with leave to create arrays."""
    return _compile(function)


def inline(function: Callable[..., Any]) -> Any:
    """Compile strictly, and inline into the callers."""
    dispatcher = _compile(function, forceinline=True, _nrt=False, no_cpython_wrapper=True)
    keep_from_python(dispatcher)
    return dispatcher


def reassoc(function: Callable[..., Any]) -> Any:
    """Compile with leave to reorder sums (for scores, never for hashes)."""
    return _compile(function, _nrt=False, fastmath={"reassoc", "nsz", "contract"})
