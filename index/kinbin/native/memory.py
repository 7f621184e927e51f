"""Reading memory by address: how kernels see blocks that lie inside the store's map, without a copy.

An address is a uint64. Whoever passes one to a kernel guarantees that the bytes stay mapped for the
whole call (a read snapshot is open) and that the sizes are right; kernels check every number they
read from stored bytes against those sizes before they use it as a place.
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

from typing import Any

import numba.extending
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.np import arrayobj
from numpy.typing import NDArray

__all__ = [
    "absolute_differences_64",
    "absolute_differences_128",
    "address_of",
    "any_differs_64",
    "count_equal_u16",
    "f32_array",
    "f64_array",
    "float32_at",
    "float64_at",
    "greatest_difference_64",
    "i64_array",
    "i64_at",
    "item",
    "mask_at_least",
    "move_up",
    "pointer_f32",
    "pointer_u16",
    "pointer_u32",
    "pointer_u64",
    "prefetch",
    "put_in_order",
    "set_bits",
    "squared_differences_64",
    "squared_differences_128",
    "trailing_zeros",
    "u8_array",
    "u8_at",
    "u16_array",
    "u16_at",
    "u32_array",
    "u32_at",
    "u64_array",
    "u64_at",
]

_LANES = 64
intrinsic: Any = numba.extending.intrinsic


def address_of(array: NDArray[Any]) -> int:
    """Where an array's bytes are; it must live as long as this is used."""
    return int(array.__array_interface__["data"][0])


def _pointer(element: Any) -> Any:
    """An intrinsic that turns an address into a typed pointer, for `item`."""

    @intrinsic
    def pointer(_typing: Any, address: Any) -> Any:
        signature = types.CPointer(element)(types.uint64)

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], context.get_value_type(sig.return_type))

        return signature, generate

    return pointer


pointer_u16 = _pointer(types.uint16)
pointer_u32 = _pointer(types.uint32)
pointer_u64 = _pointer(types.uint64)
pointer_f32 = _pointer(types.float32)


@intrinsic
def item(_typing: Any, pointer: Any, index: Any) -> Any:
    """The value so many places after a typed pointer (any alignment): unlike loads by address, loops over it become vectors."""
    signature = pointer.dtype(pointer, types.int64)

    def generate(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        value = builder.load(builder.gep(args[0], [args[1]]))
        value.align = 1
        return value

    return signature, generate


def _load(element: Any) -> Any:
    """An intrinsic that loads one value from an address (any alignment)."""

    @intrinsic
    def load(_typing: Any, address: Any) -> Any:
        signature = element(types.uint64)

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            pointer = builder.inttoptr(args[0], context.get_value_type(sig.return_type).as_pointer())
            value = builder.load(pointer)
            value.align = 1
            return value

        return signature, generate

    return load


u8_at = _load(types.uint8)
u16_at = _load(types.uint16)
u32_at = _load(types.uint32)
u64_at = _load(types.uint64)
i64_at = _load(types.int64)
float32_at = _load(types.float32)
float64_at = _load(types.float64)


def _array(element: Any) -> Any:
    """An intrinsic: the (n,) array at an address. Kernels that are handed records see the arrays of their callers in this way."""

    @intrinsic
    def array(_typing: Any, address: Any, size: Any) -> Any:
        signature = types.Array(element, 1, "C")(types.uint64, types.int64)

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            out = arrayobj.make_array(sig.return_type)(context, builder)
            width = context.get_abi_sizeof(context.get_data_type(element))
            arrayobj.populate_array(
                out,
                data=builder.inttoptr(args[0], context.get_data_type(element).as_pointer()),
                shape=[args[1]],
                strides=[context.get_constant(types.intp, width)],
                itemsize=context.get_constant(types.intp, width),
                meminfo=None,
            )
            return out._getvalue()

        return signature, generate

    return array


u8_array = _array(types.uint8)
u16_array = _array(types.uint16)
u32_array = _array(types.uint32)
u64_array = _array(types.uint64)
i64_array = _array(types.int64)
f32_array = _array(types.float32)
f64_array = _array(types.float64)


@intrinsic
def prefetch(_typing: Any, address: Any) -> Any:
    """Ask for the cache line at an address; harmless for any address."""
    signature = types.void(types.uint64)

    def generate(context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        byte_pointer = ir.IntType(8).as_pointer()
        int32 = ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [byte_pointer, int32, int32, int32]), "llvm.prefetch.p0i8"
        )
        pointer = builder.inttoptr(args[0], byte_pointer)
        builder.call(function, [pointer, ir.Constant(int32, 0), ir.Constant(int32, 3), ir.Constant(int32, 1)])
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def count_equal_u16(_typing: Any, left: Any, right: Any) -> Any:
    """How many of the 64 uint16 at one address equal those at another: one compare and a population count."""
    signature = types.int64(types.uint64, types.uint64)

    def generate(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        vector = ir.VectorType(ir.IntType(16), _LANES)
        loads = []
        for address in args:
            load = builder.load(builder.inttoptr(address, vector.as_pointer()))
            load.align = 1
            loads.append(load)
        equal = builder.icmp_unsigned("==", loads[0], loads[1])
        mask = builder.bitcast(equal, ir.IntType(_LANES))
        return builder.ctpop(mask)

    return signature, generate


@intrinsic
def mask_at_least(_typing: Any, address: Any, level: Any) -> Any:
    """A bit for each of the 64 uint8 from an address on: set where it is at least `level`."""
    signature = types.uint64(types.uint64, types.uint8)

    def generate(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        vector = ir.VectorType(ir.IntType(8), _LANES)
        load = builder.load(builder.inttoptr(args[0], vector.as_pointer()))
        load.align = 1
        first = builder.insert_element(ir.Constant(vector, ir.Undefined), args[1], ir.Constant(ir.IntType(32), 0))
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), _LANES), [0] * _LANES)
        levels = builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), lanes)
        return builder.bitcast(builder.icmp_unsigned(">=", load, levels), ir.IntType(_LANES))

    return signature, generate


