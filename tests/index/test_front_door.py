"""What `import kinbin` gives: names, errors, tables, and nothing that a library has no use for."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import importlib.util
import inspect
import pickle
import subprocess
import sys
import typing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbin
import kinbin.errors
import kinbin.limits
import kinbin.records

TESTS = Path(__file__).resolve().parents[1]

ASKED = "k=10, target_recall=0.9, *, cancel=None, options=None, **asked"
TERMS = "payloads=None, mode='upsert', *, atomic=False, progress=None, **terms"
PUBLIC = [
    "INDEX_KINDS", "KERNELS", "KINDS", "LIMITS", "OBJECT_KERNELS", "OPTIONS", "SAMPLERS", "AddResult", "AliasConflict",
    "AliasNotFound", "Answer", "AnswerBatch", "BackupReport", "BandsForecast", "Cell", "CheckReport", "Checked", "Closed",
    "Cluster", "Collection", "CollectionConfig", "CollectionExists", "CollectionNotFound", "CompactReport", "Compiling",
    "CorruptData", "Costs", "CurrentSetting", "CursorExpired", "Database", "DeleteResult", "Duplicates", "Explanation",
    "FacetValue", "Facets", "Factor", "FieldsCollection", "FieldsConfig", "FormatMismatch", "Group", "Hit", "InvalidInput", "Item",
    "ItemConflict", "Kernel", "KeyReused", "KinbinError", "Limit", "Map", "MapPoint", "ModeRecall", "Option", "Page", "Pair",
    "PayloadResult", "Pinned", "Problem", "Query", "QueryOptions", "Rebuilt", "RecallReport", "RepairReport", "Rest", "Rows",
    "Schema", "SearchCancelled", "SharedBands", "Shingler", "SimilarityHistogram", "SnapshotInfo", "SnapshotNotFound",
    "SnapshotReport", "Snapshots", "Sparse", "StorageBusy", "StorageError", "StorageFull", "Suggestion", "Term", "TextClusters",
    "TextDuplicates", "Thresholds", "Together", "Tokens", "Tuning", "VersionConflict", "WalkForecast", "Walked", "cancelled_by",
    "image_pixels", "measure_costs", "open", "set_threads", "set_upkeep", "shingles", "showing_compilation", "token_feature",
    "tune", "warm_up", "watch_commits",
]  # fmt: skip


def test_the_public_names() -> None:
    """The front door has just these names, in order, and each is there; a change of the list is a change of the contract."""
    assert kinbin.__all__ == PUBLIC
    assert all(hasattr(kinbin, name) for name in PUBLIC)
    assert all(
        inspect.getdoc(getattr(kinbin, name)) for name in PUBLIC if name not in {"INDEX_KINDS", "KERNELS", "LIMITS", "OPTIONS", "SAMPLERS"}
    )


REFUSED = "(*_, **__)"
"""Of what such collections do not do, whatever it is asked for."""
PARAMETERS = {
    "Database.recover": "(name, transaction)",
    "Database.recoverable": "(name)",
    "Database.stores_of_fields": "(name)",
    "Database.create_collection": (
        "(name, *, kernel=None, dim=None, items='vectors', distance=None, exist_ok=False, fields=None, indexes=None, **options)"
    ),
    "Database.collection": "(name, *, distance=None, encoder=None, decoder=None)",
    "Database.fields_collection": "(name)",
    "Database.collections": "()",
    "Database.check": "(names=None, progress=None)",
    "Database.repair": "(name, into=None, progress=None)",
    "Database.drop_collection": "(name, *, damaged=False)",
    "Database.background": "()",
    "Database.losses": "()",
    "Database.alias": "(name, collection)",
    "Database.aliases": "()",
    "Database.drop_alias": "(name)",
    "Database.close": "()",
    "Database.backup": "(folder, *, cancel=None)",
    "Database.restore_backup": "(folder, *, cancel=None)",
    "Database.restore": "(source, name, *, cancel=None)",
    "Collection.add": f"(ids, X, {TERMS})",
    "Collection.set_payload": "(ids, payloads, *, if_versions=None)",
    "Collection.patch_payload": "(ids, patches, *, if_versions=None)",
    "Collection.versions": "(ids)",
    "Collection.limits": "()",
    "Collection.set_limits": "(*, items=None, bytes=None)",
    "Collection.together": "()",
    "Collection.note": "(name)",
    "Collection.notes": "(prefix=b'')",
    "Collection.pinned": "()",
    "Collection.numbers_of": "(ids)",
    "Collection.delete": "(ids=None, filter=None, *, if_versions=None)",
    "Collection.query": f"(x, {ASKED})",
    "Collection.query_id": f"(id, {ASKED})",
    "Collection.query_batch": f"(Q, {ASKED})",
    "Collection.query_each": "(queries, cancel=None)",
    "Collection.query_examples": "(positive, negative=(), cancel=None, *, options=None, **more)",
    "Collection.get": "(ids, include=('vector', 'payload'))",
    "Collection.scroll": "(after=None, limit=100, filter=None, include=('payload',), *, order_by=None, descending=False)",
    "Collection.explain": "(query=None, *, id, query_id=None, limit=50, k=10, s_curve=False, feature_names=None)",
    "Collection.map": "(sample=1000, *, method='kernel_pca', fields=(), seed=0, filter=None, cancel=None)",
    "Collection.facets": "(field, filter=None, limit=20)",
    "Collection.add_index": "(field, kind, *, wait=False)",
    "Collection.drop_index": "(field)",
    "Collection.count": "(filter=None)",
    "Collection.change_indexes": "(add, drop=())",
    "Collection.stats": "()",
    "Collection.background": "()",
    "Collection.check": "(progress=None)",
    "Collection.link": "(progress=None)",
    "Collection.compact": "(*, shrink=False)",
    "Collection.duplicates": "(min_score=None, as_='pairs', *, max_distance=None, miss=0.01, filter=None, cancel=None, progress=None)",
    "Collection.close": "()",
    "Collection.snapshot": "(path, *, cancel=None)",
    "Collection.tune": "(k=10, target_recall=0.9, *, sample=200, seed=0, choices=None, cancel=None)",
    "Collection.recall": "(queries=100, k=10, target_recall=0.9, *, modes=None, seed=0, cancel=None)",
    "Collection.rebuild": "(rows=None, bands=None)",
    "FieldsCollection.add": f"(ids, vectors, {TERMS})",
    "FieldsCollection.set_payload": "(ids, payloads, *, if_versions=None)",
    "FieldsCollection.patch_payload": "(ids, patches, *, if_versions=None)",
    "FieldsCollection.versions": "(ids)",
    "FieldsCollection.limits": "()",
    "FieldsCollection.set_limits": "(*, items=None, bytes=None)",
    "FieldsCollection.together": "()",
    "FieldsCollection.note": "(name)",
    "FieldsCollection.notes": "(prefix=b'')",
    "FieldsCollection.pinned": "()",
    "FieldsCollection.delete": "(ids=None, filter=None, *, if_versions=None)",
    "FieldsCollection.query": f"(vectors, weights=None, combine='sum', {ASKED})",
    "FieldsCollection.query_id": f"(id, weights=None, combine='sum', {ASKED.replace('options', 'fields=None, options')})",
    "FieldsCollection.query_batch": f"(vectors, weights=None, combine='sum', {ASKED})",
    "FieldsCollection.get": "(ids, include=('vector', 'payload'))",
    "FieldsCollection.scroll": "(after=None, limit=100, filter=None, include=('payload',), *, order_by=None, descending=False)",
    "FieldsCollection.count": "(filter=None)",
    "FieldsCollection.explain": "(query=None, *, id, field, query_id=None, limit=50, k=10, s_curve=False, feature_names=None)",
    "FieldsCollection.map": "(sample=1000, *, field, method='kernel_pca', fields=(), seed=0, filter=None, cancel=None)",
    "FieldsCollection.duplicates": ("(min_score=None, as_='pairs', *, field, miss=0.01, filter=None, cancel=None, progress=None)"),
    "FieldsCollection.tune": "(k=10, target_recall=0.9, *, field, sample=200, seed=0, choices=None, cancel=None)",
    "FieldsCollection.recall": ("(queries=100, k=10, target_recall=0.9, *, weights=None, combine='sum', modes=None, seed=0, cancel=None)"),
    "FieldsCollection.rebuild": "(rows=None, bands=None, *, field)",
    **dict.fromkeys((f"FieldsCollection.{name}" for name in ("query_each", "query_examples")), REFUSED),
    "FieldsCollection.numbers_of": "(ids)",
    "FieldsCollection.add_index": "(field, kind, *, wait=False)",
    "FieldsCollection.drop_index": "(field)",
    "FieldsCollection.facets": "(field, filter=None, limit=20)",
    "FieldsCollection.change_indexes": "(add, drop=())",
    "FieldsCollection.stats": "()",
    "FieldsCollection.background": "()",
    "FieldsCollection.check": "(progress=None)",
    "FieldsCollection.link": "(progress=None)",
    "FieldsCollection.compact": "(*, shrink=False)",
    "FieldsCollection.close": "()",
    "FieldsCollection.snapshot": "(path, *, cancel=None)",
    "Snapshots.create": "(name, keep=None, *, cancel=None)",
    "Snapshots.newest": "(name)",
    "Snapshots.list": "(name)",
    "Snapshots.info": "(name, id)",
    "Snapshots.path": "(name, id)",
    "Snapshots.delete": "(name, id)",
    "Snapshots.verify": "(name, id)",
    "Snapshots.draft": "()",
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_parameters_of_public_methods(name: str) -> None:
    """Names, order and defaults of parameters are part of the contract; every method says what it does."""
    owner, method = name.split(".")
    function = getattr(getattr(kinbin, owner), method)
    signature = inspect.signature(function)
    plain = [
        parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values() if parameter.name != "self"
    ]
    assert str(signature.replace(parameters=plain, return_annotation=inspect.Signature.empty)) == PARAMETERS[name]
    assert inspect.getdoc(function)


WORDS = {
    "add": ["on_error", "if_versions", "idempotency_key"],
    "query": [
        "min_score",
        "filter",
        "mode",
        "certify",
        "include",
        "max_distance",
        "exclude",
        "include_self",
        "offset",
        "cursor",
        "group_by",
        "debug",
    ],
    "create_collection": ["parameters", "sampler", "bands", "rows", "seed", "feature_names", "encoder", "decoder"],
}
WORDS["query_examples"] = [*WORDS["query"], "k", "target_recall"]
"""What a method takes by name only, besides its parameters."""


@pytest.mark.parametrize("name", [name for name, text in PARAMETERS.items() if "**" in text and text != REFUSED])
def test_what_public_methods_take_by_name(name: str) -> None:
    """Names of the options that stand behind ** are part of the contract; of a query they are those of `QueryOptions`."""
    owner, method = name.split(".")
    words = WORDS[method.removesuffix("_id").removesuffix("_batch")]
    hints = typing.get_type_hints(getattr(getattr(kinbin, owner), method))
    told = next(hints[name] for name in ("asked", "more", "terms", "options") if name in hints)
    assert list(typing.get_args(told)[0].__annotations__) == words
    if method == "query":
        assert ["k", "target_recall", *words] == [one.name for one in dataclasses.fields(kinbin.QueryOptions)]


def test_an_option_that_there_is_not_is_refused(tmp_path: Path) -> None:
    """A misspelt option is a TypeError that tells which one may be meant, and nothing is made."""
    with kinbin.open(tmp_path) as database:
        with pytest.raises(TypeError, match="no option 'sed'; did you mean 'seed'"):
            database.create_collection("c", sed=1)  # type: ignore[call-arg]
        assert database.collections() == []
        collection = database.create_collection("c")
        with pytest.raises(TypeError, match="takes no 'on_eror'; did you mean 'on_error'"):
            collection.add(["a"], [[1.0]], on_eror="skip")  # type: ignore[call-arg]
        assert collection.count() == 0
        with pytest.raises(TypeError, match="no option 'max_distanc'; did you mean 'max_distance'"):
            collection.query([1.0], max_distanc=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("owner", ["Database", "Collection", "FieldsCollection", "Snapshots"])
def test_every_public_method_is_meant_for_users(owner: str) -> None:
    """What has no underscore is in the table of parameters: what only the library needs is hidden."""
    public = {name for one in getattr(kinbin, owner).__mro__[:-1] for name in vars(one) if not name.startswith("_")}
    assert public == {name.partition(".")[2] for name in PARAMETERS if name.startswith(f"{owner}.")}


# ---------------------------------------------------------------------------------------------- errors

ERRORS: list[tuple[kinbin.KinbinError, str, tuple[type[BaseException], ...]]] = [
    (kinbin.KinbinError("text"), "error", (Exception,)),
    (kinbin.InvalidInput([kinbin.Problem("zero_vector", "text", 3, "vector", None)]), "zero_vector", (ValueError,)),
    (kinbin.InvalidInput.of("over_limit", "text", field="k", limit="k"), "over_limit", (ValueError,)),
    (kinbin.CollectionNotFound("text"), "collection_not_found", (LookupError,)),
    (kinbin.CollectionExists("text"), "collection_exists", ()),
    (kinbin.ItemConflict("text", ("a", "b")), "item_conflict", ()),
    (kinbin.VersionConflict("text", ("a",)), "version_conflict", (kinbin.ItemConflict,)),
    (kinbin.KeyReused("text"), "key_reused", ()),
    (kinbin.AliasConflict("text"), "alias_conflict", ()),
    (kinbin.AliasNotFound("text"), "alias_not_found", (kinbin.CollectionNotFound,)),
    (kinbin.CursorExpired("text"), "cursor_expired", ()),
    (kinbin.Closed("text"), "closed", ()),
    (kinbin.SearchCancelled("text"), "cancelled", ()),
    (kinbin.StorageError("text"), "storage_error", ()),
    (kinbin.StorageFull("text"), "storage_full", (kinbin.StorageError,)),
    (kinbin.StorageBusy("text"), "storage_busy", (kinbin.StorageError,)),
    (kinbin.CorruptData("text"), "corrupt_data", (kinbin.StorageError,)),
    (kinbin.FormatMismatch("text"), "format_mismatch", (kinbin.StorageError,)),
    (kinbin.SnapshotNotFound("text"), "snapshot_not_found", (LookupError,)),
]


@pytest.mark.parametrize(("error", "code", "bases"), ERRORS, ids=lambda x: type(x).__name__ if isinstance(x, Exception) else "")
def test_errors_survive_pickling_and_copying(error: kinbin.KinbinError, code: str, bases: tuple[type[BaseException], ...]) -> None:
    """Every error is a KinbinError with its code and bases, and keeps its text and attributes through a process boundary."""
    assert error.code == code
    assert isinstance(error, (kinbin.KinbinError, *bases))
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(again) is type(error)
        assert (str(again), again.args, again.code) == (str(error), error.args, error.code)
        assert vars(again) == vars(error)


def test_every_error_is_listed() -> None:
    """The module of errors, the front door and the table above have the same classes; codes are all different."""
    classes: set[type[kinbin.KinbinError]] = {
        thing for thing in vars(kinbin.errors).values() if isinstance(thing, type) and issubclass(thing, kinbin.KinbinError)
    }
    assert classes == {type(error) for error, _, _ in ERRORS}
    assert {thing.__name__ for thing in classes} | {"Problem"} == set(kinbin.errors.__all__) <= set(kinbin.__all__)
    codes = [thing.code for thing in classes]
    assert len(set(codes)) == len(codes)


def test_an_error_of_input_speaks_of_its_first_problem() -> None:
    """Its text is the first problem's, with its position; all problems are kept."""
    problems = [kinbin.Problem("zero_vector", "no value", 4, "vector"), kinbin.Problem("bad_id", "no id", 7, "id")]
    error = kinbin.InvalidInput(problems)
    assert str(error) == "item 4: no value"
    assert error.problems == tuple(problems)
    assert str(kinbin.InvalidInput.of("bad_parameter", "no", field="k")) == "no"


