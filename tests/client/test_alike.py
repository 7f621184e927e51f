"""The client and the library alike: the same input is refused with the same code, words and position, and shingled alike."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import kinbin
import kinbin_client
from kinbin_client import ApiError, AsyncClient, Chunking, InvalidArgument
from service_app import running_app, warm_up_once

CONFIGURATIONS: dict[str, dict[str, Any]] = {"dense": {"dim": 3}, "sparse": {}, "minmax": {"kernel": "minmax", "dim": 3}}


@dataclass(frozen=True)
class Pair:
    """The library and a client of the service, each with the same collections, which hold the item "here"."""

    database: kinbin.Database
    client: AsyncClient


@pytest.fixture
async def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pair]:
    """Both, each on a database of its own."""
    monkeypatch.setattr(kinbin, "warm_up", warm_up_once)
    async with running_app(tmp_path / "service") as app:

        async def forward(request: httpx.Request) -> httpx.Response:
            content = await request.aread()
            answer = await app.client.request(request.method, request.url, content=content, headers=request.headers)
            return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)

        async with AsyncClient("http://localhost", transport=httpx.MockTransport(forward)) as client:
            with kinbin.open(tmp_path / "library") as database:
                for name, options in CONFIGURATIONS.items():
                    database.create_collection(name, **options).add(["here"], [{0: 1.0, 2: 2.0}])
                    await (await client.create_collection(name, **options)).add(["here"], [{0: 1.0, 2: 2.0}])
                yield Pair(database, client)


class LibraryForms:
    """What stands in a call for forms that both have under the same name."""

    Sparse, Tokens, QueryOptions = kinbin.Sparse, kinbin.Tokens, kinbin.QueryOptions


class ClientForms:
    """The same of the client."""

    Sparse, Tokens, QueryOptions = kinbin_client.Sparse, kinbin_client.Tokens, kinbin_client.QueryOptions


Call = Callable[[Any, Any], Any]
"""A call of a collection, given the forms of the side that it is on."""


def csr(**parts: Any) -> Any:
    """A CSR matrix of two rows, with some arrays put in the place of those that SciPy has checked."""
    made = sparse.csr_matrix(np.array([[1.0, 0, 2], [0, 3, 0]]))
    for name, part in parts.items():
        setattr(made, name, np.array(part))
    return made


def adding(vector: Any) -> Call:
    """An add of a good vector and of this one."""
    return lambda c, forms: c.add(["good", "bad"], [{0: 1.0}, vector(forms) if callable(vector) else vector])


def batch(vectors: Any) -> Call:
    """An add of two vectors as a whole."""
    return lambda c, forms: c.add(["good", "bad"], vectors)


def paying(payload: Any) -> Call:
    """An add of two good vectors, the second with this payload."""
    return lambda c, forms: c.add(["good", "bad"], [{0: 1.0}, {0: 2.0}], [None, payload])


def asking(vector: Any, **options: Any) -> Call:
    """A query."""
    return lambda c, forms: c.query(vector(forms) if callable(vector) else vector, **options)


def asking_many(**options: Any) -> Call:
    """Queries by a matrix."""
    return lambda c, forms: c.query_batch(np.array([[1.0, 2, 3]]), **options)


OF_A_MATRIX: list[tuple[str, Any]] = [
    ("k", "3"), ("k", 1.0), ("k", True), ("target_recall", "0.9"), ("min_score", "0.5"), ("offset", "1"), ("offset", 1.0),
]  # fmt: skip


@dataclass
class Record:
    """A dataclass, which is no JSON."""

    number: float = 1.0


def deep(levels: int) -> dict[str, Any]:
    """A payload of so many levels."""
    return {"a": deep(levels - 1)} if levels > 1 else {}


NAN = float("nan")
MASKED = np.ma.masked_array([[1.0, 2, 3], [4, 5, 6]], [[True, False, False]] * 2)

CASES: dict[str, tuple[str, Call]] = {
    "NaN": ("dense", adding([1.0, NAN, 2.0])),
    "infinity": ("dense", adding([1.0, float("inf"), 2.0])),
    "NaN by feature": ("sparse", adding({3: NAN})),
    "NaN of a token": ("sparse", adding({"a": NAN})),
    "NaN in an array": ("dense", adding(np.array([1.0, NAN, 2.0], np.float32))),
    "NaN in a matrix": ("dense", batch(np.array([[1.0, 2, 3], [1, NAN, 3]]))),
    "NaN in Sparse": ("sparse", adding(lambda forms: forms.Sparse([1], [NAN]))),
    "NaN in CSR": ("dense", batch(csr(data=[1.0, 2.0, NAN]))),
    "a query of NaN": ("dense", asking([1.0, NAN, 2.0])),
    "a query of many with NaN": ("dense", lambda c, forms: c.query_batch([[1.0, 2, 3], [NAN, 1, 1]])),
    "too large": ("dense", adding([1.0, 1e16, 2.0])),
    "zero": ("dense", adding([0.0, 0.0, 0.0])),
    "a zero query": ("dense", asking([0.0, 0.0, 0.0])),
    "a zero query of many": ("dense", lambda c, forms: c.query_batch(np.array([[1.0, 2, 3], [0, 0, 0]]))),
    "nothing": ("sparse", adding({})),
    "an empty set": ("sparse", adding(set())),
    "no tokens": ("sparse", asking({"tokens": []})),
    "negative": ("minmax", adding([1.0, -1.0, 2.0])),
    "too short": ("dense", adding([1.0, 2.0])),
    "a feature beyond": ("dense", adding({3: 1.0})),
    "a negative feature": ("sparse", adding(lambda forms: forms.Sparse([-1], [1.0]))),
    "a feature twice": ("sparse", adding(lambda forms: forms.Sparse([1, 1], [1.0, 2.0]))),
    "too few values": ("sparse", asking(lambda forms: forms.Sparse([1, 2], [1.0]))),
    "features without order": ("sparse", asking(lambda forms: forms.Sparse({1, 2}, [1.0, 2.0]))),
    "tokens of a dimension": ("dense", adding({"red", "blue"})),
    "a list of tokens of a dimension": ("dense", asking(["red", "blue"])),
    "a set of numbers": ("sparse", adding({1, 2})),
    "tokens and numbers": ("sparse", adding(["red", 2])),
    "numbers and tokens": ("sparse", adding([2, "red"])),
    "Tokens of a string": ("sparse", adding(lambda forms: forms.Tokens("red"))),
    "a string": ("sparse", adding("red")),
    "a string as a query": ("sparse", asking("red")),
    "null": ("sparse", adding(None)),
    "a number": ("sparse", adding(3.5)),
    "a boolean": ("dense", adding([1.0, True, 2.0])),
    "a complex number": ("dense", adding([1.0, 2j, 2.0])),
    "an array of booleans": ("dense", adding(np.array([True, False, True]))),
    "an array of strings": ("sparse", adding(np.array(["red"]))),
    "an array of objects": ("dense", adding(np.array([1, None, 2]))),
    "a matrix of booleans": ("dense", batch(np.ones((2, 3), bool))),
    "a matrix of complex numbers": ("dense", batch(np.ones((2, 3), complex))),
    "a masked matrix": ("dense", batch(MASKED)),
    "a masked array": ("dense", adding(MASKED[0])),
    "masked as a query": ("dense", asking(MASKED[0])),
    "a cube": ("dense", batch(np.ones((2, 3, 3)))),
    "one array for many": ("dense", batch(np.ones(3))),
    "one list for many": ("sparse", batch(["red", "blue"])),
    "one set for many": ("sparse", batch({"red", "blue"})),
    "one mapping for many": ("sparse", batch({"red": 1, "blue": 2})),
    "a negative column": ("sparse", batch(csr(indices=[0, 2, -1]))),
    "columns that begin late": ("sparse", batch(csr(indptr=[1, 2, 3]))),
    "columns beyond": ("sparse", batch(csr(indptr=[0, 2, 9]))),
    "columns left over": ("sparse", batch(csr(indptr=[0, 1, 2]))),
    "CSR of booleans": ("dense", batch(sparse.csr_array(np.ones((2, 3), bool)))),
    "CSR of many in a list": ("dense", adding(sparse.csr_array(np.ones((2, 3))))),
    "too wide a matrix": ("dense", batch(np.ones((2, 4)))),
    "an id that is a number": ("dense", lambda c, forms: c.add(["a", 7.5], np.ones((2, 3)))),
    "an id of 65 bits": ("dense", lambda c, forms: c.add(["a", 2**64], np.ones((2, 3)))),
    "an id that is NaN": ("dense", lambda c, forms: c.add(["a", NAN], np.ones((2, 3)))),
    "an empty id": ("dense", lambda c, forms: c.add(["a", ""], np.ones((2, 3)))),
    "an id twice": ("dense", lambda c, forms: c.add(["a", "b", "a"], np.ones((3, 3)))),
    "ids that are one string": ("dense", lambda c, forms: c.add("ab", np.ones((2, 3)))),
    "ids without order": ("dense", lambda c, forms: c.add({"a", "b"}, np.ones((2, 3)))),
    "too few ids": ("dense", lambda c, forms: c.add(["a"], np.ones((2, 3)))),
    "too few payloads": ("dense", lambda c, forms: c.add(["a", "b"], np.ones((2, 3)), [None])),
    "payloads that are no list": ("dense", lambda c, forms: c.add(["a", "b"], np.ones((2, 3)), 5)),
    "payloads without order": ("dense", lambda c, forms: c.add(["a", "b"], np.ones((2, 3)), {"a": 1, "b": 2}.keys())),
    "NaN in a payload": ("dense", paying({"a": [NAN]})),
    "a dataclass in a payload": ("dense", paying({"a": Record()})),
    "a set in a payload": ("dense", paying({"a": {1}})),
    "a numpy number in a payload": ("dense", paying({"a": np.float64(1)})),
    "an array in a payload": ("dense", paying({"a": np.ones(2)})),
    "a number as a key": ("dense", paying({1: "a"})),
    "70 bits": ("dense", paying({"a": 2**70})),
    "too deep a payload": ("dense", paying(deep(33))),
    "a payload that is a list": ("dense", paying([1])),
    "an unknown mode of an add": ("dense", lambda c, forms: c.add(["a"], [[1, 2, 3]], mode="upset")),
    "an unknown mode of a query": ("dense", asking([1, 2, 3], mode="exat")),
    "a mode of another kind": ("dense", asking([1, 2, 3], mode="fast")),
    "an unknown include": ("dense", lambda c, forms: c.get(["here"], include=("vectors",))),
    "an include of no names": ("dense", lambda c, forms: c.scroll(include=5)),
    "certify as text": ("dense", asking([1, 2, 3], certify="yes")),
    "ids that are no list": ("dense", lambda c, forms: c.get(5)),
    "an unknown operator": ("dense", asking([1, 2, 3], filter={"year": {"gte": 3}})),
    "an operator out of place": ("dense", asking([1, 2, 3], filter={"$gte": 3})),
    "a prefix that is no string": ("dense", asking([1, 2, 3], filter={"year": {"$prefix": 3}})),
    "a date that is none": ("dense", lambda c, forms: c.count({"year": {"$date": "today"}})),
    "facets of no field": ("dense", lambda c, forms: c.facets("a..b")),
    "facets of nothing": ("dense", lambda c, forms: c.facets("year", limit=0)),
    "an order of no field": ("dense", lambda c, forms: c.scroll(order_by="$x")),
    "descending without an order": ("dense", lambda c, forms: c.scroll(descending=True)),
    "the cursor of another order": ("dense", lambda c, forms: c.scroll("eA", order_by="year")),
    "an index of no kind": ("dense", lambda c, forms: c.add_index("year", "float")),
    "an index of no field": ("dense", lambda c, forms: c.add_index("", "number")),
    "an index that is not there": ("dense", lambda c, forms: c.drop_index("year")),
    "a filter that is a list": ("dense", lambda c, forms: c.count([{"year": 3}])),
    "a filter that is a number": ("dense", asking([1, 2, 3], filter=3)),
    "a k of none": ("dense", asking([1, 2, 3], k=0)),
    "a k below none": ("dense", asking([1, 2, 3], k=-1)),
    "a k that is a fraction": ("dense", asking([1, 2, 3], k=1.5)),
    "a k that is text": ("dense", asking([1, 2, 3], k="10")),
    "a k that is true": ("dense", asking([1, 2, 3], k=True)),
    **{f"{name} of a matrix that is {value!r}": ("dense", asking_many(**{name: value})) for name, value in OF_A_MATRIX},
    "too large a k": ("dense", asking([1, 2, 3], k=1_001)),
    "too large a k by id": ("dense", lambda c, forms: c.query_id("here", k=1_001)),
    "a target of none": ("dense", asking([1, 2, 3], target_recall=0)),
    "a target beyond": ("dense", asking([1, 2, 3], target_recall=1.01)),
    "a target that is text": ("dense", asking([1, 2, 3], target_recall="0.9")),
    "a target that is true": ("dense", asking([1, 2, 3], target_recall=True)),
    "a min_score below": ("dense", asking([1, 2, 3], min_score=-0.1)),
    "a min_score beyond": ("dense", asking([1, 2, 3], min_score=1.1)),
    "a min_score that is text": ("dense", asking([1, 2, 3], min_score="0.5")),
    "a target below none for many": ("dense", lambda c, forms: c.query_batch([[1, 2, 3]], target_recall=-1)),
    "a word to include": ("dense", asking([1, 2, 3], include="payloads")),
    "options of another kind": ("dense", asking([1, 2, 3], options={"k": 3})),
    "options and single ones": ("dense", lambda c, forms: c.query([1, 2, 3], k=3, mode="exact", options=forms.QueryOptions(k=5))),
    "options for many and single ones": ("dense", lambda c, forms: c.query_batch([[1, 2, 3]], k=3, options=forms.QueryOptions())),
    "a page of none": ("dense", lambda c, forms: c.scroll(limit=0)),
    "too large a page": ("dense", lambda c, forms: c.scroll(limit=1_001)),
    "a min_score of NaN": ("dense", asking([1, 2, 3], min_score=NAN)),
    "a target of NaN": ("dense", asking([1, 2, 3], target_recall=NAN)),
    "an insert of what is there": ("dense", lambda c, forms: c.add(["a", "here"], np.ones((2, 3)), mode="insert")),
    "an update of what is not": ("dense", lambda c, forms: c.add(["a", "here"], np.ones((2, 3)), mode="update")),
}
SCHEMA_CODES = {"invalid_field": "bad_parameter"}
"""Fields that the service judges by its schema have its code there."""


def without_word(text: str) -> str:
    """A message without the word or the type that arrived."""
    return re.sub(r", not ('[^']*'|\w+)(?=;|$)", "", text)


def told(error: Exception) -> tuple[str | None, str, int | None]:
    """Code, words and position of a refusal. The service repeats no word that was sent, so the others' are taken without it."""
    if isinstance(error, kinbin.InvalidInput):
        problem = error.problems[0]
        return problem.code, without_word(problem.detail), problem.position
    if isinstance(error, kinbin.ItemConflict):
        return error.code, str(error), None
    if isinstance(error, InvalidArgument):
        return error.code, without_word(str(error.args[0])), error.position
    assert isinstance(error, ApiError)
    conflict = error.code == "item_conflict"
    position = error.errors[0].position if error.errors and not conflict else None
    return SCHEMA_CODES.get(str(error.code), error.code), error.detail, position


