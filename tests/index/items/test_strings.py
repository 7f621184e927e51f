"""Collections of strings: exact distances in every state of the store, what is refused, and what comes back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

import kinbin
from background import no_background
from kinbin.items.kind import Form
from kinbin.items.strings import STRINGS, strings_of
from kinbin.rows.asked import queries_record
from kinbin.rows.record import pack_rows, record_offsets
from kinbin.rows.scratch import Scratch
from kinbin.segments.scores import score_rows
from kinbin.spaces.levenshtein import LEVENSHTEIN
from kinbin.spaces.patterns import room_of
from naive_strings import AWKWARD, distances, levenshtein, some_strings
from refusals import refused

MODES = ("auto", "links", "exact")


def scored(queries: list[str], stored: list[str]) -> np.ndarray:
    """(m, n) distances as the space's code computes them, one after the other in the same room."""
    asked, rows = STRINGS.rows(queries, Form()), STRINGS.rows(stored, Form())
    offsets = record_offsets(rows.indptr, False)
    records = np.zeros(int(offsets[-1]), np.uint8)
    pack_rows(rows.indptr, rows.features, rows.values, rows.norms, False, offsets, records)
    scratch = Scratch(False)
    scratch.work(room_of(asked))
    spans = np.zeros((len(queries), 3), np.int64)
    spans[:, 1], spans[:, 2] = len(stored), np.arange(len(queries)) * len(stored)
    out = np.empty(len(queries) * len(stored))
    places = np.uint64(records.ctypes.data) + offsets[:-1].astype(np.uint64), np.diff(offsets)
    assert score_rows(LEVENSHTEIN.record, queries_record(asked), *places, spans, scratch.record, out) == 0
    return np.asarray(LEVENSHTEIN.printed(out).reshape(len(queries), len(stored)))


def test_distances_of_awkward_strings() -> None:
    """Every pair of awkward strings has the distance of the definition, whatever was laid out before."""
    stored = list(AWKWARD)
    np.testing.assert_array_equal(scored(stored, stored), [distances(one, stored) for one in stored])


@hypothesis.given(st.lists(st.text("ab\x00é日😀", min_size=1, max_size=150), min_size=2, max_size=6))
def test_distances_of_any_strings(texts: list[str]) -> None:
    """Any strings have the distances of the definition, in both directions."""
    found = scored(texts, texts)
    np.testing.assert_array_equal(found, [distances(one, texts) for one in texts])
    np.testing.assert_array_equal(found, found.T)


@hypothesis.given(st.lists(st.text(min_size=1, max_size=40), min_size=1, max_size=8))
def test_rows_are_strings_again(texts: list[str]) -> None:
    """The strings of rows are those that they were made of, character by character."""
    assert strings_of(STRINGS.rows(texts, Form())) == texts


def test_room_is_enough_for_long_strings() -> None:
    """A query as long as is allowed, of thousands of different characters, fits the room that is asked for."""
    long = "".join(chr(0x4E00 + i % 5_000) for i in range(16_384))
    short = "日本"
    assert scored([long, short, "ab"], [long, long[1:] + "x", "b"]).tolist() == [
        [0.0, 2.0, 16_384.0],
        [levenshtein(short, long[:20]) + 16_364.0] * 2 + [2.0],
        [16_384.0, 16_384.0, 1.0],
    ]


def check_answers(collection: kinbin.Collection, stored: dict[str, str], queries: list[str], k: int = 7) -> None:
    """Answers in every mode are complete, ascend, and name items that are so far away."""
    ids = list(stored)
    for query in queries:
        true = distances(query, list(stored.values()))
        for mode in MODES:
            answer = collection.query(query, k=k, mode=mode)
            assert answer.distances is not None
            assert answer.distances.tolist() == np.sort(true)[:k].tolist()
            assert [true[ids.index(one)] for one in answer.ids] == answer.distances.tolist()
            assert (answer.recall_lower_bound, answer.mode) == (1.0, "exact")
    batch = collection.query_batch(queries, k=k)
    assert batch.distances is not None
    for row, query in zip(batch.distances, queries, strict=True):
        assert row.tolist() == np.sort(distances(query, list(stored.values())))[:k].tolist()