# ---------------------------------------------------------------------------------------------- limits

LIMIT_VALUES = {
    "aliases": 1_000,
    "idempotency_keys": 1_000_000,
    "id_bytes": 255,
    "payload_bytes": 65_536,
    "payload_depth": 32,
    "dimension": 4_194_304,
    "nonzeros": 1_048_576,
    "feature_id": 2**63 - 1,
    "feature_names": 65_536,
    "feature_name": 255,
    "value": 1e15,
    "value_min": 1e-30,
    "image_bytes": 33_554_432,
    "image_pixels": 50_000_000,
    "object_numbers": 32_768,
    "string_length": 16_384,
    "series_numbers": 32_768,
    "points_numbers": 32_768,
    "batch_items": 10_000,
    "batch_nonzeros": 16_777_216,
    "batch_queries": 10_000,
    "k": 1_000,
    "examples": 100,
    "tuned_rows": 5_000,
    "tuned_k": 100,
    "tuned_choices": 256,
    "exclude": 1_000,
    "include": 64,
    "offset": 10_000,
    "indexes": 32,
    "map_sample": 2_000,
    "page": 1_000,
    "filter_depth": 8,
    "filter_terms": 256,
    "name_length": 63,
    "collections": 1_000,
    "fields": 16,
    "postings": 400_000,
    "postings_per_row": 2,
}


