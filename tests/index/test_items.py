"""Adding, replacing and removing items: what each call answers, and what is there afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbin
import kinbin.front
from kinbin import AddResult, DeleteResult
from refusals import contents, unchanged

pytestmark = pytest.mark.usefixtures("quiet")

A, B, C = [1.0, 2.0, 3.0], [3.0, 2.0, 1.0], [0.0, 5.0, 0.5]


@pytest.fixture
def collection(db: kinbin.Database) -> kinbin.Collection:
    """An empty collection of dimension 3."""
    return db.create_collection("c", dim=3, seed=1)


def payload_of(collection: kinbin.Collection, identifier: str) -> Any:
    """The payload of an item."""
    (item,) = collection.get([identifier])
    assert item is not None
    return item.payload


def vector_of(collection: kinbin.Collection, identifier: str) -> list[float]:
    """The vector of an item."""
    (item,) = collection.get([identifier])
    assert item is not None
    return [float(x) for x in item.vector]  # type: ignore[union-attr]


# ---------------------------------------------------------------------------------------------- adding


def test_upsert_adds_and_replaces(collection: kinbin.Collection) -> None:
    """An upsert tells new items, replaced ones and unchanged ones apart, and how many there are."""
    assert collection.add(["a", "b"], [A, B]) == AddResult(indexed=2, updated=0, unchanged=0, count=2)
    assert collection.add(["a", "b", "c"], [A, C, C]) == AddResult(indexed=1, updated=1, unchanged=1, count=3)
    assert [vector_of(collection, identifier) for identifier in "abc"] == [A, C, C]


def test_insert_takes_new_ids_only(collection: kinbin.Collection) -> None:
    """Insert of an id that is there is a conflict that names it, even with equal content; nothing of the batch is written."""
    assert collection.add(["a"], [A], mode="insert") == AddResult(1, 0, 0, 1)
    with unchanged(collection), pytest.raises(kinbin.ItemConflict) as caught:
        collection.add(["b", "a"], [B, A], mode="insert")
    assert caught.value.ids == ("a",)
    assert caught.value.code == "item_conflict"
    assert str(caught.value) == "1 of 2 ids are in the collection already ('a'); use mode update or upsert; nothing was written"
    collection.delete(["a"])
    assert collection.add(["b", "a"], [B, A], mode="insert") == AddResult(2, 0, 0, 2)


def test_update_takes_known_ids_only(collection: kinbin.Collection) -> None:
    """Update of ids that are not there is a conflict that names the first eight; nothing of the batch is written."""
    collection.add(["a"], [A])
    assert collection.add(["a"], [B], mode="update") == AddResult(0, 1, 0, 1)
    assert collection.add(["a"], [B], mode="update") == AddResult(0, 0, 1, 1)
    ids = ["a", *map(str, range(12))]
    with unchanged(collection), pytest.raises(kinbin.ItemConflict) as caught:
        collection.add(ids, np.ones((13, 3)), mode="update")
    assert caught.value.ids == tuple("01234567")
    assert str(caught.value) == (
        "12 of 13 ids are not in the collection ('0', '1', '2' and 9 more); use mode insert or upsert; nothing was written"
    )
    with pytest.raises(kinbin.ItemConflict, match=f"'{'x' * 60}…'"):
        collection.add(["x" * 255], [A], mode="update")


@pytest.mark.parametrize("mode", ["upsert", "update"])
def test_a_retry_changes_nothing(mode: str, collection: kinbin.Collection) -> None:
    """The same content again is unchanged, writes no commit, and does not care in which order a payload's keys come."""
    collection.add(["a", "b"], [A, B], [{"x": 1, "y": {"p": [1, 2], "q": None}}, None])
    with unchanged(collection):
        assert collection.add(["a", "b"], [A, B], [{"y": {"q": None, "p": [1, 2]}, "x": 1}, None], mode=mode) == AddResult(0, 0, 2, 2)
    collection.compact()
    with unchanged(collection):
        assert collection.add(["b", "a"], [B, A], [None, {"x": 1, "y": {"p": [1, 2], "q": None}}], mode=mode) == AddResult(0, 0, 2, 2)


def test_an_empty_add_changes_nothing(collection: kinbin.Collection) -> None:
    """No items are a batch like any other."""
    collection.add(["a"], [A])
    empty: list[Any] = [[], np.zeros((0, 3)), ()]
    for nothing in empty:
        with unchanged(collection):
            assert collection.add([], nothing) == AddResult(0, 0, 0, 1)


