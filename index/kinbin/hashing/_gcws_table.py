"""The parameters of GCWS: filling a `ParameterTable` of three planes, r, beta and log c - r (HASHING.md, section 3)."""

from __future__ import annotations

import numpy as np

from kinbin.hashing._parameters import find
from kinbin.hashing.arithmetic import GAMMA, mix64, ordered_log, split_feature, unit
from kinbin.native.jit import strict

__all__ = ["resolve"]


@strict
def _fill(target, key):  # type: ignore[no-untyped-def]
    """Write r, beta and log c - r of one (split feature, x): target (3, width) float32. HASHING.md, section 3."""
    for j in range(target.shape[1]):
        h = key + np.uint64(5 * j) * GAMMA
        r = -ordered_log(unit(mix64(h)) * unit(mix64(h + GAMMA)))
        c = -ordered_log(unit(mix64(h + np.uint64(2) * GAMMA)) * unit(mix64(h + np.uint64(3) * GAMMA)))
        target[0, j] = np.float32(r)
        target[1, j] = np.float32(unit(mix64(h + np.uint64(4) * GAMMA)))
        target[2, j] = np.float32(ordered_log(c) - r)


@strict
def resolve(features, values, r, table, sketch_keys, slot_key, budget, slots):  # type: ignore[no-untyped-def]
    """Give every nonzero a slot whose sketches x < r are filled; return the first one not done.

    slots int32 receives the slot of each. Stops early when the table is full or `budget` (split feature, x) pairs were
    generated, whichever comes first. Mutates the table (`ParameterTable.arrays`): the caller holds the cache's lock.
    Feature ids and values are canonical; about 3 ns a nonzero that is there.
    """
    parameters, ids, levels, index, used = table
    capacity = ids.shape[0]
    for p in range(len(features)):
        split = split_feature(features[p], values[p])
        at, slot = find(split, ids, index, slot_key)
        level = levels[slot] if slot >= 0 else 0
        if level < r:
            if budget < r - level:
                return p
            if slot < 0:
                if used[0] == capacity:
                    return p
                slot = np.int32(used[0])
                used[0] += 1
                ids[slot] = split
                index[at] = slot
            for x in range(level, r):
                _fill(parameters[slot, x], mix64(sketch_keys[x] ^ (split * GAMMA)))
            levels[slot] = r
            budget -= r - level
        slots[p] = slot
    return len(features)