def test_answers_are_exact_in_every_state(db: kinbin.Database, tmp_path: Path, rng: np.random.Generator) -> None:
    """Fresh, sealed, partly both, after updates and deletes, and reopened: every mode gives the nearest with their exact distances."""
    texts = some_strings(rng, 420, 14)
    queries = [*texts[:3], *some_strings(rng, 3, 90)]
    with no_background():
        collection = db.create_collection("words", items="strings", distance="levenshtein")
        stored = {f"s{i}": text for i, text in enumerate(texts[:300])}
        collection.add(list(stored), list(stored.values()))
        check_answers(collection, stored, queries)
        collection.compact()
        check_answers(collection, stored, queries[:2])
        more = {f"s{i}": text for i, text in enumerate(texts[300:], 280)}
        stored |= more
        collection.add(list(more), np.array(list(more.values())))
        collection.delete(["s0", "s5", "s290"])
        for key in ("s0", "s5", "s290"):
            del stored[key]
        check_answers(collection, stored, queries)
        assert collection.check().ok
        with kinbin.open(db.path) as again:
            same = again.collection("words")
            assert same.config == kinbin.CollectionConfig("levenshtein", None, "gcws", None, None, {}, "strings")
            check_answers(same, stored, queries[:3])
            assert {one.id: one.object for one in same.get(sorted(stored)) if one is not None} == stored
        collection.compact()
        check_answers(collection, stored, queries[:3])
        assert collection.check().ok


def test_max_distance_answers_all_within_it(db: kinbin.Database, rng: np.random.Generator, quiet: None) -> None:
    """All strings within a distance are answered and none beyond, for every distance, and of what is farther nothing is."""
    texts = some_strings(rng, 300, 80)
    collection = db.create_collection("words", items="strings")
    collection.add([str(i) for i in range(300)], texts)
    for query in (texts[3], texts[7] + "x", "q" * 70):
        true = np.sort(distances(query, texts))
        for limit in range(int(true[40]) + 1):
            found = collection.query(query, k=300, max_distance=limit)
            assert found.scores.tolist() == true[true <= limit].tolist()
        assert collection.query(query, k=3, max_distance=float(true[2])).scores.tolist() == true[:3].tolist()
    with refused("bad_parameter", "levenshtein prints distances: use max_distance, not min_score", field="min_score"):
        collection.query("a", min_score=0.5)


def test_same_strings_share_a_row_and_answers_name_both(db: kinbin.Database, quiet: None) -> None:
    """Equal strings are stored once; equal to the eye, in another normal form, they are two."""
    collection = db.create_collection("words", items="strings")
    collection.add(["a", "b", "c"], ["caf\u00e9", "caf\u00e9", "cafe\u0301"])
    assert collection.stats()["rows"] == 2
    answer = collection.query("caf\u00e9", k=3, include=("vector",))
    assert (sorted(answer.ids[:2]), answer.scores.tolist()) == (["a", "b"], [0.0, 0.0, 2.0])
    assert [hit.object for hit in answer] == ["caf\u00e9", "caf\u00e9", "cafe\u0301"]
    assert [hit.distance for hit in answer] == [0.0, 0.0, 2.0]
    assert collection.query_id("c", k=1, include_self=True).ids == ["c"]


def test_filters_and_payloads(db: kinbin.Database, rng: np.random.Generator, quiet: None) -> None:
    """A filter's answers are the nearest of the items that pass it, whether they are fresh or sealed."""
    texts = some_strings(rng, 200)
    collection = db.create_collection("words", items="strings")
    collection.add([str(i) for i in range(200)], texts, [{"long": len(text) > 9, "place": i} for i, text in enumerate(texts)])
    for seal in (False, True):
        if seal:
            collection.compact()
        for wanted, passing in (({"long": True}, [len(text) > 9 for text in texts]), ({"place": {"$lt": 4}}, [i < 4 for i in range(200)])):
            true = np.sort(distances(texts[0], texts)[passing])[:5]
            assert collection.query(texts[0], k=5, filter=wanted).scores.tolist() == true.tolist()
    (item,) = collection.scroll(limit=1, include=("vector", "payload")).items
    assert (item.id, item.object, item.vector, item.payload) == ("0", texts[0], None, {"long": len(texts[0]) > 9, "place": 0})


EMPTY = ("bad_object", "a string has at least one character, this one is empty; leave it out", None)
SURROGATE = ("bad_object", "a string holds a lone surrogate, which is no character; send valid UTF-8", None)
LONG = ("over_limit", "a string has at most 8 characters, this one has 9", "string_length")


def wrong(kind: str, hint: str = "") -> tuple[str, str, None]:
    """The refusal of what is no string."""
    return "bad_object", f"a string is expected here, this is {kind}{hint}", None


