"""Parameters that cannot be taken: the same code, text and field from every method that has them."""

from __future__ import annotations

import collections
import pickle
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbin
from kinbin.limits import LIMITS
from refusals import refused, unchanged

Call = Callable[..., Any]


def filled(db: kinbin.Database) -> kinbin.Collection:
    """A collection with two items."""
    made = db.create_collection("c", dim=3)
    made.add(["a", "b"], [[1, 2, 3], [3, 2, 1]], [{"year": 2020}, None])
    return made


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kinbin.Collection]:
    """One for all tests that change nothing in it."""
    with kinbin.open(tmp_path_factory.mktemp("parameters")) as db:
        yield filled(db)


QUERIES: dict[str, Callable[[kinbin.Collection], Call]] = {
    "query": lambda c: lambda **options: c.query([1, 2, 3], **options),
    "query_id": lambda c: lambda **options: c.query_id("a", **options),
    "query_batch": lambda c: lambda **options: c.query_batch([[1, 2, 3]], **options),
}
WHOLE = "is a whole number from 1 on"
TARGET = "target_recall is a number above 0 and at most 1"
LEAST = "min_score is a finite number, or null"
FARTHEST = "max_distance is a finite number from 0 on, or null"

BAD_OPTIONS: list[tuple[str, Any, str]] = [
    *[("k", value, f"k {WHOLE}") for value in (0, -1, True, 1.0, 10.5, "10", None, float("nan"), np.float64(3), [1], -(10**400))],
    *[
        ("target_recall", value, TARGET)
        for value in (0, 0.0, -0.1, 1.0001, 2, True, "0.9", None, float("nan"), float("inf"), [0.9], 10**400, 1j)
    ],
    *[("min_score", value, LEAST) for value in (True, "0.5", float("nan"), float("-inf"), [0.5], 10**400, -(10**400))],
    *[("min_score", value, f"min_score is a number from 0 to 1 for ngmm, not {value}") for value in (-0.1, 1.0001)],
    *[("max_distance", value, FARTHEST) for value in (-0.1, True, "0.5", float("nan"), float("inf"), [0.5], 10**400)],
    *[
        ("mode", value, f"mode is one of auto, bands, links, exact, not {told}")
        for value, told in (
            ("", "''"),
            ("AUTO", "'AUTO'; did you mean 'auto'?"),
            ("link", "'link'; did you mean 'links'?"),
            ("nothing near", "'nothing near'"),
            ("e" * 1_000, repr("e" * 40)),
            (None, "NoneType"),
            (1, "int"),
            (True, "bool"),
            (["auto"], "list"),
            (b"auto", "bytes"),
            (np.array(["auto", "bands"]), "ndarray"),
        )
    ],
    *[(name, np.array([1, 2]), text) for name, text in (("k", f"k {WHOLE}"), ("target_recall", TARGET), ("min_score", LEAST))],
    *[(name, np.timedelta64(1), text) for name, text in (("k", f"k {WHOLE}"), ("target_recall", TARGET), ("min_score", LEAST))],
    ("certify", np.array([True, False]), "certify is true or false"),
]


@pytest.mark.parametrize("method", QUERIES)
@pytest.mark.parametrize(("name", "value", "detail"), BAD_OPTIONS, ids=lambda x: repr(x)[:20])
def test_a_bad_option_of_a_query_is_refused(method: str, name: str, value: Any, detail: str, collection: kinbin.Collection) -> None:
    """k, target_recall, min_score and mode are checked alike by all three query methods."""
    with unchanged(collection), refused("bad_parameter", detail, field=name):
        QUERIES[method](collection)(**{name: value})


@pytest.mark.parametrize("method", QUERIES)
@pytest.mark.parametrize("value", [1_001, 10**400, np.int64(10**9)], ids=["1001", "400 digits", "numpy"])
def test_k_over_its_limit_is_refused(method: str, value: int, collection: kinbin.Collection) -> None:
    """k is at most 1,000, which itself is taken."""
    with refused("over_limit", f"k: at most 1000, not {value}", field="k", limit="k"):
        QUERIES[method](collection)(k=value)
    QUERIES[method](collection)(k=int(LIMITS["k"].value))


