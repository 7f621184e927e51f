"""Names of features that are declared with a collection."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kinbin

NAMES = ["red", "green", "blue"]


def names_told(collection: kinbin.Collection, query: Any, **more: Any) -> dict[int | None, str | None]:
    """The names in an explanation, by feature."""
    (factor,) = collection.explain(query, id="a", **more).factors
    return {term.feature: term.name for term in factor.terms}


def test_declared_names_are_told(tmp_path: Path) -> None:
    """Explanations tell the names that a collection was created with, also once it is opened again."""
    with kinbin.open(tmp_path) as db:
        collection = db.create_collection("c", kernel="chi2", dim=3, feature_names=NAMES)
        collection.add(["a"], [[1, 2, 3]])
        assert names_told(collection, [1, 2, 0]) == dict(enumerate(NAMES))
        assert names_told(collection, [1, 2, 0], feature_names={1: "leaf"}) == {0: "red", 1: "leaf", 2: "blue"}
    with kinbin.open(tmp_path) as db:
        assert db.collection("c").config.feature_names == dict(enumerate(NAMES))
        assert names_told(db.collection("c"), [1, 2, 0]) == dict(enumerate(NAMES))


def test_names_survive_what_makes_a_collection_anew(tmp_path: Path) -> None:
    """A rebuild and a restored snapshot keep the names."""
    with kinbin.open(tmp_path) as db:
        collection = db.create_collection("c", dim=3, feature_names=NAMES)
        collection.add(["a", "b"], [[1, 2, 3], [1, 1, 1]])
        collection.rebuild(2, 32)
        assert collection.config.feature_names == dict(enumerate(NAMES))
        collection.snapshot(tmp_path / "copy.kinbin")
        db.restore(tmp_path / "copy.kinbin", "d")
        assert db.collection("d").config.feature_names == dict(enumerate(NAMES))
    with kinbin.open(tmp_path) as db:
        assert (db.collection("c").config.feature_names, db.collection("c").config.rows) == (dict(enumerate(NAMES)), 2)


def test_tokens_of_an_item_are_named(db: kinbin.Database) -> None:
    """Without a dimension a list declares tokens: those that an item alone has get their names, too."""
    collection = db.create_collection("c", kernel="minmax", feature_names=["pie", "plum"])
    collection.add(["a"], [{"red": 3, "pie": 2}])
    assert set(names_told(collection, {"red": 2}).values()) == {"red", "pie"}
    assert collection.config.feature_names == {kinbin.token_feature(name): name for name in ("pie", "plum")}
    assert list(collection.config.feature_names) == sorted(collection.config.feature_names)


def test_names_by_feature(db: kinbin.Database) -> None:
    """A mapping names any features of sparse vectors; the others have none."""
    collection = db.create_collection("c", feature_names={2**63 - 1: "last", 7: "seven"})
    collection.add(["a"], [{7: 1.0, 8: 1.0, 2**63 - 1: 2.0}])
    assert names_told(collection, {7: 1.0}) == {7: "seven", 8: None, 2**63 - 1: "last"}


def test_names_of_a_field(db: kinbin.Database) -> None:
    """Each of several fields has names of its own."""
    pictures = db.create_collection("c", fields={"colour": {"dim": 3, "feature_names": NAMES}, "words": {"feature_names": ["pie"]}})
    pictures.add(["a"], {"colour": [[1, 2, 3]], "words": [{"pie": 1}]})
    told = db.fields_collection("c").explain([1, 0, 0], id="a", field="colour")
    assert {term.name for term in told.factors[0].terms} == set(NAMES)
    assert db.fields_collection("c").config.fields["words"].feature_names == {kinbin.token_feature("pie"): "pie"}


def test_without_names_nothing_is_stored(db: kinbin.Database) -> None:
    """The configuration on disk has the field only where names were declared, so that it is the same as before."""
    for name, more in (("plain", {}), ("none", {"feature_names": []}), ("named", {"feature_names": ["red"]})):
        made = db.create_collection(name, dim=1, **more)
        with made._store.read() as reader:
            assert ("feature_names" in reader.configuration().encode()) == (name == "named")


def test_another_collection_of_the_same_name(db: kinbin.Database) -> None:
    """`exist_ok` takes one with the same names, or whatever it has where none are asked for, and refuses others."""
    db.create_collection("c", dim=3, feature_names=NAMES)
    for same in ({}, {"feature_names": NAMES}, {"feature_names": dict(enumerate(NAMES))}):
        db.create_collection("c", dim=3, exist_ok=True, **same)
    with pytest.raises(kinbin.CollectionExists, match="other names of features"):
        db.create_collection("c", dim=3, exist_ok=True, feature_names=["a", "b", "c"])
    db.create_collection("bare", dim=3)
    with pytest.raises(kinbin.CollectionExists, match="no names of features"):
        db.create_collection("bare", dim=3, exist_ok=True, feature_names=NAMES)


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "a word": ({"dim": 3, "feature_names": "red"}, "bad_parameter", "a list, or a mapping"),
    "too many": ({"dim": 3, "feature_names": ["a", "b", "c", "d"]}, "bad_parameter", "are 4 names, but vectors have 3 features"),
    "beyond": ({"feature_names": {2**63: "x"}}, "bad_parameter", "end before"),
    "negative": ({"feature_names": {-1: "x"}}, "bad_parameter", "feature -1 is named"),
    "blank": ({"dim": 3, "feature_names": ["red", " "]}, "bad_parameter", "that of feature 1 has 0"),
    "long": ({"dim": 3, "feature_names": ["x" * 256]}, "bad_parameter", "has 256"),
    "no name": ({"dim": 3, "feature_names": [1]}, "bad_parameter", "are strings"),
    "strings": ({"items": "strings", "feature_names": ["a"]}, "bad_parameter", "strings are none"),
    "images": ({"items": "images", "feature_names": ["a"]}, "bad_parameter", "images are none"),
    "cells": ({"kernel": "nested", "feature_names": ["a"]}, "bad_parameter", "compares cells"),
    "too large": ({"dim": 70_000, "feature_names": ["x"] * 65_537}, "over_limit", "at most 65536"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_name(case: str, db: kinbin.Database) -> None:
    """Names that are none, or of features that there are not, are refused, and no collection is made."""
    given, code, text = REFUSED[case]
    with pytest.raises(kinbin.InvalidInput, match=text) as refused:
        db.create_collection("c", **given)
    assert refused.value.problems[0].code == code
    assert refused.value.problems[0].field == "feature_names"
    assert db.collections() == []


def test_bytes_are_no_id_of_a_field(db: kinbin.Database) -> None:
    """A query of bytes is refused as a vector; it is not taken for the id of an item."""
    db.create_collection("c", fields={"colour": {"dim": 1}}).add(["a"], {"colour": [[1]]})
    with pytest.raises(kinbin.InvalidInput) as refused:
        db.fields_collection("c").explain(b"a", id="a", field="colour")
    assert refused.value.problems[0].code != "unknown_id"