BAD: list[tuple[Any, tuple[str, str, str | None]]] = [
    ("", EMPTY),
    ("\ud800", SURROGATE),
    ("a\udfffb", SURROGATE),
    ("a" * 9, LONG),
    (b"abc", wrong("bytes", "; decode it first")),
    (5, wrong("int")),
    (None, wrong("NoneType")),
    (["a", "b"], wrong("list")),
    (np.zeros(3), wrong("ndarray")),
]


@pytest.mark.parametrize(("bad", "refusal"), BAD, ids=lambda value: repr(value)[:24])
def test_what_is_no_string_is_refused_and_nothing_written(
    bad: Any, refusal: tuple[str, str, str | None], db: kinbin.Database, set_limit: Callable[[str, int], None], quiet: None
) -> None:
    """Add, query and query_batch refuse it with its place; the good strings of the batch are not stored either."""
    set_limit("string_length", 8)
    collection = db.create_collection("words", items="strings")
    collection.add(["there"], ["there"])
    code, detail, limit = refusal
    with refused(code, detail, position=1, field="string", limit=limit):
        collection.add(["a", "b"], ["good", bad])
    with refused(code, detail, position=1, field="string", limit=limit):
        collection.query_batch(["good", bad])
    with refused(code, detail, field="string", limit=limit):
        collection.query(bad)
    assert (collection.count(), collection.stats()["commits"]) == (1, 1)


def test_what_is_no_batch_is_refused(db: kinbin.Database, quiet: None) -> None:
    """A single string, a mapping or a set is no batch; as many strings as ids are wanted."""
    collection = db.create_collection("words", items="strings")
    for value, kind in (("ab", "str"), ({"a": "b"}, "dict"), ({"a", "b"}, "set"), (5, "int")):
        with refused(
            "bad_object", f"a batch of strings is a list of them, this is {kind}; put a single string into a list", field="string"
        ):
            collection.add(["a", "b"], value)
    with refused("bad_parameter", "1 strings came with 2 ids; send one for each", field="ids"):
        collection.add(["a", "b"], ["a"])
    collection.add(["a", "b"], (text for text in ("from", "a generator")))
    assert [one.object for one in collection.get(["a", "b"]) if one is not None] == ["from", "a generator"]


SETTINGS: list[tuple[dict[str, Any], str, str]] = [
    ({"items": "words"}, "items", "items is one of vectors, strings, images, series, points, objects, not 'words'"),
    ({"items": None}, "items", "items is one of vectors, strings"),
    ({"items": "strings", "dim": 3}, "dim", "dim is of vectors, series and points; these items have none: leave it out"),
    ({"items": "strings", "kernel": "ngmm"}, "kernel", "kernel is one of levenshtein, damerau, indel, jaro_winkler"),
    ({"items": "strings", "distance": "ngmm"}, "distance", "distance is one of levenshtein, damerau, indel, jaro_winkler"),
    ({"items": "strings", "distance": "levenshtein", "kernel": "levenshtein"}, "distance", "distance is another name for kernel"),
    ({"items": "strings", "parameters": {"gamma": 1.0}}, "parameters", "kernel levenshtein has no parameter 'gamma': it takes none"),
    ({"kernel": "levenshtein"}, "kernel", 'levenshtein compares strings, these items are vectors: say items="strings"'),
    ({"distance": "levenshtein"}, "distance", 'levenshtein compares strings, these items are vectors: say items="strings"'),
    ({"distance": "ngmm"}, "distance", "ngmm prints scores, no distances: name it as kernel"),
    ({"items": "strings", "fields": {"a": {}}}, "fields", "items of several fields are vectors"),
]


@pytest.mark.parametrize(("settings", "field", "text"), SETTINGS, ids=lambda value: repr(value)[:40])
def test_settings_that_do_not_fit_are_refused(settings: dict[str, Any], field: str, text: str, db: kinbin.Database) -> None:
    """Items, their kernels and dimensions have to fit each other; nothing is made otherwise."""
    with pytest.raises(kinbin.InvalidInput) as caught:
        db.create_collection("c", **settings)
    (problem,) = caught.value.problems
    assert (problem.code, problem.field) == ("bad_parameter", field)
    assert problem.detail.startswith(text)
    assert db.collections() == []


def test_exist_ok_compares_what_items_are(db: kinbin.Database) -> None:
    """A collection of strings is found again by its configuration, and by no other."""
    made = db.create_collection("c", items="strings")
    assert db.create_collection("c", items="strings", distance="levenshtein", exist_ok=True) is made
    with pytest.raises(kinbin.CollectionExists, match="items strings, not vectors, kernel levenshtein, not ngmm"):
        db.create_collection("c", exist_ok=True)
    assert made.stats()["items"] == "strings"
