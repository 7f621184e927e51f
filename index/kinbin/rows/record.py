"""The row record: how a row lies in memory and on disk.

Row record, little-endian, 8-byte aligned (index/FORMAT.md):

    0   f64  norm: sum of absolute values
    8   u32  nnz
    12  u32  check: a hash of everything else, verified for every row that is answered
    16  features: u16 × nnz, padded to 4 bytes ("narrow": dim ≤ 65,536), or u64 × nnz ("wide")
    …   f32 × nnz signed values; padded with zeros to 8 bytes
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from kinbin.native.jit import inline, inner, owning, strict
from kinbin.native.memory import (
    f32_array,
    f64_array,
    float32_at,
    float64_at,
    u16_array,
    u16_at,
    u32_array,
    u32_at,
    u64_array,
    u64_at,
)

__all__ = [
    "CHECK_AT",
    "HEADER",
    "clear_unlisted",
    "four_are_sound",
    "pack_rows",
    "record_bytes",
    "record_offsets",
    "records_nnz",
    "unpack_rows",
]

HEADER = 16
CHECK_AT = 12
"""Where in a record its check is."""
_MIX = np.uint64(0x9E3779B97F4A7C15)
U64 = np.uint64


@inline
def record_bytes(nnz, wide):
    """Bytes of the record of a row of nnz nonzeros."""
    features = nnz * 8 if wide else (nnz * 2 + 3) // 4 * 4
    return (16 + features + nnz * 4 + 7) // 8 * 8


@owning
def record_offsets(indptr, wide):
    """(n+1,) int64 offsets of the records of n rows laid end to end."""
    n = len(indptr) - 1
    out = np.zeros(n + 1, np.int64)
    for i in range(n):
        out[i + 1] = out[i] + record_bytes(indptr[i + 1] - indptr[i], wide)
    return out


@inline
def _words(address, wide):
    """4-byte words of a record behind its header."""
    return (record_bytes(np.int64(u32_at(address + U64(8))), wide) - HEADER) // 4


@inline
def _begun(address):
    """The hash of a record's norm and nnz."""
    return (u64_at(address) ^ U64(u32_at(address + U64(8)))) * _MIX


@inline
def _mixed(hashed, address, word):
    """The hash with one more word of the record."""
    hashed = (hashed ^ U64(u32_at(address + U64(HEADER + 4 * word)))) * _MIX
    return hashed ^ (hashed >> U64(29))


@inline
def _ended(hashed, address, word, wide):
    """The 32-bit check of a record, hashed up to this word."""
    for w in range(word, _words(address, wide)):
        hashed = _mixed(hashed, address, w)
    return np.uint32(hashed >> U64(32))


@inline
def _check(address, wide):
    """32-bit hash of a record's norm, nnz, features and values (whole 4-byte words)."""
    return _ended(_begun(address), address, 0, wide)


@strict
def pack_rows(indptr, features, values, norms, wide, offsets, out):
    """Write n rows as records into `out` (uint8, zeroed, at `offsets`)."""
    base = U64(out.ctypes.data)
    for i in range(len(norms)):
        a = indptr[i]
        nnz = indptr[i + 1] - a
        record = base + U64(offsets[i])
        f64_array(record, 1)[0] = norms[i]
        u32_array(record + U64(8), 1)[0] = np.uint32(nnz)
        place = record + U64(HEADER)
        if wide:
            wide_features = u64_array(place, nnz)
            for x in range(nnz):
                wide_features[x] = features[a + x]
            place += U64(8 * nnz)
        else:
            narrow_features = u16_array(place, nnz)
            for x in range(nnz):
                narrow_features[x] = np.uint16(features[a + x])
            place += U64((2 * nnz + 3) // 4 * 4)
        stored = f32_array(place, nnz)
        for x in range(nnz):
            stored[x] = values[a + x]
        u32_array(record + U64(CHECK_AT), 1)[0] = _check(record, wide)


@inline
def _fits(address, room, wide):
    """Whether there is a record of at least one nonzero at `address` that fits `room` bytes."""
    if room < HEADER:
        return False
    nnz = np.int64(u32_at(address + U64(8)))
    return nnz >= 1 and record_bytes(nnz, wide) <= room


@inner
def four_are_sound(places, wide):
    """Whether the records at four places (address, bytes of room) fit there and have the checks they were written with.

    They take the time of one: each step of a hash waits for the one before, but not for another hash.
    """
    (a, room_a), (b, room_b), (c, room_c), (d, room_d) = places
    if not (_fits(a, room_a, wide) and _fits(b, room_b, wide) and _fits(c, room_c, wide) and _fits(d, room_d, wide)):
        return False
    words = min(_words(a, wide), _words(b, wide), _words(c, wide), _words(d, wide))
    of_a, of_b, of_c, of_d = _begun(a), _begun(b), _begun(c), _begun(d)
    for w in range(words):
        of_a = _mixed(of_a, a, w)
        of_b = _mixed(of_b, b, w)
        of_c = _mixed(of_c, c, w)
        of_d = _mixed(of_d, d, w)
    return (
        _ended(of_a, a, words, wide) == u32_at(a + U64(CHECK_AT))
        and _ended(of_b, b, words, wide) == u32_at(b + U64(CHECK_AT))
        and _ended(of_c, c, words, wide) == u32_at(c + U64(CHECK_AT))
        and _ended(of_d, d, words, wide) == u32_at(d + U64(CHECK_AT))
    )


@strict
def clear_unlisted(addresses, checks, rooms):
    """Set the room of each record to 0 whose check is not the one that is listed for it: it is the record of another row, or damaged."""
    for i in range(len(addresses)):
        if rooms[i] < HEADER or u32_at(addresses[i] + U64(CHECK_AT)) != checks[i]:
            rooms[i] = 0


@owning
def records_nnz(addresses, rooms, wide):
    """(n+1,) int64 indptr of the rows at `addresses`; -1 at the end if one does not fit its room."""
    out = np.zeros(len(addresses) + 1, np.int64)
    for i in range(len(addresses)):
        # A damaged offset may point outside the file: the room comes before the first look.
        nnz = np.int64(u32_at(addresses[i] + U64(8))) if rooms[i] >= HEADER else 0
        if nnz < 1 or record_bytes(nnz, wide) > rooms[i]:
            out[-1] = -1
            return out
        out[i + 1] = out[i] + nnz
    return out


@strict
def unpack_rows(addresses, wide, indptr, features, values, norms):
    """Read the records at `addresses` back into canonical rows (sizes from `records_nnz`).

    Returns the number of the first record whose check fails, or -1.
    """
    for i in range(len(addresses)):
        p = addresses[i]
        a = indptr[i]
        nnz = indptr[i + 1] - a
        if _check(p, wide) != u32_at(p + U64(CHECK_AT)):
            return i
        norms[i] = float64_at(p)
        body = p + U64(16)
        skip = U64(8 * nnz) if wide else U64((2 * nnz + 3) // 4 * 4)
        for x in range(nnz):
            features[a + x] = u64_at(body + U64(8 * x)) if wide else U64(u16_at(body + U64(2 * x)))
            values[a + x] = float32_at(body + skip + U64(4 * x))
    return -1