def test_payloads_alone_can_be_replaced(collection: kinbin.Collection) -> None:
    """A new payload with the same vector is an update that stores no new row, in the journal and in a run."""
    collection.add(["a", "b"], [A, B], [{"v": 1}, None])
    for version in (2, 3):
        assert collection.add(["a"], [A], [{"v": version}]) == AddResult(0, 1, 0, 2)
        assert payload_of(collection, "a") == {"v": version}
        assert collection.stats()["rows"] == 2
        collection.compact()
    assert collection.add(["a", "b"], [A, B], [None, {}]) == AddResult(0, 2, 0, 2)
    assert payload_of(collection, "a") is None
    assert payload_of(collection, "b") == {}
    assert collection.query(A, k=2).ids == ["a", "b"]


PAYLOADS: list[Any] = [
    None,
    {},
    {"": ""},
    {"a": None, "b": True, "c": False, "d": 0, "e": -1.5, "f": 1e308, "g": 5e-324, "h": 2**63, "i": -(2**63)},
    {"text": 'é日🦊 "quoted" \\ \n\t \u0000'},
    {"list": [1, [2, [3, []]], {}], "object": {"a": {"b": {"c": 1}}}},
    {"$eq": "a dollar", "a.b": "a dot"},
]


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda payload: repr(payload)[:20])
def test_payloads_come_back_as_they_were(payload: Any, collection: kinbin.Collection) -> None:
    """Any JSON object is a payload, and None is not the empty object."""
    collection.add(["a"], [A], [payload])
    for _ in range(2):
        assert payload_of(collection, "a") == payload
        assert [item.payload for item in collection.scroll().items] == [payload]
        collection.compact()


# ----------------------------------------------------------------------------------- identical vectors


def test_identical_vectors_are_stored_once(collection: kinbin.Collection) -> None:
    """Items with one vector share a row, whether they come in one batch, in several, or after a merge; all are answered."""
    collection.add(["a", "b"], [A, A])
    assert collection.stats()["rows"] == 1
    collection.add(["c", "d"], [A, B])
    assert collection.stats()["rows"] == 2
    collection.compact()
    collection.add(["e", "f", "g"], [B, A, A])
    assert collection.stats()["rows"] == 2
    for mode in ("exact", "bands"):
        answer = collection.query(A, k=10, mode=mode)
        assert set(answer.ids[:5]) == set("abcfg")
        assert set(answer.ids[5:]) == set("de")
        assert answer.scores[:5].tolist() == [1.0] * 5
        assert collection.query(A, k=3, mode=mode).scores.tolist() == [1.0] * 3
    assert collection.check().ok


def test_multiples_of_a_vector_are_not_identical(collection: kinbin.Collection) -> None:
    """Vectors that a normalised kernel cannot tell apart are kept apart: get gives each as it was sent."""
    collection.add(["a", "b"], [A, [2 * x for x in A]])
    assert collection.stats()["rows"] == 2
    assert vector_of(collection, "b") == [2.0, 4.0, 6.0]
    assert collection.query(A).scores.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("merged", [False, True], ids=["journal", "run"])
def test_a_row_lives_as_long_as_one_of_its_items(merged: bool, collection: kinbin.Collection) -> None:
    """A shared row is there until its last item is deleted or replaced; then it is dead, and gone after a merge."""
    collection.add(["a", "b", "c"], [A, A, B])
    if merged:
        collection.compact()
    collection.delete(["a"])
    assert (collection.stats()["rows"], collection.stats()["dead_rows"]) == (2, 0)
    assert collection.query(A).ids == ["b", "c"]
    collection.add(["b"], [C])
    assert (collection.stats()["rows"], collection.stats()["dead_rows"]) == (2, 1)
    assert set(collection.query(A).ids) == {"b", "c"}
    assert collection.query(A).scores.max() < 1
    collection.compact()
    assert (collection.stats()["rows"], collection.stats()["dead_rows"]) == (2, 0)
    assert collection.check().ok


# -------------------------------------------------------------------------------------------- deleting


