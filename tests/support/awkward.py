"""Named rows that are awkward to score, and the Hypothesis strategies that look for more of them."""

from __future__ import annotations

from hypothesis import strategies as st

LAST = 2**63 - 1
"""The largest feature id."""
DIM = 80
"""Every narrow row fits this dimension."""

NARROW: dict[str, dict[int, float]] = {
    "one nonzero": {0: 1.0},
    "the same one, larger": {0: 1e6},
    "the last feature": {DIM - 1: 3.0},
    "negative": {0: -1.0},
    "a row": {0: 1.0, 1: 2.0, 5: 3.5},
    "the same row": {5: 3.5, 1: 2.0, 0: 1.0},
    "a multiple of it": {0: 3.0, 1: 6.0, 5: 10.5},
    "its negative": {0: -1.0, 1: -2.0, 5: -3.5},
    "a part of it": {1: 2.0},
    "the rest of it": {0: 1.0, 5: 3.5},
    "mixed signs": {0: 1.0, 1: -2.0, 5: 3.5, 7: -1e-3},
    "huge": {0: 1e15, 1: -1e15, 2: 1e15},
    "tiny": {0: 1e-30, 1: -1e-30, 2: 1e-30},
    "huge beside tiny": {0: 1e15, 1: 1e-30, 2: -1e-30},
    "tiny beside huge": {0: 1e-30, 1: 1e15},
    "not exact in float32": {0: 0.1, 3: 1 / 3, 4: -2 / 3},
    "one": dict.fromkeys(range(1), 1.0),
    "two": {f: 1.0 + f for f in range(2)},
    "three": {f: 1.0 + f for f in range(3)},
    "seven": {f: 0.1 * (f + 1) for f in range(7)},
    "eight": {f: 0.1 * (f + 1) for f in range(8)},
    "nine": {f: -0.1 * (f + 1) for f in range(9)},
    "fifteen": {2 * f: 1.0 / (f + 1) for f in range(15)},
    "sixteen": {2 * f: 1.0 / (f + 1) for f in range(16)},
    "seventeen": {2 * f: 1.0 / (f + 1) for f in range(17)},
    "thirty-one": {2 * f: (-1.0) ** f for f in range(31)},
    "sixty-three": {f: 1.5**f for f in range(63)},
    "sixty-four": {f: 1.5 ** (f - 64) for f in range(64)},
    "sixty-five": dict.fromkeys(range(65), 1.0),
    "everything": dict.fromkeys(range(DIM), 1.0),
}
"""One nonzero, repeats, multiples, parts, all signs, huge and tiny, and lengths about every unroll width."""

WIDE: dict[str, dict[int, float]] = {
    **NARROW,
    "the largest id": {LAST: 1.0},
    "the largest ids": {LAST: 1.0, LAST - 1: -2.0, LAST - 2: 1e-3},
    "both ends": {0: 1.0, LAST: 1.0},
    "beyond 53 bits": {2**53: 1.0, 2**53 + 1: 2.0, 2**53 + 2: 3.0},
    "ids that agree in their low bits": {i << 32: 1.0 + i for i in range(40)},
    "ids that agree in their high bits": {LAST - i: 1.0 + i for i in range(40)},
    "ids that a float cannot tell apart": {LAST - i * i * 7 % 509: 1.0 + i for i in range(200)},
    "some of those": {LAST - i * i * 7 % 509: 2.0 + i for i in range(0, 200, 3)},
    "beside u16": {65_535: 1.0, 65_536: 2.0, 65_537: 3.0},
}
"""Those, and ids that a narrow type or a float would confuse."""

values = st.one_of(
    st.floats(-1e15, 1e15).filter(lambda x: x == 0 or abs(x) >= 1e-30),
    st.integers(-4, 4).map(float),
    st.sampled_from([1e15, -1e15, 1e-30, -1e-30, 0.1, 1 / 3]),
)


def rows_of(features: st.SearchStrategy[int], most: int = 40) -> st.SearchStrategy[dict[int, float]]:
    """Rows with at least one value that is not zero."""
    return st.dictionaries(features, values, min_size=1, max_size=most).filter(lambda row: any(row.values()))


narrow_rows = rows_of(st.integers(0, DIM - 1))
wide_rows = rows_of(st.one_of(st.integers(0, 9), st.integers(0, LAST), st.integers(LAST - 9, LAST), st.integers(65_530, 65_541)))
