"""Schemas: what a collection takes, checked without it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from PIL import Image

import kinbin


def picture(colour: int) -> bytes:
    """A PNG of two colours."""
    made = Image.new("RGB", (8, 8), (colour, 10, 200))
    made.paste((250, colour, 3), (0, 0, 4, 5))
    out = io.BytesIO()
    made.save(out, "PNG")
    return out.getvalue()


KINDS: dict[str, tuple[dict[str, Any], Any]] = {
    "dense": ({"dim": 6}, [[0, 1, 2.5, 0, 0.1, 3e-7], [1, 1, 1, 0, 0, 0]]),
    "matrix": ({"dim": 3, "kernel": "gmm"}, np.array([[1, -2, 0.1], [0, 0, 7]])),
    "sparse": ({"kernel": "minmax"}, [kinbin.Sparse([70_001, 3], [1.5, 2]), kinbin.Tokens({"red": 3, "apple": 1.1})]),
    "product": ({"kernel": "gmm*acos", "dim": 3}, [[1, 2, 3], [0, -1, 0.3]]),
    "strings": ({"items": "strings"}, ["kitten", "sitt€ng"]),
    "series": ({"items": "series", "dim": 2}, [[[0.1, 1], [2, 3]], [[1, 0]]]),
    "points": ({"items": "points", "dim": 2}, [[[0, 0.5], [1, 1]], [[3, 4]]]),
    "images": ({"items": "images", "kernel": "nested", "parameters": {"levels": 2}}, [picture(3), picture(200)]),
    "fields": (
        {"fields": {"colour": {"kernel": "chi2", "dim": 3}, "words": {}}},
        {"colour": [[1, 2, 0.1], [0, 0, 1]], "words": [{1: 2.0}, {"a": 1.0}]},
    ),
}


def given(rows: dict[str, kinbin.Rows]) -> Any:
    """Rows as an add takes them."""
    return rows.get("", rows)


@pytest.mark.parametrize("name", KINDS)
def test_rows_of_a_schema_are_what_a_collection_makes_itself(tmp_path: Path, name: str) -> None:
    """What a schema checked is stored as the same items with the same versions, its options having gone through JSON."""
    options, X = KINDS[name]
    schema = kinbin.Schema(**options)
    checked = schema.check(["a", "b"], X, [{"y": 1, "x": 2}, None])
    payloads = [orjson.loads(one) if one else None for one in checked.payloads]
    with kinbin.open(tmp_path) as database:
        direct = database.create_collection("direct", **options)
        made = database.create_collection("made", **orjson.loads(orjson.dumps(schema.options)))
        direct.add(["a", "b"], X, payloads=[{"x": 2, "y": 1}, None])
        assert made.add([one.decode() for one in checked.ids], given(checked.rows), payloads=payloads).indexed == 2
        assert made.versions(["a", "b"]) == direct.versions(["a", "b"])
        assert made.add(["a", "b"], X, payloads=payloads, mode="upsert").unchanged == 2


def test_a_schema_refuses_what_a_collection_refuses(tmp_path: Path) -> None:
    """The problems of a batch are those that a collection names, with the same positions."""
    with kinbin.open(tmp_path) as database:
        collection = database.create_collection("c", dim=2)
        for ids, X, payloads in (
            (["a", "a"], [[1, 2], [3, 4]], None),
            (["a", "b"], [[1, 2], [3, float("nan")]], None),
            (["a", "b"], [[1, 2], [0, 0]], None),
            (["a", ""], [[1, 2], [1, 0]], None),
            (["a"], [[1, 2]], [{"x": object()}]),
            (["a"], [[1, 2], [3, 4]], None),
        ):
            with pytest.raises(kinbin.InvalidInput) as expected:
                collection.add(ids, X, payloads=payloads)
            with pytest.raises(kinbin.InvalidInput) as found:
                kinbin.Schema(dim=2).check(ids, X, payloads)
            assert found.value.problems == expected.value.problems


def test_bad_items_are_left_out_where_that_is_asked_for() -> None:
    """With on_error="skip" the good items stay, with their positions, and the others are told."""
    checked = kinbin.Schema(dim=2).check(["a", "b", "a", "c"], [[1, 2], [0, 0], [1, 1], [3, 3]], on_error="skip")
    assert (checked.ids, list(checked.positions)) == ([b"a", b"c"], [0, 3])
    assert [(one.position, one.code) for one in checked.problems] == [(1, "zero_vector"), (2, "duplicate_id")]
    assert len(checked.rows[""]) == 2


def test_a_schema_tells_what_differs() -> None:
    """Options that were not given may differ; a kernel, a dimension, a seed or fields that were may not."""
    there = kinbin.Schema(dim=2, seed=7)
    there.refuse_other(kinbin.Schema(dim=2), {})
    for asked, text in (
        ({"dim": 3}, "dim 2, not 3"),
        ({"dim": 2, "kernel": "chi2"}, "kernel ngmm, not chi2"),
        ({"dim": 2, "seed": 8}, "another seed"),
        ({"dim": 2, "bands": 4}, "bands None, not 4"),
        ({"fields": {"a": {"dim": 2}}}, "no fields"),
    ):
        with pytest.raises(kinbin.CollectionExists, match=text):
            there.refuse_other(kinbin.Schema(**asked), asked)


def test_a_schema_is_data() -> None:
    """A function as a distance, or options that no collection has, are refused."""
    with pytest.raises(kinbin.InvalidInput, match="a schema is data"):
        kinbin.Schema(items="strings", distance=lambda a, b: 0.0)  # type: ignore[arg-type]  # what is refused
    with pytest.raises(kinbin.InvalidInput):
        kinbin.Schema(kernel="no such")