async def called(call: Call, collection: Any) -> Any:
    """A call of the client, which may be refused before there is anything to wait for."""
    return await call(collection, ClientForms)


@pytest.mark.parametrize("label", CASES)
async def test_the_same_input_is_refused_alike(label: str, pair: Pair) -> None:
    """The library and the client refuse it with the same code, words and position; the client's text says nothing twice."""
    name, call = CASES[label]
    with pytest.raises(kinbin.KinbinError) as by_library:
        call(pair.database.collection(name), LibraryForms)
    with pytest.raises(kinbin_client.KinbinClientError) as by_client:
        await called(call, pair.client.collection(name))
    assert told(by_client.value) == told(by_library.value)
    assert str(by_client.value).count(told(by_client.value)[1]) == 1
    assert await pair.client.collection(name).count() == pair.database.collection(name).count() == 1


def parameters(method: Any, *without: str) -> list[tuple[str, str, Any]]:
    """Name, kind and default of each parameter."""
    listed = inspect.signature(method).parameters.values()
    return [(VECTORS.get(one.name, one.name), str(one.kind), one.default) for one in listed if one.name not in (*without, *OF_CLUSTERS)]


VECTORS = {"x": "vector", "X": "vectors", "Q": "vectors"}
"""The library's names for what comes first in every call."""
OF_CLUSTERS = ("allow_partial", "waiting", "reading")
"""What only the client has: there is no cluster in one process."""
OWN: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "query": (("cancel",), ()),
    "query_id": (("cancel",), ()),
    "query_batch": (("cancel",), ("chunking", "progress")),
    "add": (("atomic",), ("chunking",)),
}
"""What only the library has (one process can be interrupted, or write all at once), and what only the client has (requests)."""