def _eight(builder: Any, address: Any, moved: int = 0) -> tuple[Any, Any]:
    """8 uint64 from so many places after an address on: where they lie, and they."""
    place = builder.add(address, ir.Constant(ir.IntType(64), 8 * moved)) if moved else address
    pointer = builder.inttoptr(place, ir.VectorType(ir.IntType(64), 8).as_pointer())
    value = builder.load(pointer)
    value.align = 8
    return pointer, value


@intrinsic
def move_up(_typing: Any, address: Any) -> Any:
    """Copy the 8 uint64 that begin one place before an address to it."""

    def generate(context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        _, value = _eight(builder, args[0], -1)
        store = builder.store(value, builder.inttoptr(args[0], value.type.as_pointer()))
        store.align = 8
        return context.get_dummy_value()

    return types.void(types.uint64), generate


@intrinsic
def put_in_order(_typing: Any, address: Any, key: Any) -> Any:
    """Put a key in its place among the 8 ascending uint64 from an address on; the last falls out. Returns how many of them are less.

    The key is less than the last, or it falls out itself. There is no branch that depends on it.
    """

    def generate(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        one = ir.IntType(32)
        pointer, old = _eight(builder, args[0])
        nothing = ir.Constant(old.type, ir.Undefined)
        first = builder.insert_element(nothing, args[1], ir.Constant(one, 0))
        keys = builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(one, 8), [0] * 8))
        moved = builder.shuffle_vector(keys, old, ir.Constant(ir.VectorType(one, 8), list(range(7, 15))))
        stays = builder.icmp_unsigned("<", old, keys)
        greater = builder.select(builder.icmp_unsigned(">", moved, keys), moved, keys)
        store = builder.store(builder.select(stays, old, greater), pointer)
        store.align = 8
        return builder.zext(builder.ctpop(builder.bitcast(stays, ir.IntType(8))), ir.IntType(64))

    return types.int64(types.uint64, types.uint64), generate


