"""Parsing: pointers of bad numbers and strings, on any text."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinbin_service.bodies import parse_json, parse_lines, pointer_at
from kinbin_service.npy import parse_ids, parse_matrix
from kinbin_service.problems import CODES, Refusal
from processor_time import at_most


def refusal(body: bytes) -> Refusal:
    """What a body is refused with."""
    with pytest.raises(Refusal) as refused:
        parse_json(body)
    return refused.value


@pytest.mark.parametrize(
    ("text", "pointer"),
    [
        ('{"items":[{"id":"a","vector":[1,NaN]}]}', "#/items/0/vector/1"),
        ('{"items":[{"id":"a,[{","vector":[1]},{"id":"\\"[","vector":{"values":[1,2,NaN]}}]}', "#/items/1/vector/values/2"),
        ('{"é":"€","vector" : [ 1 , NaN ]}', "#/vector/1"),
        ('{"queries":[[1],[2,3,NaN]]}', "#/queries/1/2"),
        ('{"items":[{"payload":{"items":[NaN]}}]}', "#/items/0/payload"),
        ('{"somebody":{"items":[NaN]}}', "#"),
        ('{"vector":{"tokens":{"items":NaN}}}', "#/vector/tokens"),
        ("[[],{},[NaN]]", "#/2/0"),
        ("NaN", "#"),
        ('{"k":1,"min_score":-Infinity}', "#/min_score"),
    ],
)
def test_the_place_of_a_number_that_is_not_finite_is_found(text: str, pointer: str) -> None:
    """The pointer leads to the number through Kinbin's own keys, and stops at the first key of somebody else."""
    refused = refusal(text.encode())
    assert (refused.code, refused.errors[0].pointer) == ("non_finite", pointer)


def test_the_place_of_a_lone_surrogate_is_found_even_after_quotes_and_brackets_in_its_string() -> None:
    """Text before the surrogate, within the same string, is not taken for structure."""
    refused = refusal(b'{"items":[{"id":"a"},{"id":"\\"]},[{ \\\\ \\ud800"}]}')
    assert (refused.code, refused.errors[0].pointer) == ("bad_id", "#/items/1/id")


def test_looking_for_a_place_takes_linear_time() -> None:
    """A megabyte made to trip the search for a place is refused in a moment."""
    for text in (
        b'{"id":"' + b'\\"' * 400_000 + b'\\ud800"}',
        b'["' + b"\\\\" * 400_000 + b'\\ud800"]',
        b"[" + b"{}," * 300_000 + b"NaN]",
        b'[""' + b',""' * 300_000 + b",NaN]",
    ):
        with at_most(3):
            assert refusal(text).code in ("bad_id", "bad_string", "non_finite")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3) | st.sampled_from(["items", "id", "vector"]), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(json_values, st.sampled_from(["items", "queries", "vector"]), st.integers(0, 3))
def test_places_are_found_whatever_comes_before(value: Any, key: str, position: int) -> None:
    """After any JSON at all, the pointer of the next bad number is right."""
    before = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode()
    text = '{"other":' + before + ',"' + key + '":[' + "0," * position + "NaN]}"
    assert pointer_at(text, text.rindex("NaN")) == f"#/{key}/{position}"


@given(st.binary(max_size=200))
def test_any_bytes_are_parsed_or_refused(body: bytes) -> None:
    """No bytes at all raise anything but a refusal with a 4xx status."""
    for parse in (parse_json, parse_lines, parse_matrix, parse_ids):
        code = "none"
        try:
            parse(body)
        except Refusal as refused:
            code = refused.code
        assert code == "none" or 400 <= CODES[code].status < 500


MATRIX = b"\x93NUMPY\x01\x00v\x00" + b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }".ljust(117) + b"\n" + bytes(24)


@given(st.lists(st.tuples(st.integers(0, len(MATRIX) - 1), st.integers(0, 255)), max_size=4), st.integers(0, len(MATRIX)))
def test_damaged_matrices_are_read_or_refused(damage: list[tuple[int, int]], length: int) -> None:
    """However an .npy file is damaged or cut, it is refused, or read as a matrix of the size of the body."""
    body = bytearray(MATRIX)
    for position, value in damage:
        body[position] = value
    for content in (bytes(body), bytes(body[:length])):
        code = "none"
        try:
            assert parse_matrix(content).nbytes == 24
        except Refusal as refused:
            code = refused.code
        assert code in ("none", "bad_npy", "invalid_field")
    assert parse_matrix(MATRIX).shape == (2, 3)


@given(json_values)
def test_what_is_json_is_parsed_to_the_same_value(value: Any) -> None:
    """Valid JSON comes out as orjson reads it."""
    try:
        body = orjson.dumps(value)
    except TypeError:
        return
    assert parse_json(body) == orjson.loads(body)
