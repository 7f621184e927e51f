"""Edits as bytes, and which shard an id belongs to."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

import kinbin
from kinbin_cluster.message import MOST_BYTES, BadMessage, Edit, decoded, encoded, numbered
from kinbin_cluster.shards import local_name, local_shard, shard_of, shards_of

ROWS = st.lists(
    st.dictionaries(st.integers(0, 2**63 - 1) | st.integers(0, 100), st.floats(0.5, 100, width=32), min_size=1, max_size=5), max_size=5
)


def rows_of(vectors: list[dict[int, float]]) -> kinbin.Rows:
    """Canonical rows of mappings of feature to value."""
    ordered = [sorted(one.items()) for one in vectors]
    indptr = np.cumsum([0, *map(len, ordered)]).astype(np.int64)
    flat = [pair for one in ordered for pair in one]
    values = np.array([value for _, value in flat], np.float32)
    norms = np.array([sum(value for _, value in one) for one in ordered], np.float64)
    return kinbin.Rows(indptr, np.array([feature for feature, _ in flat], np.uint64), values, norms)


def same(one: kinbin.Rows, other: kinbin.Rows) -> bool:
    """Whether rows are the same to the bit and the dtype."""
    pairs = [(getattr(one, name), getattr(other, name)) for name in ("indptr", "features", "values", "norms")]
    return all(a.dtype == b.dtype and a.tobytes() == b.tobytes() and b.flags.aligned for a, b in pairs)


@given(ROWS, st.data())
def test_an_edit_comes_back(vectors: list[dict[int, float]], data: Any) -> None:
    """What is packed comes back to the bit, whatever it holds and however many parts it is cut into."""
    n = len(vectors)

    def some(of: st.SearchStrategy[Any]) -> Any:
        return data.draw(st.none() | st.lists(of, min_size=n, max_size=n))

    edit = Edit(
        "add", [data.draw(st.binary(max_size=20)) for _ in range(n)], some(st.binary(max_size=9)),
        {"": rows_of(vectors), "other": rows_of(vectors)}, "insert", "skip", some(st.none() | st.integers(0, 2**53)),
        some(st.integers(0, 9_999)), data.draw(st.none() | st.text("abc", max_size=3)), 1_700_000_000.25, {"a": [1, None]}, {"b": "c"},
    )  # fmt: skip
    parts = encoded(edit, data.draw(st.integers(1, 200)))
    back = decoded(parts)
    assert (back.op, back.ids, back.payloads, back.mode, back.on_error) == ("add", edit.ids, edit.payloads, "insert", "skip")
    assert (back.versions, back.positions, back.idempotency_key) == (edit.versions, edit.positions, edit.idempotency_key)
    assert (back.now, back.filter, back.more) == (edit.now, edit.filter, edit.more)
    assert list(back.rows) == ["", "other"]
    assert all(same(edit.rows[name], back.rows[name]) for name in edit.rows)


def test_full_rows_need_no_feature_ids() -> None:
    """Rows that have all of their features take 4 bytes a number before they are compressed, and small ids take two more."""
    values = np.random.default_rng(1).random((100, 512)).astype(np.float32) + 1
    full = kinbin.Schema(kernel="ngmm", dim=512).check([f"{i}" for i in range(100)], values)
    size = len(encoded(Edit("add", full.ids, rows=full.rows))[0])
    assert size < 100 * 512 * 4 + 2_000
    values[:, 7] = 0
    holed = kinbin.Schema(kernel="ngmm", dim=512).check([f"{i}" for i in range(100)], values)
    assert same(holed.rows[""], decoded(encoded(Edit("add", holed.ids, rows=holed.rows))).rows[""])


def test_large_edits_are_parts_within_the_limit() -> None:
    """An edit of several megabytes is cut into messages that a server takes."""
    values = np.random.default_rng(2).random((2_000, 512))
    checked = kinbin.Schema(kernel="ngmm", dim=512).check([f"{i}" for i in range(2_000)], values)
    parts = encoded(Edit("add", checked.ids, rows=checked.rows))
    assert len(parts) > 1
    assert max(map(len, parts)) <= MOST_BYTES
    assert same(checked.rows[""], decoded(parts).rows[""])


def _frame(body: bytes) -> list[bytes]:
    return [b"\x01" + zstandard.ZstdCompressor().compress(body)]


@given(ROWS, st.integers(0, 2**47), st.integers(0, 2**47), st.integers(9, 200))
def test_a_number_is_given_when_all_else_is_packed(vectors: list[dict[int, float]], before: int, first: int, most: int) -> None:
    """The number of an edit can be replaced in its messages, and nothing else of it changes; one without a number has none."""
    edit = Edit("add", [b"x"] * len(vectors), rows={"": rows_of(vectors)}, first=before)
    messages = encoded(edit, most)
    assert decoded(messages).first == before
    other = decoded(numbered(messages, first))
    assert (other.first, other.ids, same(other.rows[""], edit.rows[""])) == (first, edit.ids, True)
    assert decoded(encoded(Edit("delete", [b"x"]))).first is None


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["version", "cut", "order", "places", "infinite", "rest", "lengths", "bomb", "operation"])
def test_malformed_messages_are_refused(damage: str) -> None:
    """Bytes that are no edit are refused as such, and no rows leave the decoder that a kernel could be led astray by."""
    edit = Edit("add", [b"a", b"b"], rows={"": rows_of([{3: 1.0, 9: 2.0}, {1: 1.0}])})
    (message,) = encoded(edit)
    body = zstandard.ZstdDecompressor().decompress(message[1:])
    order = np.array([3, 9, 1], "<u2").tobytes()
    wrong = {
        "version": [b"\x03" + message[1:]],
        "cut": [message[:-9]],
        "order": _frame(body.replace(order, np.array([9, 3, 1], "<u2").tobytes())),
        "places": _frame(body.replace(np.array([2, 1], "<u4").tobytes(), np.array([1, 2], "<u4").tobytes(), 1)),
        "infinite": _frame(body.replace(np.array([2], "<f4").tobytes(), np.array([np.inf], "<f4").tobytes())),
        "rest": _frame(body + b"x"),
        "lengths": _frame(body[:-8]),
        "bomb": [b"\x01" + zstandard.ZstdCompressor().compress(bytes(1 << 29))],
        "operation": _frame(body.replace(b'"op":"add"', b'"op":"abc"')),
    }[damage]
    assert order in body
    with pytest.raises(BadMessage):
        decoded(wrong)


@given(st.lists(st.text(min_size=1, max_size=12), max_size=20), st.integers(1, 9))
def test_the_shard_of_an_id_is_as_specified(ids: list[str], shards: int) -> None:
    """The shard is the one with the greatest digest of BLAKE2b, as the text of the format says it."""
    for identifier in ids:
        digests = [
            hashlib.blake2b(shard.to_bytes(4, "little") + identifier.encode(), digest_size=8, person=b"kinbin.shard").digest()
            for shard in range(shards)
        ]
        assert shard_of(identifier, shards) == digests.index(max(digests))


def test_shards_stay_and_have_equal_shares() -> None:
    """Ids never change their shard between versions, and shards get equal shares of them."""
    assert [shard_of(one, 3) for one in ("a", "b", "5", "ä", "photo-000017")] == GOLDEN
    counts = np.bincount(shards_of([b"%d" % i for i in range(30_000)], 3))
    assert counts.min() > 9_700


GOLDEN = [1, 2, 2, 2, 1]


@pytest.mark.parametrize(
    "name", ["photos", "c0123456789ab", "c0123456789ab-x", "c0123456789ab-01", "c0123456789AB-1", "d0123456789ab-1", ""]
)
def test_names_of_replicas_are_told_from_others(name: str) -> None:
    """Only what `local_name` makes is a replica's name."""
    assert local_shard(local_name("0123456789ab", 12)) == ("0123456789ab", 12)
    assert local_shard(name) is None