@pytest.mark.parametrize("method", QUERIES)
def test_good_options_of_a_query(method: str, collection: kinbin.Collection) -> None:
    """The ends of every range, and numpy's numbers, are taken."""
    query = QUERIES[method](collection)
    good: dict[str, list[Any]] = {
        "k": [1, np.int64(3), np.uint8(3)],
        "target_recall": [1, 1.0, 1e-9, np.float32(0.5)],
        "min_score": [0, 1, np.float64(0.5), None],
        "mode": ["auto", "bands", "exact"],
    }
    for name, values in good.items():
        for value in values:
            query(**{name: value})


def test_query_by_an_unknown_id_is_refused(db: kinbin.Database) -> None:
    """A query by an id that is not there, or not there any more, has a code of its own."""
    collection = filled(db)
    for identifier in ("nobody", "a"):
        with refused("unknown_id", "no item of this collection has the id of the query", field="id"):
            collection.query_id(identifier)
        collection.delete(["a"])


@pytest.mark.parametrize(
    ("mode", "told"),
    [
        ("", "''"),
        ("UPSERT", "'UPSERT'; did you mean 'upsert'?"),
        ("replace", "'replace'"),
        (None, "NoneType"),
        (True, "bool"),
        (1, "int"),
        (["insert"], "list"),
        (np.array(["insert"] * 2), "ndarray"),
    ],
    ids=repr,
)
def test_a_bad_mode_of_an_add_is_refused(mode: Any, told: str, collection: kinbin.Collection) -> None:
    """The mode of an add is upsert, insert or update."""
    with unchanged(collection), refused("bad_parameter", f"mode is one of upsert, insert, update, not {told}", field="mode"):
        collection.add(["a"], [[1, 1, 1]], mode=mode)


@pytest.mark.parametrize(
    ("include", "told"),
    [
        (None, "NoneType"),
        (5, "int"),
        (np.array("vector"), "ndarray"),
        ("vectors", "'vectors'; did you mean 'vector'?"),
        ("", "''"),
        (count(), "int"),
        (["id"], "'id'"),
        (["vector", "score"], "'score'"),
        ([["vector"]], "list"),
        ([None], "NoneType"),
        (True, "bool"),
        (b"vector", "int"),
        ([np.array(["vector", "payload"])], "ndarray"),
        (np.array([["vector", "payload"]]), "ndarray"),
    ],
    ids=repr,
)
def test_a_bad_include_is_refused(include: Any, told: str, collection: kinbin.Collection) -> None:
    """What is to be included is some of vector, payload and version."""
    for call in (lambda: collection.get(["a"], include=include), lambda: collection.scroll(include=include)):
        with refused("bad_parameter", f"include lists some of vector, payload, version, payload.FIELD, not {told}", field="include"):
            call()


@pytest.mark.parametrize("limit", [0, -5, True, 1.0, "10", None, float("nan")], ids=repr)
def test_a_bad_page_size_is_refused(limit: Any, collection: kinbin.Collection) -> None:
    """A page's limit is a whole number."""
    with refused("bad_parameter", f"limit {WHOLE}", field="limit"):
        collection.scroll(limit=limit)


def test_a_page_size_over_its_limit_is_refused(collection: kinbin.Collection) -> None:
    """A page has at most 1,000 items."""
    with refused("over_limit", "limit: at most 1000, not 1001", field="limit", limit="page"):
        collection.scroll(limit=1_001)
    assert len(collection.scroll(limit=1_000).items) == 2


@pytest.mark.parametrize(
    "cursor",
    ["", "a", "YQ==", "Y Q", "YQ\n", "YR", "é", "\ud800", "YQ" * 200, "!!!!", 5, True, b"YQ", ["YQ"], 10**400, np.zeros(3, [("a", "f4")])],
    ids=lambda x: repr(x)[:12],
)
def test_a_bad_cursor_is_refused(cursor: Any, collection: kinbin.Collection) -> None:
    """Whatever is not just what a page gave as `next` is refused."""
    with refused("bad_parameter", "after is the next of an earlier page, unchanged", field="after"):
        collection.scroll(after=cursor)