@pytest.mark.parametrize("merged", [False, True], ids=["journal", "run"])
def test_deleted_items_are_gone(merged: bool, collection: kinbin.Collection) -> None:
    """A deleted item is not answered, read, listed, counted or matched, ids that are not there are passed over."""
    collection.add(["a", "b", "c"], [A, B, C], [{"x": 1}] * 3)
    if merged:
        collection.compact()
    assert collection.delete(["a", "nobody", "a"]) == DeleteResult(deleted=1, count=2)
    for mode in ("auto", "bands", "exact"):
        assert "a" not in collection.query(A, mode=mode).ids
    assert [item and item.id for item in collection.get(["a", "b", "c"])] == [None, "b", "c"]
    assert [item.id for item in collection.scroll().items] == ["b", "c"]
    assert collection.count() == collection.count(filter={"x": 1}) == 2
    assert collection.delete(["a"]) == DeleteResult(0, 2)
    assert collection.delete([]) == DeleteResult(0, 2)


@pytest.mark.parametrize("merged", [False, True], ids=["journal", "run"])
def test_a_deleted_item_can_be_added_again(merged: bool, collection: kinbin.Collection) -> None:
    """An id that was deleted is new, with the old vector or another one."""
    for vector in (A, A, B):
        assert collection.add(["a"], [vector], [{"v": vector[0]}]) == AddResult(1, 0, 0, 1)
        if merged:
            collection.compact()
        assert collection.query(vector).ids == ["a"]
        assert payload_of(collection, "a") == {"v": vector[0]}
        assert collection.delete(["a"]) == DeleteResult(1, 0)
        assert collection.query(vector).ids == []
    assert collection.check().ok


def test_delete_by_filter(collection: kinbin.Collection) -> None:
    """All items that a filter matches are deleted, and no others."""
    collection.add(list("abcd"), [A, A, B, C], [{"n": 1}, {"n": 2}, {"n": 3}, None])
    assert collection.delete(filter={"n": {"$gte": 2}}) == DeleteResult(2, 2)
    assert [item.id for item in collection.scroll().items] == ["a", "d"]
    assert collection.delete(filter={"n": 7}) == DeleteResult(0, 2)
    assert collection.delete(filter={"n": {"$ne": 7}}) == DeleteResult(2, 0)
    assert collection.add(["a"], [A]) == AddResult(1, 0, 0, 1)


def test_delete_by_filter_of_more_than_a_batch(db: kinbin.Database, set_limit: Any) -> None:
    """A filter may match more items than one batch holds."""
    collection = db.create_collection("c", dim=3)
    collection.add([str(i) for i in range(50)], np.random.default_rng(1).random((50, 3)) + 0.1, [{"n": i} for i in range(50)])
    set_limit("batch_items", 7)
    assert collection.delete(filter={"n": {"$lt": 40}}) == DeleteResult(40, 10, atomic=False)


def between_slices(monkeypatch: pytest.MonkeyPatch, collection: kinbin.Collection, happens: Mapping[int, Callable[[], Any]]) -> list[int]:
    """From now on, something happens just before the n-th transaction of `collection`; returns the numbers that came."""
    submit = collection._writes.submit
    seen: list[int] = []

    def submit_after(apply: Any) -> Any:
        number = len(seen)
        seen.append(number)
        if number in happens:
            with monkeypatch.context() as patch:
                patch.setattr(collection._writes, "submit", submit)
                happens[number]()
        return submit(apply)

    monkeypatch.setattr(collection._writes, "submit", submit_after)
    return seen