@pytest.mark.parametrize("name", ["add", "count", "delete", "get", "query", "query_batch", "query_id", "scroll", "stats"])
def test_methods_of_a_collection_are_called_alike(name: str) -> None:
    """Each method has the same parameters with the same defaults in the same order."""
    library, client = OWN.get(name, ((), ()))
    assert parameters(getattr(kinbin.Collection, name), *library) == parameters(getattr(kinbin_client.Collection, name), *client)


@pytest.mark.parametrize("name", ["create_collection", "collection", "collections", "drop_collection", "fields_collection", "close"])
def test_methods_of_a_database_are_called_alike(name: str) -> None:
    """Each method that manages collections has the same parameters with the same defaults, but for functions, which do not travel."""
    # Functions do not travel.
    stays = ("distance", "encoder", "decoder") if name == "collection" else ()
    assert parameters(getattr(kinbin.Database, name), *stays) == parameters(getattr(kinbin_client.Client, name))


def described(options: Any) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Default and description of each option, but for its help text, which is the library's alone."""
    return {one.name: (one.default, {name: said for name, said in one.metadata.items() if name != "text"}) for one in fields(options)}


def test_options_are_alike_field_by_field() -> None:
    """The client, which does not import the library, has its options: the same names, defaults, bounds, words and refusals."""
    ours, theirs = described(kinbin.QueryOptions), described(kinbin_client.QueryOptions)
    assert list(ours) == [name for name in theirs if name not in ("after", *OF_CLUSTERS)]
    for name in ours:
        assert theirs[name] == ours[name], name


