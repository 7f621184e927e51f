"""What the store keeps as JSON: decoded once, and refused with the name of the field that is wrong."""

from __future__ import annotations

import copy
import re
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinbin.errors import CorruptData
from kinbin.links.widths import CALIBRATED_K, SPREAD, CalibrationTable, Strange
from kinbin.storage import format as fmt
from kinbin.storage.headers import CoderHeader, Configuration, LinkSetHeader, RunHeader, numbers
from stored_headers import CONFIGURATION, run_header

TABLE = CalibrationTable(
    np.array([10, 24]), np.array([[0.5, 1.0]] * 3), np.array([[0.25, 0.75]] * 3), np.array([[0.5, 0.875]] * 3),
    alike=np.array([1.0, 0.5, 0.25]), far=np.array([0.5, 0.25, 0.125]), hard=np.array([0.75, 0.5, 0.25]),
    spread=np.tile(np.linspace(0.0, 1.0, len(SPREAD)), (3, 1)),
    strange=Strange(np.array([[0.5, 0.0]] * 3), *(np.array([[10, 0]] * 3) for _ in range(3))),
    norms=np.array([0.5, 2.0]), met=np.array([200.0, 480.0]), scanned=12.5, queries=256,
)  # fmt: skip
LINK_SET = LinkSetHeader(
    rows=1_200, horizon=1_199, coder=CoderHeader(64, False, 0.001, 128.0, 0.9971), norms=True, code_shift=14, link_shift=12,
    scratch_rows=1_200, link_count=24_000, calibration=TABLE.encode(),
)  # fmt: skip
DECODED: dict[str, tuple[dict[str, Any], Callable[[Any], Any]]] = {
    "configuration": (CONFIGURATION.encode(), Configuration.decode),
    "run": (run_header().encode(), lambda data: RunHeader.decode(data, "the header")),
    "link set": (LINK_SET.encode(), lambda data: LinkSetHeader.decode(data, "the header")),
    "calibration": (TABLE.encode(), CalibrationTable.decode),
}
OPTIONAL = {
    ("run", "contrast", "wide"),
    ("run", "checks"),
    *(("calibration", name) for name in TABLE.encode() if name not in ("pools", "recall")),
}
"""Fields that an earlier version did not write."""
WRONG: list[Any] = [None, "1", [], {}, [[1.0], [1.0, 2.0]], True, 1.5, -2, 2**70, float("nan"), float("inf")]


