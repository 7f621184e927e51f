"""Eight float64 lanes at a time, as LLVM vectors: the inner steps of distances of series and of point sets.

Left to itself the compiler takes loops of a dozen turns one by one. Points lie in *planes*: all first coordinates, then all second ones,
`stride` bytes apart, float32. Differences, squares and sums are float64. The least of two numbers is the second where one is NaN.
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numba.extending
from llvmlite import ir
from numba import types
from numba.core import cgutils

__all__ = ["LANES", "least_of_lanes", "lower_lanes", "reach_lanes", "warp_lanes"]

LANES = 8
_DOUBLE = ir.DoubleType()
_NARROW = ir.VectorType(ir.FloatType(), LANES)
_WIDE = ir.VectorType(_DOUBLE, LANES)
_I32 = ir.IntType(32)
intrinsic: Any = numba.extending.intrinsic
ADDRESS = types.uint64


def _load(builder: Any, address: Any, kind: Any) -> Any:
    value = builder.load(builder.inttoptr(address, kind.as_pointer()))
    value.align = 4
    return value


def _all_lanes(builder: Any, value: Any) -> Any:
    """A number in every lane."""
    undefined = ir.Constant(_WIDE, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(_I32, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(_I32, LANES), [0] * LANES))


def _lesser(builder: Any, one: Any, other: Any) -> Any:
    return builder.select(builder.fcmp_ordered("<", one, other), one, other)


def _least(builder: Any, lanes: Any) -> Any:
    """The least of eight lanes."""
    undefined = ir.Constant(_WIDE, ir.Undefined)
    for step in (4, 2, 1):
        moved = builder.shuffle_vector(
            lanes, undefined, ir.Constant(ir.VectorType(_I32, LANES), [(lane + step) % LANES for lane in range(LANES)])
        )
        lanes = _lesser(builder, lanes, moved)
    return builder.extract_element(lanes, ir.Constant(_I32, 0))


def _squared(builder: Any, dims: Any, pair: Callable[[Any], tuple[Any, Any]]) -> Any:
    """Σ (a − b)² over dimensions. pair: the two vectors, or lanes, of one."""
    total = cgutils.alloca_once_value(builder, ir.Constant(_WIDE, [0.0] * LANES))
    builder.store(ir.Constant(_WIDE, [0.0] * LANES), total)
    with cgutils.for_range(builder, dims) as loop:
        left, right = pair(loop.index)
        apart = builder.fsub(left, right)
        builder.store(builder.fadd(builder.load(total), builder.fmul(apart, apart)), total)
    return builder.load(total)


def _plane(builder: Any, address: Any, stride: Any, index: Any) -> Any:
    """Eight values of one plane, as float64."""
    return builder.fpext(_load(builder, builder.add(address, builder.mul(stride, index)), _NARROW), _WIDE)


def _to_points(builder: Any, args: Any) -> Any:
    """Squared distances from a point to eight that lie in planes."""
    point, planes, stride, dims = args

    def pair(index: Any) -> tuple[Any, Any]:
        place = builder.add(point, builder.mul(index, ir.Constant(index.type, 4)))
        own = builder.fpext(_load(builder, place, ir.FloatType()), _DOUBLE)
        return _all_lanes(builder, own), _plane(builder, planes, stride, index)

    return _squared(builder, dims, pair)


@intrinsic
def least_of_lanes(_typing: Any, point: Any, planes: Any, stride: Any, dims: Any) -> Any:
    """The least squared distance from a point (dims float32 at an address) to eight points in planes."""

    def generate(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        return _least(builder, _to_points(builder, args))

    return types.float64(ADDRESS, ADDRESS, ADDRESS, types.int64), generate


@intrinsic
def lower_lanes(_typing: Any, point: Any, planes: Any, stride: Any, dims: Any, least: Any) -> Any:
    """The same; besides, eight float64 at `least` become as small as the squared distance to each of the points."""

    def generate(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        apart = _to_points(builder, args[:4])
        place = builder.inttoptr(args[4], _WIDE.as_pointer())
        store = builder.store(_lesser(builder, apart, _load(builder, args[4], _WIDE)), place)
        store.align = 8
        return _least(builder, apart)

    return types.float64(ADDRESS, ADDRESS, ADDRESS, types.int64, ADDRESS), generate


@intrinsic
def reach_lanes(_typing: Any, points: Any, count: Any, planes: Any, stride: Any, dims: Any, share: Any, out: Any) -> Any:
    """How far eight points in planes are from the nearest of `count` points (dims float32 each, at an address): eight uint8 at `out`.

    Each is the whole number below share · distance, 255 at most.
    """

    def generate(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        points, count, planes, stride, dims, share, out = args
        nearest = cgutils.alloca_once_value(builder, ir.Constant(_WIDE, [math.inf] * LANES))
        builder.store(ir.Constant(_WIDE, [math.inf] * LANES), nearest)
        step = builder.mul(dims, ir.Constant(dims.type, 4))
        with cgutils.for_range(builder, count) as loop:
            point = builder.add(points, builder.mul(loop.index, step))
            apart = _to_points(builder, (point, planes, stride, dims))
            builder.store(_lesser(builder, apart, builder.load(nearest)), nearest)
        root = cgutils.get_or_insert_function(builder.module, ir.FunctionType(_WIDE, [_WIDE]), f"llvm.sqrt.v{LANES}f64")
        far = builder.fmul(builder.call(root, [builder.load(nearest)]), _all_lanes(builder, share))
        kind = ir.VectorType(ir.IntType(8), LANES)
        small = builder.fptoui(_lesser(builder, far, ir.Constant(_WIDE, [255.0] * LANES)), ir.VectorType(_I32, LANES))
        store = builder.store(builder.trunc(small, kind), builder.inttoptr(out, kind.as_pointer()))
        store.align = 1
        return _context.get_dummy_value()

    return types.void(ADDRESS, types.int64, ADDRESS, ADDRESS, types.int64, types.float64, ADDRESS), generate


@intrinsic
def warp_lanes(_typing: Any, cells: Any, before: Any, earlier: Any, x: Any, y: Any, x_stride: Any, y_stride: Any, dims: Any) -> Any:
    """Eight cells of an anti-diagonal of a warping: their cost, and the least of the three cells that lead there.

    cells: where they go (float64). before: the cells in the same places of the diagonal before, which lead there by a step of y; those
    one place earlier lead there by a step of x. earlier: the cells one place earlier of the diagonal before that. x, y: their values
    in planes.
    """

    def generate(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        cells, before, earlier, x, y, x_stride, y_stride, dims = args

        def pair(index: Any) -> tuple[Any, Any]:
            return _plane(builder, x, x_stride, index), _plane(builder, y, y_stride, index)

        cost = _squared(builder, dims, pair)
        step = ir.Constant(before.type, 8)
        led = _lesser(builder, _load(builder, before, _WIDE), _load(builder, builder.sub(before, step), _WIDE))
        led = _lesser(builder, led, _load(builder, earlier, _WIDE))
        store = builder.store(builder.fadd(cost, led), builder.inttoptr(cells, _WIDE.as_pointer()))
        store.align = 8
        return _context.get_dummy_value()

    return types.void(*[ADDRESS] * 7, types.int64), generate