def test_delete_takes_ids_or_a_filter(collection: kinbin.Collection) -> None:
    """Neither or both are refused."""
    for options in ({}, {"ids": ["a"], "filter": {"year": 2020}}, {"ids": None, "filter": None}):
        with unchanged(collection), refused("bad_parameter", "delete takes either ids or a filter", field="ids"):
            collection.delete(**options)


@pytest.mark.parametrize("method", ["get", "delete"])
def test_too_many_ids_are_refused(method: str, collection: kinbin.Collection) -> None:
    """get and delete take as many ids as an add has items."""
    most = int(LIMITS["batch_items"].value)
    with unchanged(collection), refused("over_limit", "ids: at most 10000, not 10001", field="ids", limit="batch_items"):
        getattr(collection, method)([str(i) for i in range(most + 1)])
    getattr(collection, method)([f"not there {i}" for i in range(most)])


# ----------------------------------------------------------------------------------------- collections

NAME = "a collection's name has 1 to 63 of a-z, 0-9, _ and -, and starts with a letter or a digit"
BAD_NAMES: list[Any] = [
    "", ".", "..", "../x", "a/b", "/a", "a\\b", "%2e%2e", "A", "photoS", "-a", "_a", ".dropped-a", "a b", "a.b", "a:b", "é", "a\n",
    "a\0", "\0", "\ud800", "a" * 64, "a" * 600, "١", "ﬀ", 5, True, None, b"a", ["a"], ("a",),
]  # fmt: skip


@pytest.mark.parametrize("name", BAD_NAMES, ids=lambda name: repr(name)[:12])
def test_a_bad_name_is_refused(name: Any, db: kinbin.Database) -> None:
    """A name that is no harmless name of a folder is refused by create, open and drop, and makes no folder."""
    for call in (db.create_collection, db.collection, db.drop_collection):
        with refused("bad_name", NAME, field="name"):
            call(name)
    assert db.collections() == []
    assert [path.name for path in (db.path / "collections").iterdir()] == []


@pytest.mark.parametrize("name", ["a", "0", "a-b_c", "a" * 63, "9-_-", "default"])
def test_a_good_name(name: str, db: kinbin.Database) -> None:
    """Up to 63 lower-case letters, digits, - and _ are a name."""
    assert db.create_collection(name).name == name
    assert db.collections() == [name]


SETTINGS: list[tuple[str, Any, str]] = [
    *[
        (
            "kernel",
            value,
            f"kernel is one of {', '.join(kinbin.KERNELS)}, a product of two or three of them, such as gmm*acos, or nested, not {told}",
        )
        for value, told in (
            ("", "''"),
            ("NGMM", "'NGMM'; did you mean 'ngmm'?"),
            ("min-max", "'min-max'; did you mean 'minmax'?"),
            ("euclid", "'euclid'"),
            (5, "int"),
            (["ngmm"], "list"),
            (np.array(["ngmm", "gint"]), "ndarray"),
        )
    ],
    *[("dim", value, "dim is a whole number from 1 to 4194304, or null") for value in (0, -1, True, 3.0, "3", 4_194_305, 10**400, [3])],
    *[("bands", value, "bands is a whole number from 1 to 255, or null") for value in (0, -1, True, 3.0, "3", 256)],
    *[("rows", value, "rows is a whole number from 1 to 8, or null") for value in (0, -1, True, 3.0, "3", 9)],
    *[("seed", value, "seed is a whole number from 0 to 2**64-1, or null") for value in (-1, True, 3.0, "3", 2**64)],
    *[
        ("sampler", value, f"sampler is one of {', '.join(kinbin.SAMPLERS)}, not {told}")
        for value, told in (
            ("", "''"),
            ("DART", "'DART'; did you mean 'dart'?"),
            ("minhash", "'minhash'"),
            (5, "int"),
            (True, "bool"),
            (["dart"], "list"),
            (np.array(["dart", "gcws"]), "ndarray"),
        )
    ],
    *[("dim", value, "dim is a whole number from 1 to 4194304, or null") for value in (np.array([3, 4]), np.timedelta64(3))],
    *[("seed", value, "seed is a whole number from 0 to 2**64-1, or null") for value in (np.array([3, 4]), np.int64(-1))],
    ("exist_ok", np.array([True, False]), "exist_ok is true or false"),
]