def test_the_limits() -> None:
    """The table has just these limits with these values; each has a unit and a reason."""
    assert {name: limit.value for name, limit in kinbin.LIMITS.items()} == LIMIT_VALUES
    for name, limit in kinbin.LIMITS.items():
        assert limit.name == name
        assert limit.unit
        assert limit.reason
        assert kinbin.limits.limit(name) == limit.value


def test_every_limit_is_enforced_somewhere() -> None:
    """Each limit's name is read by the library outside its table (a collection's name has its length in a pattern)."""
    folder = Path(kinbin.__file__).parent
    source = "".join(path.read_text(encoding="utf-8") for path in folder.rglob("*.py") if path.name != "limits.py")
    unused = [
        name
        for name in kinbin.LIMITS
        if f'limit("{name}")' not in source and f"limit('{name}')" not in source and f'"{name}"' not in source
    ]
    assert unused in ([], ["name_length"])


# --------------------------------------------------------------------------------------------- records


def test_results_are_frozen() -> None:
    """What the library returns cannot be changed by accident."""
    records: list[Any] = [
        kinbin.AddResult(1, 0, 0, 1), kinbin.DeleteResult(1, 0),
        kinbin.PayloadResult(1, 0, 1), kinbin.Item("a"), kinbin.Page([], None), kinbin.CheckReport(True, 0, 0, 0),
        kinbin.CollectionConfig("ngmm", None, "dart", None, None), kinbin.Sparse([1], [1.0]), kinbin.Tokens({"a": 1}),
        kinbin.Problem("code", "text"), kinbin.LIMITS["k"], kinbin.Hit("a", 0.5), kinbin.OPTIONS["k"], kinbin.KERNELS["ngmm"],
        kinbin.QueryOptions(),
        kinbin.Answer([], np.empty(0), None, "text", 0, 0, [], "bands"),
    ]  # fmt: skip
    for record in records:
        for name in record.__dataclass_fields__:
            with pytest.raises(AttributeError):
                setattr(record, name, None)
        assert pickle.loads(pickle.dumps(record)).__class__ is record.__class__