@intrinsic
def trailing_zeros(_typing: Any, mask: Any) -> Any:
    """The place of the lowest set bit of a uint64 (64 for none)."""
    signature = types.int64(types.uint64)

    def generate(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return signature, generate


@intrinsic
def set_bits(_typing: Any, mask: Any) -> Any:
    """How many bits of a uint64 are set."""
    signature = types.int64(types.uint64)

    def generate(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return signature, generate


def _absolute_differences(lanes: int) -> Any:
    """An intrinsic: Σ |a − b| over so many uint8 at two addresses, by the sum-of-absolute-differences instruction where there is one."""

    @intrinsic
    def absolute_differences(_typing: Any, left: Any, right: Any) -> Any:
        signature = types.uint32(types.uint64, types.uint64)

        def generate(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
            narrow = ir.VectorType(ir.IntType(8), lanes)
            wide = ir.VectorType(ir.IntType(32), lanes)
            loads = []
            for address in args:
                load = builder.load(builder.inttoptr(address, narrow.as_pointer()))
                load.align = 1
                loads.append(builder.zext(load, wide))
            module = builder.module
            magnitude = cgutils.get_or_insert_function(module, ir.FunctionType(wide, [wide, ir.IntType(1)]), f"llvm.abs.v{lanes}i32")
            total = cgutils.get_or_insert_function(module, ir.FunctionType(ir.IntType(32), [wide]), f"llvm.vector.reduce.add.v{lanes}i32")
            differences = builder.call(magnitude, [builder.sub(loads[0], loads[1]), ir.Constant(ir.IntType(1), 0)])
            return builder.call(total, [differences])

        return signature, generate

    return absolute_differences


@intrinsic
def greatest_difference_64(_typing: Any, left: Any, right: Any) -> Any:
    """The greatest |a − b| of 64 uint8 at two addresses."""
    signature = types.uint8(types.uint64, types.uint64)

    def generate(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        most = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.IntType(8), [_BYTES_64]), "llvm.vector.reduce.umax.v64i8")
        return builder.call(most, [_apart_64(builder, *args)])

    return signature, generate


_BYTES_64 = ir.VectorType(ir.IntType(8), 64)


def _apart_64(builder: Any, left: Any, right: Any) -> Any:
    """|a − b| of 64 uint8 at two addresses."""
    one, other = (builder.load(builder.inttoptr(address, _BYTES_64.as_pointer())) for address in (left, right))
    one.align = other.align = 1
    less = cgutils.get_or_insert_function(builder.module, ir.FunctionType(_BYTES_64, [_BYTES_64, _BYTES_64]), "llvm.usub.sat.v64i8")
    return builder.or_(builder.call(less, [one, other]), builder.call(less, [other, one]))


@intrinsic
def any_differs_64(_typing: Any, left: Any, right: Any, most: Any) -> Any:
    """Whether any of 64 uint8 at two addresses differ by more than `most`, a uint8."""
    signature = types.boolean(types.uint64, types.uint64, types.uint8)

    def generate(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        undefined, lanes = ir.Constant(_BYTES_64, ir.Undefined), ir.VectorType(ir.IntType(32), 64)
        first = builder.insert_element(undefined, args[2], ir.Constant(ir.IntType(32), 0))
        beyond = builder.icmp_unsigned(
            ">", _apart_64(builder, *args[:2]), builder.shuffle_vector(first, undefined, ir.Constant(lanes, [0] * 64))
        )
        return builder.icmp_unsigned("!=", builder.bitcast(beyond, ir.IntType(64)), ir.Constant(ir.IntType(64), 0))

    return signature, generate


absolute_differences_64 = _absolute_differences(64)
absolute_differences_128 = _absolute_differences(128)


def _squared_differences(lanes: int) -> Any:
    """An intrinsic: Σ (a − b)² over so many uint8 at two addresses.

    Differences are taken in 16 bits: their products are added up in pairs, by the instruction that there is for it.
    """

    @intrinsic
    def squared_differences(_typing: Any, left: Any, right: Any) -> Any:
        signature = types.uint32(types.uint64, types.uint64)

        def generate(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
            narrow, half, wide = (ir.VectorType(ir.IntType(bits), lanes) for bits in (8, 16, 32))
            loads = []
            for address in args:
                load = builder.load(builder.inttoptr(address, narrow.as_pointer()))
                load.align = 1
                loads.append(builder.zext(load, half))
            difference = builder.sext(builder.sub(loads[0], loads[1]), wide)
            function = ir.FunctionType(ir.IntType(32), [wide])
            total = cgutils.get_or_insert_function(builder.module, function, f"llvm.vector.reduce.add.v{lanes}i32")
            return builder.call(total, [builder.mul(difference, difference)])

        return signature, generate

    return squared_differences


squared_differences_64 = _squared_differences(64)
squared_differences_128 = _squared_differences(128)