@pytest.mark.parametrize(("name", "value", "detail"), SETTINGS, ids=lambda x: repr(x)[:20])
def test_a_bad_setting_of_a_collection_is_refused(name: str, value: Any, detail: str, db: kinbin.Database) -> None:
    """Kernel, dim, bands, rows, seed and sampler are checked before anything is made."""
    with refused("bad_parameter", detail, field=name):
        db.create_collection("c", **{name: value})
    assert db.collections() == []


@pytest.mark.parametrize(
    ("kernel", "sampler", "known"),
    [
        ("minmax", "dart", "gcws"),
        ("cosine", "gcws", "argmax or sign"),
        ("chi2", "sign", "gcws or dart"),
        ("gmm*acos", "dart_sign", "gcws_sign or gcws"),
    ],
)
def test_samplers_belong_to_kernels(kernel: str, sampler: str, known: str, db: kinbin.Database) -> None:
    """A sampler whose collisions say nothing of a kernel is refused, with those that do."""
    with refused("bad_parameter", f"kernel {kernel} is hashed by {known}, not by {sampler}", field="sampler"):
        db.create_collection("c", kernel=kernel, sampler=sampler)


@pytest.mark.parametrize("sampler", ["argmax", "sign", "cauchy", "gcws_sign", "dart_sign"])
def test_samplers_of_another_law_are_refused(sampler: str, db: kinbin.Database) -> None:
    """A sampler whose codes do not collide by the min-max kernel would make bounds untrue: no kernel of that family takes it."""
    for kernel, own in (("minmax", "gcws"), ("ngmm", "gcws or dart")):
        with pytest.raises(kinbin.InvalidInput, match=f"kernel {kernel} is hashed by {own}, not by {sampler}"):
            db.create_collection("c", kernel=kernel, sampler=sampler)
    assert db.collections() == []


def test_too_many_collections_are_refused(db: kinbin.Database, set_limit: Callable[[str, int], None]) -> None:
    """At the limit no further collection is made; the ones that are there can still be had, dropped and replaced."""
    set_limit("collections", 2)
    first = db.create_collection("a")
    db.create_collection("b")
    with refused("over_limit", "a database has at most 2 collections", field="name", limit="collections"):
        db.create_collection("c")
    assert db.create_collection("a", exist_ok=True) is first
    with pytest.raises(kinbin.CollectionExists):
        db.create_collection("b", kernel="gmm")
    db.drop_collection("a")
    db.create_collection("c")
    assert db.collections() == ["b", "c"]


def test_whole_numbers_of_numpy_are_settings(db: kinbin.Database) -> None:
    """The shape of an array may say the dimension: NumPy's whole numbers are taken as Python's, and stored as such."""
    made = db.create_collection("c", dim=np.int64(3), bands=np.uint8(8), rows=np.int32(2), seed=np.uint64(2**64 - 1))  # type: ignore[arg-type]
    assert (made.config.dim, made.config.bands, made.config.rows, made._seed) == (3, 8, 2, 2**64 - 1)
    assert type(made.config.dim) is int


@pytest.mark.parametrize("path", [5, None, b"folder", "a\0b", ["a"]], ids=repr)
def test_a_path_that_is_none_is_refused(path: Any) -> None:
    """A database is opened in a directory that a string or a Path names."""
    with refused("bad_parameter", "path is a string or a pathlib.Path that names a directory", field="path"):
        kinbin.open(path)


def test_a_collection_that_is_not_there_is_told_from_those_that_are(db: kinbin.Database) -> None:
    """The error names what was asked for, what there is, and what was meant if that can be guessed."""
    with pytest.raises(kinbin.CollectionNotFound) as caught:
        db.collection("photos")
    assert str(caught.value) == "no collection is named 'photos' (there are none; create_collection makes one)"
    assert caught.value.near is None
    for name in ("photo", "texts"):
        db.create_collection(name)
    for call in (db.collection, db.drop_collection):
        with pytest.raises(kinbin.CollectionNotFound) as caught:
            call("photos")
        assert str(caught.value) == (
            "no collection is named 'photos'; did you mean 'photo'? (there are photo, texts; create_collection makes one)"
        )
        assert pickle.loads(pickle.dumps(caught.value)).near == caught.value.near == "photo"


