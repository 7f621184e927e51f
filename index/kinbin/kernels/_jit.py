"""The one door through which Kinbin reaches numba: named decorators, intrinsics, and an honest cache.

Kernels are serial and release the GIL; threads are the caller's business (parallel=True aborts a
process that calls it from several threads). No kernel here may assume finite values away.

`strict`     IEEE arithmetic in the written order: everything whose bits are stored (hashing).
`reassoc`    lets the compiler reorder sums, so that they vectorise; still respects NaN and infinity.
`inline`     a strict function that LLVM inlines into its callers. (Numba's own inlining infers the types of every copy
             anew, which took three quarters of the time that kernels take to compile.)
`owning`     a strict function that may create arrays.

Only the last counts references to arrays. Numba would count them in every function: two atomic instructions for each
array that is handed to another function, a tenth of a walk whose nodes lie in the caches. A function that creates an array
without being marked does not compile.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

__all__ = ["inline", "owning", "reassoc", "strict"]


def _sources_stamp() -> tuple[str, int]:
    """A digest of every source file of the package that compiles anything (they all name this module).

    Numba's cache watches only the file of the function itself, so that an edit of a function
    it calls elsewhere would leave stale machine code: stored hashes would silently change meaning.
    """
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(Path(__file__).parent.parent.rglob("*.py")):
        source = path.read_bytes()
        if b"kernels._jit" in source or path.parent == Path(__file__).parent:
            digest.update(source)
    return digest.hexdigest(), 0


_STAMP = _sources_stamp()


def _compile(function: Callable[..., Any], **options: Any) -> Any:
    dispatcher = numba.njit(nogil=True, cache=True, error_model="numpy", **options)(function)
    dispatcher._cache._cache_file._source_stamp = _STAMP
    return dispatcher


def strict(function: Callable[..., Any]) -> Any:
    """Compile with IEEE arithmetic in the written order."""
    return _compile(function, _nrt=False)


def owning(function: Callable[..., Any]) -> Any:
    """Compile strictly, with leave to create arrays."""
    return _compile(function)


def inline(function: Callable[..., Any]) -> Any:
    """Compile strictly, and inline into the callers."""
    return _compile(function, forceinline=True, _nrt=False)


def reassoc(function: Callable[..., Any]) -> Any:
    """Compile with leave to reorder sums (for scores, never for hashes)."""
    return _compile(function, _nrt=False, fastmath={"reassoc", "nsz", "contract"})