HEAVY = [
    "fastapi",
    "starlette",
    "pydantic",
    "pydantic_settings",
    "httpx",
    "uvicorn",
    "typer",
    "rich",
    "sklearn",
    "kinbin_service",
    "kinbin_client",
]


def run_python(program: str, *arguments: str) -> str:
    """The output of a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, *arguments], capture_output=True, text=True, check=False, timeout=110
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_library_needs_no_web_framework(tmp_path: Path) -> None:
    """kinbin works where no web framework, HTTP client or command line can be imported, and imports none of them."""
    program = f"""
import sys
heavy = {HEAVY!r}
import kinbin
assert not [name for name in heavy if name in sys.modules], "imported at import time"
for name in heavy:
    sys.modules[name] = None
with kinbin.open(sys.argv[1]) as db:
    c = db.create_collection("c", dim=3)
    c.add(["a"], [[1, 2, 3]], [{{"x": 1}}])
    c.compact()
    print(c.query([1, 2, 3], filter={{"x": 1}}).ids, c.check().ok)
"""
    assert run_python(program, str(tmp_path / "db")) == "['a'] True\n"


@pytest.mark.slow
def test_warm_up_leaves_nothing_behind(tmp_path: Path) -> None:
    """Warming up compiles every kernel: afterwards a first add, merge, query and read compile nothing more."""
    program = """