def test_delete_by_filter_decides_in_the_transaction_that_deletes(collection: kinbin.Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    """An upsert that is acknowledged between the look and the delete is kept if it does not match; all others that matched go."""
    collection.add(list("abcd"), [A, A, B, C], [{"state": "old"}] * 4)

    def replace() -> None:
        collection.add(["b", "c"], [A, B], [{"state": "keep"}, {"state": "old", "n": 1}])
        collection.delete(["d"])

    between_slices(monkeypatch, collection, {0: replace})
    assert collection.delete(filter={"state": "old"}) == DeleteResult(2, 1)
    assert payload_of(collection, "b") == {"state": "keep"}
    assert collection.query(A).ids == ["b"]
    assert collection.check().ok


def test_delete_by_filter_in_slices(collection: kinbin.Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many matching items go in several transactions, each of which looks anew; others write in between."""
    monkeypatch.setattr("kinbin.writes._FILTERED_SLICE", 10)
    monkeypatch.setattr("kinbin.writes.limit", lambda _: 40)
    names = [f"{i:02}" for i in range(45)]
    collection.add(names, np.random.default_rng(1).random((45, 3)) + 0.1, [{"n": i} for i in range(45)])

    def keep(number: int) -> None:
        collection.add([f"{10 * number + 5}"], [A], [{"kept": number}])

    happens = {number: partial(keep, number) for number in (1, 2, 3)}
    seen = between_slices(monkeypatch, collection, happens)
    assert collection.delete(filter={"n": {"$gte": 0}}) == DeleteResult(42, 3, atomic=False)
    assert len(seen) == 5
    assert [item.id for item in collection.scroll().items] == ["15", "25", "35"]
    assert collection.check().ok


def test_replaced_vectors_are_not_found_any_more(collection: kinbin.Collection) -> None:
    """An item is found by its new vector only, before and after merges, however often it is replaced."""
    for round_number in range(4):
        for vector in (A, B, C):
            collection.add(["a", "b"], [vector, [1, 1, 1]])
            answer = collection.query(vector, k=1)
            assert (answer.ids, answer.scores.tolist()) == (["a"], [1.0])
            assert len(collection.query(A, k=10).ids) == 2
        if round_number % 2:
            collection.compact()
    assert collection.check().ok


# ------------------------------------------------------------------------------------ databases, opening


def test_items_are_there_after_reopening(tmp_path: Any) -> None:
    """A database opened again has its collections as they were left: items, payloads, settings, seed."""
    with kinbin.open(tmp_path / "db") as db:
        dense = db.create_collection("dense", kernel="gint", dim=3, bands=64, rows=2, seed=5)
        dense.add(["a", "b"], [A, B], [{"x": 1}, None])
        sparse = db.create_collection("sparse", sampler="dart")
        sparse.add(["t"], [{"red": 2}])
        before = contents(dense), contents(sparse)
        settings = dense.config, sparse.config, dense._seed, sparse._seed
    with kinbin.open(tmp_path / "db") as db:
        assert db.collections() == ["dense", "sparse"]
        dense, sparse = db.collection("dense"), db.collection("sparse")
        assert (contents(dense), contents(sparse)) == before
        assert (dense.config, sparse.config, dense._seed, sparse._seed) == settings
        assert dense.config == kinbin.CollectionConfig("gint", 3, "gcws", 64, 2)
        assert sparse.config == kinbin.CollectionConfig("ngmm", None, "dart", None, None)
        assert sparse.query({"red": 1}).ids == ["t"]


def test_a_closed_database_is_refused(tmp_path: Any) -> None:
    """Every use after close says so; closing again is harmless."""
    db = kinbin.open(tmp_path / "db")
    collection = db.create_collection("c", dim=3)
    collection.add(["a"], [A])
    db.close()
    db.close()
    uses: list[Any] = [
        lambda: collection.add(["a"], [A]), lambda: collection.delete(["a"]), lambda: collection.query(A), lambda: collection.query_id("a"),
        lambda: collection.query_batch([A]), lambda: collection.get(["a"]), collection.scroll, collection.count, collection.stats,
        collection.check, collection.compact, db.collections, lambda: db.collection("c"), lambda: db.create_collection("d"),
        lambda: db.drop_collection("c"),
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(kinbin.Closed) as caught:
            use()
        assert caught.value.code == "closed"
        assert str(caught.value) == "the database was closed"


def test_one_database_opened_twice_is_one(tmp_path: Any) -> None:
    """Two handles of one directory see each other's items at once, and closing one leaves the other working."""
    one, two = kinbin.open(tmp_path / "db"), kinbin.open(tmp_path / "x" / ".." / "db")
    collection = one.create_collection("c", dim=3)
    other = two.collection("c")
    collection.add(["a"], [A])
    assert other.query(A).ids == ["a"]
    one.close()
    other.add(["b"], [B])
    assert other.count() == 2
    two.close()


# ------------------------------------------------------------------------------------------ collections


@pytest.mark.parametrize("opened", [False, True])
def test_a_damaged_collection_is_dropped_on_demand(tmp_path: Path, opened: bool) -> None:
    """Files that can be neither opened nor written are removed where that is asked for, and their name is free again."""
    with kinbin.open(tmp_path) as database:
        database.create_collection("c", dim=2).add(["a"], [[1.0, 2.0]])
    with kinbin.open(tmp_path) as database:
        if opened:
            database.collection("c")
        with (tmp_path / "collections" / "c" / "data.mdb").open("r+b") as file:
            file.write(bytes(16_384))
        with pytest.raises(kinbin.StorageError):
            database.drop_collection("c")
        database.drop_collection("c", damaged=True)
        assert database.collections() == []
        assert database.create_collection("c", dim=2).count() == 0
        with pytest.raises(kinbin.CollectionNotFound):
            database.drop_collection("none", damaged=True)


def test_collections_are_listed_opened_and_dropped(db: kinbin.Database) -> None:
    """Collections are listed by name in order; dropping one takes its items away for good."""
    for name in ("b", "a", "c-1"):
        db.create_collection(name, dim=3)
    assert db.collections() == ["a", "b", "c-1"]
    kept = db.collection("a")
    assert db.collection("a") is kept
    kept.add(["x"], [A])
    db.drop_collection("a")
    assert db.collections() == ["b", "c-1"]
    for use in (lambda: db.collection("a"), lambda: db.drop_collection("a"), lambda: db.drop_collection("never")):
        with pytest.raises(kinbin.CollectionNotFound, match=r"no collection is named '(a|never)'") as caught:
            use()
        assert caught.value.code == "collection_not_found"
        assert isinstance(caught.value, LookupError)
    assert db.create_collection("a", dim=4).count() == 0
    with pytest.raises(kinbin.KinbinError):
        kept.add(["x"], [A])


def test_create_refuses_a_name_that_is_taken(db: kinbin.Database) -> None:
    """A second create is refused; with exist_ok it returns the collection that is alike, and names what differs otherwise."""
    made = db.create_collection("c", kernel="gmm", dim=3, bands=64, seed=9)
    made.add(["a"], [A])
    with pytest.raises(kinbin.CollectionExists, match="the collection exists; choose another name or drop it first") as caught:
        db.create_collection("c", kernel="gmm", dim=3, bands=64, seed=9)
    assert caught.value.code == "collection_exists"
    same: list[dict[str, Any]] = [{}, {"bands": 64}, {"seed": 9}, {"sampler": "gcws"}]
    for alike in same:
        assert db.create_collection("c", kernel="gmm", dim=3, exist_ok=True, **alike) is made
    different: list[tuple[dict[str, Any], str]] = [
        ({"kernel": "minmax", "dim": 3}, "kernel gmm, not minmax"),
        ({"kernel": "gmm", "dim": 4}, "dim 3, not 4"),
        ({"kernel": "gmm"}, "dim 3, not None"),
        ({"kernel": "gmm", "dim": 3, "bands": 65}, "bands 64, not 65"),
        ({"kernel": "gmm", "dim": 3, "rows": 2}, "rows None, not 2"),
        ({"kernel": "gmm", "dim": 3, "seed": 8}, "another seed"),
    ]
    for other, text in different:
        with pytest.raises(kinbin.CollectionExists, match=text):
            db.create_collection("c", exist_ok=True, **other)
    assert made.count() == 1


def test_the_sampler_is_chosen_by_kernel_and_dimension(db: kinbin.Database) -> None:
    """dart serves large and unbounded feature spaces of normalised kernels, gcws all others of their law; other laws have their own."""
    chosen = {
        (kernel, dim): db.create_collection(f"{kernel}-{dim}".lower(), kernel=kernel, dim=dim).config.sampler
        for kernel in kinbin.KERNELS
        for dim in (16, 100_000, None)
    }
    own = dict.fromkeys(("hellinger", "js", "cosine", "acos", "rbf", "frbf"), ("argmax", "argmax")) | {
        "mm_acos": ("gcws_sign", "dart_sign")
    }
    for (name, dim), sampler in chosen.items():
        small, large = own.get(name, ("gcws", "dart"))
        wide = dim != 16 and kinbin.KERNELS[name].normalised
        assert sampler == (large if wide else small), (name, dim)


def test_seeds_are_secret_and_different(db: kinbin.Database) -> None:
    """Without a seed each collection gets a random one, which stats do not show."""
    one, two = db.create_collection("one", dim=3), db.create_collection("two", dim=3)
    assert one._seed != two._seed
    assert str(one._seed) not in str(one.stats())
