"""The obvious slow twin of the hashing layer: HASHING.md in plain Python integers and floats. Imports nothing of kinbin.

A row is a list of (feature, value) with ascending features and values that float32 holds exactly.
"""

from __future__ import annotations

import math
import struct

Row = list[tuple[int, float]]

MASK = 2**64 - 1
GAMMA = 0x9E3779B97F4A7C15
MIX_1 = 0xBF58476D1CE4E5B9
MIX_2 = 0x94D049BB133111EB
SKETCH = 128
DARTS = 1005.0


def float32(x: float) -> float:
    """Round to the nearest float32. + - * / of float32 values in float64, rounded so, are the float32 operations."""
    rounded: float = struct.unpack("<f", struct.pack("<f", x))[0]
    return rounded


def bits64(x: float) -> int:
    """The bit pattern of a float64."""
    pattern: int = struct.unpack("<Q", struct.pack("<d", x))[0]
    return pattern


def from_bits64(pattern: int) -> float:
    """The float64 of a bit pattern."""
    x: float = struct.unpack("<d", struct.pack("<Q", pattern))[0]
    return x


def bits32(x: float) -> int:
    """The bit pattern of a float32."""
    pattern: int = struct.unpack("<I", struct.pack("<f", x))[0]
    return pattern


def mix64(z: int) -> int:
    """Section 1."""
    z = ((z ^ (z >> 30)) * MIX_1) & MASK
    z = ((z ^ (z >> 27)) * MIX_2) & MASK
    return z ^ (z >> 31)


def counter(key: int, n: int) -> int:
    """Number n of the sequence that a key begins (section 1)."""
    return mix64((key + n * GAMMA) & MASK)


def domain_key(seed: int, domain: int, number: int) -> int:
    """Section 1."""
    return counter(counter(seed, domain), number)


def split_feature(feature: int, value: float) -> int:
    """Section 2."""
    return 2 * feature + (1 if value < 0 else 0)


def norm(row: Row) -> float:
    """Section 2: summed in the order of the features."""
    total = 0.0
    for _, value in row:
        total += abs(value)
    return total


def unit(h: int) -> float:
    """Section 1."""
    return ((h >> 12) + 0.5) * 2.0**-52


