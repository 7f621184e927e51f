"""numba without SciPy: whoever compiles linear algebra imports it then.

Where SciPy is installed, numba imports `scipy.linalg` when its first function is compiled or loaded, to see whether that could be done:
a quarter of a second of every process that opens a database. No kernel here has linear algebra; of other users of numba in the same
process those that have import it themselves, as they did.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec

__all__ = ["import_arrays"]

_WHOSE, _WHERE, _WHAT = "numba.np.linalg", "numba.np.arraymath", "ensure_blas"


def import_arrays() -> None:
    """Import what numba knows of arrays; that looks whether SciPy is there, and does not import it."""
    if _WHERE in sys.modules:
        return
    linalg = import_module(_WHOSE)
    own = getattr(linalg, _WHAT)

    def is_there() -> None:
        if find_spec("scipy") is None:
            raise ImportError("there is no SciPy")

    setattr(linalg, _WHAT, is_there)
    try:
        setattr(import_module(_WHERE), _WHAT, own)
    finally:
        setattr(linalg, _WHAT, own)