async def test_a_collection_that_is_there_is_created_alike(pair: Pair) -> None:
    """Creating what is there is refused in the same words, unless exist_ok is said; one that differs always is."""
    for options in ({"dim": 3}, {"dim": 4}, {"dim": 4, "exist_ok": True}):
        with pytest.raises(kinbin.CollectionExists) as by_library:
            pair.database.create_collection("dense", **options)  # type: ignore[arg-type]
        with pytest.raises(kinbin_client.Conflict) as by_client:
            await pair.client.create_collection("dense", **options)  # type: ignore[arg-type]
        assert by_client.value.code == by_library.value.code
        if options == {"dim": 3}:
            assert by_client.value.detail == str(by_library.value)
    assert pair.database.create_collection("dense", dim=3, exist_ok=True).count() == 1
    assert await (await pair.client.create_collection("dense", dim=3, exist_ok=True)).count() == 1
    with pytest.raises(kinbin.InvalidInput) as library_kind:
        pair.database.create_collection("dense", exist_ok="yes")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument) as client_kind:
        await pair.client.create_collection("dense", exist_ok="yes")  # type: ignore[arg-type]
    assert told(client_kind.value) == told(library_kind.value)


async def test_answers_are_read_alike(pair: Pair) -> None:
    """The same code reads the answers, statistics and numbers of both."""
    ours, theirs = pair.database.collection("dense"), pair.client.collection("dense")
    vectors: list[list[float]] = [[1, 2, 3], [3, 2, 1], [1, 1, 1]]
    payloads: list[Any] = [{"n": 0}, None, {"n": 2}]
    ours.add(["a", "b", "c"], vectors, payloads)
    await theirs.add(["a", "b", "c"], vectors, payloads)
    library, client = (
        (
            forms.QueryOptions(k=3, mode="exact", include=("payload", "vector")),
            forms.QueryOptions(min_score=0.5, mode="exact", filter={"n": {"$gte": 1}}),
        )
        for forms in (kinbin, kinbin_client)
    )

    def read(answer: Any) -> list[Any]:
        assert len(answer) == len(list(answer)) == len(answer.ids)
        hits = [(hit.id, hit.score, hit.payload, None if hit.vector is None else np.asarray(hit.vector).tolist()) for hit in answer]
        return [hits, list(answer.ids), list(answer.scores), answer.mode, answer.recall_lower_bound, answer.no_bound, answer.truncated]

    for one, other in zip(library, client, strict=True):
        assert read(ours.query(vectors[0], options=one)) == read(await theirs.query(vectors[0], options=other))
        assert read(ours.query_id("b", options=one)) == read(await theirs.query_id("b", options=other))
        batches = ours.query_batch(vectors, options=one), await theirs.query_batch(vectors, options=other)
        assert len(batches[0]) == len(batches[1]) == 3
        assert [read(answer) for answer in batches[0]] == [read(answer) for answer in batches[1]]
    assert set(ours.stats()) == set(await theirs.stats())
    assert ours.stats()["count"] == (await theirs.stats())["count"] == ours.count() == await theirs.count() == 4