def ordered_log(x: float) -> float:
    """Section 1."""
    pattern = bits64(x)
    exponent = (pattern >> 52) - 1023
    mantissa = from_bits64((pattern & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000)
    if mantissa > 1.4142135623730951:
        mantissa *= 0.5
        exponent += 1
    s = (mantissa - 1.0) / (mantissa + 1.0)
    z = s * s
    p = 0.06666666666666667
    for coefficient in (0.07692307692307693, 0.09090909090909091, 0.1111111111111111, 0.14285714285714285, 0.2, 0.3333333333333333):
        p = p * z + coefficient
    tail = 2.0 * s + 2.0 * s * z * p
    return exponent * 6.93147180369123816490e-01 + (tail + exponent * 1.90821492927058770002e-10)


def neglog32(h: int) -> float:
    """Section 1."""
    pattern = bits64(h + 0.5)
    exponent = (pattern >> 52) - 1023
    mantissa = from_bits64((pattern & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000)
    if pattern & 0xFFFFFFFFFFFFF >= 0x6A09E667F3BCD:
        mantissa *= 0.5
        exponent += 1
    s = (mantissa - 1.0) / (mantissa + 1.0)
    z = s * s
    p = 0.15384615384615385
    for coefficient in (0.18181818181818182, 0.2222222222222222, 0.2857142857142857, 0.4, 0.6666666666666666):
        p = p * z + coefficient
    return -((exponent - 32) * 0.6931471805599453 + (s + s + s * z * p))


def gcws_parameters(seed: int, split: int, x: int, j: int) -> tuple[float, float, float]:
    """Section 3: float32 r, beta and log c - r."""
    key = mix64(domain_key(seed, 1, x) ^ ((split * GAMMA) & MASK))
    r = -ordered_log(unit(counter(key, 5 * j)) * unit(counter(key, 5 * j + 1)))
    c = -ordered_log(unit(counter(key, 5 * j + 2)) * unit(counter(key, 5 * j + 3)))
    beta = unit(counter(key, 5 * j + 4))
    return float32(r), float32(beta), float32(ordered_log(c) - r)


def gcws_code(row: Row, normalise: bool, seed: int, x: int, j: int) -> int:
    """Section 3."""
    total = norm(row) if normalise else 1.0
    best, winner = math.inf, 0
    for feature, value in row:
        split = split_feature(feature, value)
        log_weight = float32(ordered_log(abs(value) / total))
        r, beta, offset = gcws_parameters(seed, split, x, j)
        s = float32(float32(log_weight / r) + beta)
        fraction = float32(s - math.floor(s))
        height = float32(float32(offset + float32(r * fraction)) - log_weight)
        if height < best:
            best, winner = height, split
    return mix64(winner ^ domain_key(seed, 2, 256 * x + j)) & 0xFFFFFFFF


def dart_sketch(row: Row, seed: int, x: int, block: int) -> list[int]:
    """Section 4: the 128 codes of sketch x, block b."""
    total = norm(row)
    key = domain_key(seed, 3, 2 * x + block)
    codes: dict[int, int] = {}
    rounds = 0
    while len(codes) < SKETCH:
        round_key = counter(key, rounds)
        lowest: dict[int, tuple[int, int]] = {}
        for feature, value in row:
            feature_key = mix64(round_key ^ ((split_feature(feature, value) * GAMMA) & MASK))
            end = abs(value) / total * DARTS
            n, reached = 0, 0.0
            while True:
                first, second = counter(feature_key, 2 * n), counter(feature_key, 2 * n + 1)
                reached += neglog32(first >> 32)
                if reached > end:
                    break
                bucket = (second & 0xFFFFFFFF) >> 25
                dart = (second >> 32, first & 0xFFFFFFFF)
                lowest[bucket] = min(lowest.get(bucket, dart), dart)
                n += 1
        for bucket, (_, identity) in lowest.items():
            codes.setdefault(bucket, identity)
        rounds += 1
    return [codes[bucket] for bucket in range(SKETCH)]


def dart_code(row: Row, seed: int, x: int, j: int) -> int:
    """Section 4."""
    return dart_sketch(row, seed, x, j // SKETCH)[j % SKETCH]


def band_key(codes: list[int], j: int) -> int:
    """Section 5: the key of band j from its r codes."""
    h = ((j + 1) * GAMMA) & MASK
    for code in codes:
        h = ((h ^ code) * MIX_1) & MASK
        h ^= h >> 32
    return ((h * MIX_2) & MASK) >> 32


def content_hash(row: Row) -> int:
    """Section 6."""
    total = len(row) * GAMMA
    for feature, value in row:
        total += mix64((counter(feature, 1) + bits32(value)) & MASK)
    return mix64(total & MASK)


PROJECTIONS = {"argmax": (5, 16), "sign": (6, 1), "cauchy": (7, 1), "combined": (8, 1)}
"""Domain and number of components (section 10; "combined" is the bit of section 11)."""


def neglog(x: float) -> float:
    """Section 10."""
    fraction, exponent = math.frexp(x)
    if bits64(fraction) & 0xFFFFFFFFFFFFF < 0x6A09E667F3BCD:
        fraction *= 2.0
        exponent -= 1
    s = (fraction - 1.0) / (fraction + 1.0)
    z = s * s
    p = 0.15384615384615385
    for coefficient in (0.18181818181818182, 0.2222222222222222, 0.2857142857142857, 0.4, 0.6666666666666666):
        p = p * z + coefficient
    return -(exponent * 0.6931471805599453 + (s + s + s * z * p))


def gaussian(h: int) -> float:
    """Section 10."""
    y = (h + 0.5) / 2**31
    w = neglog(y * (2.0 - y))
    p, q = 1.916155416939e-07, 3.744079962708e-06
    for coefficient in (5.937812005947e-05, 0.001138377582378, 0.01252520913173, 0.09101084463525, 0.4474535033621, 1.253314125078):
        p = p * w + coefficient
    for coefficient in (0.0002485932254914, 0.002312069138491, 0.03465777128157, 0.0952165706222, 1.0):
        q = q * w + coefficient
    return (y - 1.0) * p / q


def random_number(family: str, seed: int, feature: int, x: int, n: int) -> float:
    """Number n of sketch x and a feature, as float32 (section 10)."""
    h = counter(mix64(domain_key(seed, PROJECTIONS[family][0], x) ^ ((feature * GAMMA) & MASK)), n)
    number = gaussian(h >> 32)
    return float32(number / gaussian(h & 0xFFFFFFFF) if family == "cauchy" else number)


def projection_code(family: str, row: Row, seed: int, x: int, j: int) -> int:
    """Section 10."""
    components = PROJECTIONS[family][1]
    best, winner = 0.0, 0
    for c in range(components):
        total = 0.0
        for feature, value in row:
            total += value * random_number(family, seed, feature, x, components * j + c)
        if c == 0 or abs(total) > abs(best):
            best, winner = total, c
    return 2 * winner + (1 if best < 0 else 0)


def combined_code(code: int, row: Row, seed: int, x: int, j: int) -> int:
    """Section 11: a code of the min-max kernel, and the bit."""
    return mix64(2 * code + projection_code("combined", row, seed, x, j)) & 0xFFFFFFFF
