"""The sorted pool of a walk: a key is put where a sorted list has it, and nothing else moves."""

from __future__ import annotations

import bisect

import numpy as np
import pytest
from numpy.typing import NDArray

from kinbin.links.walk import EMPTY, clear_pool, put_in
from kinbin.native.jit import strict
from kinbin.native.memory import move_up, put_in_order
from kinbin.rows.scratch import BLOCK, BYTES, Scratch

LARGEST = 2**64 - 1


@strict
def _fill(pool, size, keys, places):  # type: ignore[no-untyped-def]
    """Put keys into an empty pool, as walks do: those that are not less than its last are turned away."""
    clear_pool(pool, 0, size)
    for x in range(len(keys)):
        places[x] = -1
        if keys[x] < pool[size - 1]:
            places[x] = put_in(pool, size, keys[x])


@strict
def _widen(pool, size, wider, keys):  # type: ignore[no-untyped-def]
    """Let a pool grow, and put more keys in."""
    clear_pool(pool, size, wider)
    for x in range(len(keys)):
        if keys[x] < pool[wider - 1]:
            put_in(pool, wider, keys[x])


@strict
def _put_in_order(block, key):  # type: ignore[no-untyped-def]
    return put_in_order(np.uint64(block.ctypes.data), key)


@strict
def _move_up(numbers, place):  # type: ignore[no-untyped-def]
    move_up(np.uint64(numbers.ctypes.data) + np.uint64(8 * place))


def pool_of(size: int) -> NDArray[np.uint64]:
    """A pool as walks have it."""
    scratch = Scratch(wide=False)
    scratch.walk(64, size, BYTES)
    pool: NDArray[np.uint64] = scratch._kept["pool"]
    return pool


def sorted_in(pool: list[int], size: int, keys: list[int]) -> list[int]:
    """The slow twin: puts keys into a sorted list that is cut at `size`. Returns the place of each, -1 of those turned away."""
    places = []
    for key in keys:
        if len(pool) == size and key >= pool[-1]:
            places.append(-1)
            continue
        places.append(bisect.bisect_left(pool, key))
        pool.insert(places[-1], key)
        del pool[size:]
    return places


def some_keys(rng: np.random.Generator, count: int) -> list[int]:
    """Distinct keys, as far apart as ranks and nodes are, and the extremes."""
    close = rng.integers(0, 4, count, dtype=np.uint64) << np.uint64(32) | rng.permutation(count).astype(np.uint64) << np.uint64(1)
    far = rng.integers(0, LARGEST, count, dtype=np.uint64, endpoint=True)
    keys = {*close.tolist(), *far.tolist(), 0, 1, 2**63 - 1, 2**63, 2**63 + 1, LARGEST - 1} - {LARGEST}
    return [int(key) for key in rng.permutation(np.array(sorted(keys), np.uint64))]


@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 10, 16, 31, 32, 33, 39, 40, 41, 100, 200, 512])
def test_a_pool_is_a_sorted_list(size: int, rng: np.random.Generator) -> None:
    """Keys in any order, ascending and descending among them, lie where a sorted list has them, and are told that place."""
    pool = pool_of(size)
    keys = some_keys(rng, 700)
    for order in (keys, sorted(keys), sorted(keys, reverse=True), keys[: size // 2]):
        expected: list[int] = []
        wanted = sorted_in(expected, size, order)
        places = np.empty(len(order), np.int64)
        _fill(pool, size, np.array(order, np.uint64), places)
        assert places.tolist() == wanted
        assert pool[:size].tolist() == expected + [int(EMPTY)] * (size - len(expected))


@pytest.mark.parametrize(("size", "wider"), [(1, 2), (7, 9), (10, 11), (10, 16), (33, 80), (100, 512)])
def test_a_pool_that_grows_is_a_sorted_list(size: int, wider: int, rng: np.random.Generator) -> None:
    """What fell out of a narrower pool is not in the wider one, whatever lies behind its last place."""
    pool = pool_of(wider)
    keys = some_keys(rng, 300)
    first, then = keys[:250], keys[250:]
    expected: list[int] = []
    sorted_in(expected, size, first)
    sorted_in(expected, wider, then)
    _fill(pool, size, np.array(first, np.uint64), np.empty(len(first), np.int64))
    _widen(pool, size, wider, np.array(then, np.uint64))
    assert pool[:wider].tolist() == expected + [int(EMPTY)] * (wider - len(expected))


def test_a_key_among_eight(rng: np.random.Generator) -> None:
    """The key comes in where a sorted list has it, and the last of all nine falls out."""
    for _ in range(500):
        block = np.sort(rng.integers(0, (20, LARGEST)[int(rng.integers(2))], BLOCK, dtype=np.uint64, endpoint=True))
        key = int(rng.choice(block)) if rng.random() < 0.5 else int(rng.integers(0, LARGEST, dtype=np.uint64))
        below = sum(one < key for one in block.tolist())
        expected = sorted([*block.tolist(), key])[:BLOCK]
        assert _put_in_order(block, np.uint64(key)) == below
        assert block.tolist() == expected


def test_eight_move_up_by_one() -> None:
    """The eight before a place and at it move on by one; nothing else changes."""
    numbers = np.arange(24, dtype=np.uint64)
    _move_up(numbers, 8)
    assert numbers.tolist() == [*range(8), *range(7, 15), *range(16, 24)]


@pytest.mark.parametrize("size", [1, 8, 10, 100, 511])
def test_a_pool_has_room_for_whole_blocks(size: int) -> None:
    """A pool begins with a cache line, and holds a whole number of blocks."""
    pool = pool_of(size)
    assert len(pool) >= size
    assert len(pool) % BLOCK == 0
    assert pool.ctypes.data % 64 == 0