import os, sys, tempfile
tempfile.tempdir = sys.argv[1]
import numpy as np
from kinbin.native.machine_code import REQUESTED
import kinbin
kinbin.warm_up()
assert os.listdir(sys.argv[1]) == [], "temporary files were left"
before = set(REQUESTED)
X = np.random.default_rng(1).random((1_500, 12))
rows = [{i: 1.0 + i, 2**40: 1.0, i + 5: 2.0} for i in range(1_500)]
with kinbin.open(sys.argv[1]) as db:
    kinds = [("ngmm", 12, X), ("gint", None, rows), ("minmax", None, rows), ("gmm", 12, X), ("gmm", 70_000, [{i: 1.0} for i in range(9)])]
    for number, (kernel, dim, batch) in enumerate(kinds):
        c = db.create_collection(f"c{number}", kernel=kernel, dim=dim)
        c.add([str(i) for i in range(len(batch))], batch)
        c.compact()
        query = batch[0]
        c.add(["new"], [query])
        c.add(["newer"], [X[1] * 3 if dim == 12 else {1: 3.0}])
        c.delete(["1"])
        for mode in ("auto", "bands", "exact"):
            c.query(query, mode=mode)
            c.query_batch([query, query], mode=mode)
            c.query_id("new", mode=mode)
        c.get(["0"])
        c.check()
print(sorted(f"{module}.{name}{types}" for module, name, types in set(REQUESTED) - before))
"""
    assert run_python(program, str(tmp_path)) == "[]\n"


def test_typed_usage_runs(tmp_path: Path) -> None:
    """The file of typed usage, which mypy checks, does what it says."""
    spec = importlib.util.spec_from_file_location("typed_usage_library", TESTS / "typed_usage" / "library.py")
    assert spec is not None
    assert spec.loader is not None
    usage = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(usage)
    found = usage.main(tmp_path / "db")
    assert found["refused"] == ("zero_vector", 0)
    assert set(found["asked"]) == {"a", "b", "c"}
    assert found["stats"]["count"] == 3
    assert found["kernels"] == sorted(kinbin.KERNELS)
    kinbin.open(tmp_path / "db").close()