@pytest.mark.parametrize(("name", "value"), [("atomic", "no"), ("atomic", 1), ("progress", 3), ("progress", "often")])
def test_a_bad_option_of_an_add_is_refused_before_anything_is_written(name: str, value: Any, db: kinbin.Database) -> None:
    """What is no truth value, or cannot be called, is told by name; nothing is written."""
    collection = db.create_collection("c", dim=2)
    with pytest.raises(kinbin.InvalidInput, match=name):
        collection.add(["a"], [[1.0, 2.0]], **{name: value})
    assert collection.count() == 0


@pytest.mark.parametrize("form", [list, tuple, collections.deque], ids=lambda form: form.__name__)
def test_positions_of_a_large_add_are_those_of_the_call(form: Callable[..., Any], db: kinbin.Database) -> None:
    """Bad vectors at the first place of a later part, and within one, are named where the caller has them; any sequence is taken."""
    vectors = [[1.0, float(i + 1)] for i in range(20_001)]
    vectors[10_000], vectors[15_000] = [0.0, 0.0], [0.0, 0.0]
    with pytest.raises(kinbin.InvalidInput) as refused_add:
        db.create_collection("c", dim=2).add([str(i) for i in range(20_001)], form(vectors))
    assert [problem.position for problem in refused_add.value.problems] == [10_000, 15_000]


def test_a_parameter_among_the_options_is_told_where_it_goes(db: kinbin.Database) -> None:
    """`gamma=2.0` beside the kernel is refused with the form that is right; what is no parameter of this kernel is told what there is."""
    with pytest.raises(TypeError, match=r"parameters=\{'gamma': …\}"):
        db.create_collection("c", kernel="rbf", dim=2, gamma=2.0)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"has no option 'gamma'; there are parameters, sampler"):
        db.create_collection("c", kernel="ngmm", dim=2, gamma=2.0)  # type: ignore[call-arg]
    assert db.collections() == []


def test_counts_of_numpy_become_whole_numbers() -> None:
    """Small integers of NumPy would overflow where they are multiplied."""
    assert type(kinbin.QueryOptions(k=np.uint8(200)).k) is int  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "meant"),
    [
        ({"kernel": "chi-squared"}, "chi2"), ({"kernel": "Jensen Shannon"}, "js"), ({"kernel": "l1"}, "tv"),
        ({"kernel": "jaccard"}, "minmax"),
        ({"items": "strings", "distance": "edit"}, "levenshtein"), ({"items": "images", "kernel": "chi_square"}, "chi2"),
        ({"items": "points", "dim": 2, "distance": "chamfer"}, "modified_hausdorff"),
    ],
    ids=str,
)  # fmt: skip
def test_names_that_other_libraries_use(options: dict[str, Any], meant: str, tmp_path: Path) -> None:
    """An unknown kernel that goes by another name elsewhere is refused with the name it has here."""
    with kinbin.open(tmp_path / "db") as database, pytest.raises(kinbin.InvalidInput, match=f"; did you mean '{meant}'\\?"):
        database.create_collection("c", **options)


def test_every_alias_is_of_a_kernel_and_is_none() -> None:
    """Names of other libraries stand for kernels that there are, and are no kernels themselves."""
    known = {*kinbin.KERNELS, *kinbin.OBJECT_KERNELS}
    for aliases in (getattr(kinbin.KERNELS, "aliases"), getattr(kinbin.OBJECT_KERNELS, "aliases")):  # noqa: B009
        assert set(aliases.values()) <= known
        assert not set(aliases) & known


@pytest.mark.parametrize("odd", [[], {}, np.array([1]), np.array(1), 5, None])
def test_what_is_no_name_and_no_list_is_refused_as_that(db: kinbin.Database, odd: Any) -> None:
    """Names of fields that cannot be looked up, and queries that cannot be gone through."""
    collection = db.create_collection("named", dim=2)
    with pytest.raises(kinbin.InvalidInput):
        collection.add_index(odd, "number")
    with pytest.raises(kinbin.InvalidInput):
        collection.drop_index(odd)
    if not isinstance(odd, list | dict):
        with pytest.raises(kinbin.InvalidInput):
            collection.query_each(odd)