async def test_a_large_add_is_cut_alike(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """An add of more than one transaction takes goes on its own way in both, tells how far it is, and what was stored when it fails."""
    monkeypatch.setitem(kinbin.LIMITS, "batch_items", kinbin.Limit("batch_items", 3, "", ""))
    X = np.ones((8, 3))
    ids = [f"i{n}" for n in range(8)]
    ours, theirs = pair.database.collection("dense"), pair.client.collection("dense")
    told_by: tuple[list[tuple[int, int]], list[tuple[int, int]]] = [], []
    by_library = ours.add(ids, X, progress=lambda *how: told_by[0].append(how))
    by_client = await theirs.add(ids, X, progress=lambda *how: told_by[1].append(how), chunking=Chunking(max_items=3))
    assert told_by[0] == told_by[1] == [(3, 8), (6, 8), (8, 8)]
    counts = ("indexed", "updated", "unchanged", "count", "skipped")
    assert by_client.model_dump(include=set(counts)) == {name: asdict(by_library)[name] for name in counts}
    X[7] = 0
    with pytest.raises(kinbin.InvalidInput) as library_error:
        ours.add(ids, X)
    with pytest.raises(kinbin_client.InvalidInput) as client_error:
        await theirs.add(ids, X, chunking=Chunking(max_items=3))
    assert client_error.value.acknowledged == library_error.value.acknowledged == 6
    assert told(client_error.value) == told(library_error.value)


@pytest.mark.parametrize("options", [{"kernel": name} for name in ("ngm", "cosines", "a*b", "nested*gmm")] + [{"sampler": "darts"}])
async def test_the_same_setting_is_refused_alike(options: dict[str, Any], pair: Pair) -> None:
    """Unknown kernels and samplers are refused with the known ones, and the nearest of them."""
    with pytest.raises(kinbin.InvalidInput) as by_library:
        pair.database.create_collection("new", **options)
    with pytest.raises(kinbin_client.InvalidInput) as by_client:
        await pair.client.create_collection("new", **options)
    assert told(by_client.value) == told(by_library.value)


async def test_a_collection_that_is_not_there_is_told_alike(pair: Pair) -> None:
    """Both name the collection that may be meant."""
    with pytest.raises(kinbin.CollectionNotFound, match="did you mean 'sparse'") as by_library:
        pair.database.collection("spars")
    with pytest.raises(kinbin_client.NotFound, match="did you mean 'sparse'") as by_client:
        await pair.client.collection("spars").count()
    assert by_client.value.code == by_library.value.code


MIXED = st.text(st.sampled_from(list("aB. '_1世ก\u0301\u200d\U0001f1e9\U0001f1ea\U0001f469")), max_size=30)


@given(
    st.text() | MIXED | st.from_regex(r"(\w+[ ,.]+){0,6}", fullmatch=True),
    st.integers(-1, 6),
    st.sampled_from(["words", "characters"]),
    st.sampled_from(["spaces", "unicode"]),
)
def test_shingles_are_those_of_the_library(text: str, length: int, by: str, segments: str) -> None:
    """The client's shingles are the library's, however texts are cut, and so are its refusals."""
    found = []
    for module in (kinbin, kinbin_client):
        try:
            found.append(module.shingles(text, segments=segments, **{by: length}))
        except (kinbin.InvalidInput, InvalidArgument) as error:
            found.append((error.code, str(error)))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("a", {}),
        ("a", {"words": 1, "characters": 1}),
        (None, {"words": 1}),
        ("\ud800", {"words": 1}),
        ("\ud800", {"words": 1, "segments": "unicode"}),
        ("a", {"words": 1, "segments": "word"}),
        ("a", {"words": 1, "segments": None}),
    ],
)
def test_what_cannot_be_shingled_is_refused_alike(text: Any, options: dict[str, Any]) -> None:
    """What is no text, and lengths that are none or two, are refused in the same words."""
    with pytest.raises(kinbin.InvalidInput) as by_library:
        kinbin.shingles(text, **options)
    with pytest.raises(InvalidArgument) as by_client:
        kinbin_client.shingles(text, **options)
    assert (by_client.value.code, str(by_client.value)) == (by_library.value.code, str(by_library.value))


def test_a_missing_package_is_told_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both name the package that cuts by the rules of Unicode, and each its own extra; what is cut at spaces goes on."""
    monkeypatch.setitem(sys.modules, "unicode_segmentation_rs", None)
    with pytest.raises(kinbin.InvalidInput) as by_library:
        kinbin.shingles("a", words=1, segments="unicode")
    with pytest.raises(InvalidArgument) as by_client:
        kinbin_client.shingles("a", words=1, segments="unicode")
    assert "pip install './clients/python[text]'" in str(by_client.value)
    assert str(by_client.value).replace("'./clients/python[", "--find-links dist 'kinbin[") == str(by_library.value)
    assert by_client.value.code == by_library.value.code
    assert kinbin_client.shingles("a", words=1) == {"a": 1}
