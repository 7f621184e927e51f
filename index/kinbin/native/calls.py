"""Compiled functions by their address: how kernels call code that they were not compiled with."""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

from typing import Any

import numba.extending
from llvmlite import ir
from numba import types

from kinbin.native.callbacks import Callback

__all__ = ["BOUND", "CURVE", "SCORE", "SKETCH", "call_bound", "call_curve", "call_score", "call_sketch", "code_address"]

intrinsic: Any = numba.extending.intrinsic

SCORE = (types.uint64, types.int64, types.uint64)
"""Arguments of a score: addresses of the row's record and of the look-up's, and between them the row's nonzeros."""
BOUND = (types.uint64, types.float64, types.float64, types.float64)
CURVE = (types.uint64, types.float64)
"""Arguments of the bounds of a space: first its context, an address. All of these functions return float64, and raise nothing."""
SKETCH = (types.uint64, types.int64, types.uint64, types.uint64)
"""Of making a sketch: addresses of an object's numbers, of the frame and of the sketch, and how many numbers there are."""


def code_address(kernel: Any, arguments: tuple[Any, ...]) -> int:
    """Where the machine code of a compiled function lies, for these types of arguments; it stays there as long as the process runs.

    Of a `Callback`, its address: as long as it lives. Cost: compiling, or loading (some ms), at first.
    """
    if isinstance(kernel, Callback):
        return kernel.address
    kernel.compile(arguments)
    entry = kernel.overloads[arguments]
    assert entry.signature.return_type == types.float64, f"{kernel.py_func.__qualname__} returns float64"
    return int(entry.library.get_pointer_to_function(entry.fndesc.llvm_func_name))


def _caller(arguments: tuple[Any, ...]) -> Any:
    """An intrinsic that calls such a function: (address, its arguments …) → float64."""

    def generate(context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        # Numba's own convention: where to put the result, where to put an exception, the arguments; returns a status.
        number, raised = ir.DoubleType(), ir.IntType(8).as_pointer()
        out, error = _slot(builder, number), _slot(builder, raised)
        kinds = [context.get_value_type(one) for one in arguments]
        kind = ir.FunctionType(ir.IntType(32), [number.as_pointer(), raised.as_pointer(), *kinds])
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), [out, error, *args[1:]])
        return builder.load(out)

    signature = types.float64(types.uint64, *arguments)
    if len(arguments) == 2:

        @intrinsic
        def call_two(_typing: Any, _address: Any, _a: Any, _b: Any) -> Any:
            return signature, generate

        return call_two
    if len(arguments) == 3:

        @intrinsic
        def call_three(_typing: Any, _address: Any, _a: Any, _b: Any, _c: Any) -> Any:
            return signature, generate

        return call_three

    @intrinsic
    def call_four(_typing: Any, _address: Any, _a: Any, _b: Any, _c: Any, _d: Any) -> Any:
        return signature, generate

    return call_four


def _slot(builder: Any, kind: Any) -> Any:
    """Room on the stack, taken once for each function and not for each turn of a loop."""
    with builder.goto_entry_block():
        return builder.alloca(kind)


call_score = _caller(SCORE)
call_bound = _caller(BOUND)
call_curve = _caller(CURVE)
call_sketch = _caller(SKETCH)
