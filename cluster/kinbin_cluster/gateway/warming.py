"""Loads what the first add of a gateway would otherwise wait for, on the event loop, with all other requests behind it.

That is 0.6 s of processor in a fresh process: numba, and the machine code of the kernels that items are checked by.
"""

from __future__ import annotations

import logging

import numpy as np

import kinbin

__all__ = ["load_kernels"]

log = logging.getLogger("kinbin.gateway")


def load_kernels() -> None:
    """Check an item of each form that vectors come in, as adds do. Never raises: what cannot be loaded is loaded when it is needed."""
    try:
        dense, sparse = kinbin.Schema(dim=2), kinbin.Schema()
        for form in ([[1.0, 0.5]], np.ones((1, 2), np.float32)):
            dense.check(["a"], form)
        sparse.check(["a"], [kinbin.Sparse([1, 5], [1.0, 2.0])])
    except Exception:
        log.exception("kernels were not loaded: the first add does it")
