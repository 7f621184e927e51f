"""A logarithm of plain arithmetic: unlike that of the C library it is inlined, and loops over it become vectors."""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
from __future__ import annotations

from typing import Any

import numba.extending
import numpy as np
from llvmlite import ir
from numba import types

from kinbin.native.jit import inline

__all__ = ["log2"]

intrinsic: Any = numba.extending.intrinsic
U64 = np.uint64
_MANTISSA, _ONE, _SHIFTER = U64(0x000FFFFFFFFFFFFF), U64(0x3FF0000000000000), U64(0x4330000000000000)
_BIASED = 4503599627370496.0 + 1023.0
_ROOT = 1.4142135623730951
_TWICE = 2.8853900817779268
"""2 / ln 2."""


@intrinsic
def _bits_of(_typing: Any, _value: Any) -> Any:
    """The bits of a float64."""
    signature = types.uint64(types.float64)

    def generate(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(64))

    return signature, generate


@intrinsic
def _with_bits(_typing: Any, _bits: Any) -> Any:
    """The float64 of these bits."""
    signature = types.float64(types.uint64)

    def generate(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return signature, generate


@inline
def log2(x):
    """The binary logarithm of a normal x > 0, to 4e-16 of its size, and 0 or less up to 1. Of 0 it is some -1023.

    x = m 2^e with m between 1/√2 and √2; log2 m = 2 atanh(s) / ln 2 with s = (m − 1) / (m + 1), by its series up to s^19.
    """
    bits = _bits_of(x)
    exponent = _with_bits((bits >> U64(52)) | _SHIFTER) - _BIASED
    mantissa = _with_bits((bits & _MANTISSA) | _ONE)
    high = mantissa > _ROOT
    mantissa = 0.5 * mantissa if high else mantissa
    exponent = exponent + 1.0 if high else exponent
    s = (mantissa - 1.0) / (mantissa + 1.0)
    z = s * s
    series = 1 / 15 + z * (1 / 17 + z * (1 / 19))
    series = 1 / 9 + z * (1 / 11 + z * (1 / 13 + z * series))
    series = 1.0 + z * (1 / 3 + z * (1 / 5 + z * (1 / 7 + z * series)))
    return exponent + _TWICE * s * series