def fields(data: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Where a JSON object has what."""
    for name, value in data.items():
        yield (*path, name)
        if isinstance(value, dict):
            yield from fields(value, (*path, name))


def put(place: dict[str, Any], name: str, value: Any) -> None:
    """Another value in a field."""
    place[name] = value


ALL = [
    (name, *path)
    for name, (data, _) in DECODED.items()
    for path in fields(data)
    if name != "link set" or path[0] != "calibration" or len(path) == 1
]


def edited(case: tuple[str, ...], edit: Callable[[dict[str, Any], str], Any]) -> tuple[Any, Callable[[Any], Any]]:
    """A header with a field changed, and what decodes it."""
    sound, decode = DECODED[case[0]]
    data = place = copy.deepcopy(sound)
    for name in case[1:-1]:
        place = place[name]
    edit(place, case[-1])
    return data, decode


@pytest.mark.parametrize("names", [None, [], {"1": 2}, {"x": "a"}, {"-1": "a"}, {"1.5": "a"}, {"9223372036854775808": "a"}, {"": "a"}])
def test_damaged_names_of_features_are_named(names: Any) -> None:
    """Names that are no words by feature are damage; sound ones come back ascending by feature."""
    with pytest.raises(CorruptData, match="feature_names"):
        Configuration.decode({**CONFIGURATION.encode(), "feature_names": names})
    told = Configuration.decode({**CONFIGURATION.encode(), "feature_names": {"10": "b", "9": "a"}}).feature_names
    assert list(told.items()) == [(9, "a"), (10, "b")]


@pytest.mark.parametrize("name", DECODED)
def test_headers_come_back_byte_by_byte(name: str) -> None:
    """What is decoded encodes to the bytes it came from, and unknown fields are passed over."""
    data, decode = DECODED[name]
    stored = fmt.encode_json(data)
    assert fmt.encode_json(decode(fmt.decode_json(stored, "it")).encode()) == stored
    assert fmt.encode_json(decode({**data, "of a later version": [1]}).encode()) == stored


@pytest.mark.parametrize("case", ALL, ids=".".join)
def test_a_field_that_is_absent_is_named(case: tuple[str, ...]) -> None:
    """A header without a field that was always there is damaged, and the field is named; the others may be absent."""
    data, decode = edited(case, lambda place, name: place.pop(name))
    if case in OPTIONAL:
        decode(data)
        return
    with pytest.raises(CorruptData, match=re.escape(repr(case[-1]))):
        decode(data)


@pytest.mark.parametrize("case", [case for case in ALL if case != ("link set", "calibration")], ids=".".join)
def test_a_field_of_something_else_is_named(case: tuple[str, ...]) -> None:
    """A field of another type, or out of its range, is damage; what is taken is what was stored."""
    told = []
    for value in WRONG:
        data, decode = edited(case, partial(put, value=value))
        try:
            made = decode(data)
        except CorruptData as error:
            told.append(str(error))
        else:
            assert made.encode() == data
    assert len(told) >= len(WRONG) - 3
    assert all(repr(case[-1]) in text for text in told)


OUT_OF_RANGE: list[tuple[tuple[str, ...], Any]] = [
    (("configuration", "dim"), 0), (("configuration", "bands"), 257), (("configuration", "rows"), 9), (("configuration", "rows"), 0),
    (("run", "rows"), 0), (("run", "rows"), 2**32), (("run", "r"), 9), (("run", "bands"), 257), (("run", "slot_bits"), 33),
    (("run", "posting_bytes"), 3), (("run", "block_shift"), 32), (("run", "contrast", "kth"), [0.5]),
    (("run", "contrast", "kth"), [0.5] * 3), (("run", "contrast", "histogram"), [[], []]),
    (("link set", "rows"), 2**32), (("link set", "horizon"), -2), (("link set", "code_shift"), 32), (("link set", "link_shift"), 32),
    (("link set", "coder", "width"), 2**16 + 1), (("calibration", "norms"), [1.0]), (("calibration", "met"), [1.0]),
    (("calibration", "spread", "10"), [0.5] * 32), (("calibration", "strange"), {str(k): [[0.5, 0.0]] for k in CALIBRATED_K}),
]  # fmt: skip


@pytest.mark.parametrize(("case", "value"), OUT_OF_RANGE, ids=str)
def test_a_number_out_of_its_range_is_named(case: tuple[str, ...], value: Any) -> None:
    """Kernels go by these numbers: what no table, no block and no sample can be like is damage."""
    data, decode = edited(case, partial(put, value=value))
    with pytest.raises(CorruptData, match=re.escape(repr(case[-1]))):
        decode(data)


@given(st.sampled_from(ALL), st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
       lambda some: st.lists(some, max_size=4) | st.dictionaries(st.sampled_from(["1", "10", "100", "x"]), some, max_size=4)))  # fmt: skip
def test_nothing_but_damage_is_raised(case: tuple[str, ...], value: Any) -> None:
    """Whatever JSON stands in a field, a header is decoded or refused as damaged; nothing else happens."""
    data, decode = edited(case, partial(put, value=value))
    try:
        decode(data)
    except CorruptData:
        return


@pytest.mark.parametrize("data", [None, [], "x", 3], ids=repr)
def test_a_header_is_an_object(data: Any) -> None:
    """Other JSON is no header."""
    for _, decode in DECODED.values():
        with pytest.raises(CorruptData, match="no JSON object"):
            decode(data)


def test_lists_are_of_numbers() -> None:
    """The list of runs has numbers of runs, and nothing else."""
    assert numbers([3, 1], "the list") == [3, 1]
    wrong: list[Any] = [{}, None, ["1"], [1.0], [True], [-1], [2**32]]
    for data in wrong:
        with pytest.raises(CorruptData, match="the list is damaged"):
            numbers(data, "the list")


@pytest.mark.parametrize("seed", ["", "-1", "1.0", "²", "18446744073709551616", "1" * 5_000])
def test_a_seed_is_digits(seed: str) -> None:
    """A seed that is no number below 2**64 is damage."""
    with pytest.raises(CorruptData, match="seed"):
        Configuration.decode(CONFIGURATION.encode() | {"seed": seed})


def test_json_that_is_none_is_damage() -> None:
    """Bytes whose checksum is right and that are no JSON are damage."""
    for body in (b"", b"{", b"\xff", b"[" * 100):
        value = zlib.crc32(body).to_bytes(4, "little") + body
        with pytest.raises(CorruptData, match="it fails"):
            fmt.decode_json(value, "it")


@pytest.mark.parametrize("name", ["recall", "hard_recall", "weakest", "far", "alike", "hard", "spread", "strange"])
def test_calibrations_have_every_k(name: str) -> None:
    """A calibration that knows of one k less, or of fewer pools, is damaged."""
    for k in CALIBRATED_K:
        data = TABLE.encode()
        del data[name][str(k)]
        with pytest.raises(CorruptData, match=name):
            CalibrationTable.decode(data)
        if isinstance(data[name]["1" if k > 1 else "10"], list):
            data = TABLE.encode()
            data[name][str(k)] = data[name][str(k)][:-1]
            with pytest.raises(CorruptData, match=name):
                CalibrationTable.decode(data)


@pytest.mark.parametrize("pools", [[], [0, 10], [24, 10], [10, 10], [10.0, 24.0]], ids=repr)
def test_pools_ascend(pools: list[Any]) -> None:
    """Widths are whole numbers, ascending."""
    with pytest.raises(CorruptData, match="pools"):
        CalibrationTable.decode(TABLE.encode() | {"pools": pools})
