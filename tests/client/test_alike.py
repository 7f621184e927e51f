"""The client and the library alike: the same input is refused with the same code, words and position, and shingled alike."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
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
from kinbin_client import ApiError, AsyncClient, InvalidArgument
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

    Sparse, Tokens = kinbin.Sparse, kinbin.Tokens


class ClientForms:
    """The same of the client."""

    Sparse, Tokens = kinbin_client.Sparse, kinbin_client.Tokens


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
    "an id that is a number": ("dense", lambda c, forms: c.add(["a", 7], np.ones((2, 3)))),
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
    "a filter that is a list": ("dense", lambda c, forms: c.count([{"year": 3}])),
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


@pytest.mark.parametrize("options", [{"kernel": "ngm"}, {"kernel": "cosine"}, {"sampler": "darts"}])
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


@given(st.text() | st.from_regex(r"(\w+[ ,.]+){0,6}", fullmatch=True), st.integers(-1, 6), st.sampled_from(["words", "characters"]))
def test_shingles_are_those_of_the_library(text: str, length: int, by: str) -> None:
    """The client's shingles are the library's, and so are its refusals."""
    found = []
    for module in (kinbin, kinbin_client):
        try:
            found.append(module.shingles(text, **{by: length}))
        except (kinbin.InvalidInput, InvalidArgument) as error:
            found.append((error.code, str(error)))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("text", "options"), [("a", {}), ("a", {"words": 1, "characters": 1}), (None, {"words": 1}), ("\ud800", {"words": 1})]
)
def test_what_cannot_be_shingled_is_refused_alike(text: Any, options: dict[str, Any]) -> None:
    """What is no text, and lengths that are none or two, are refused in the same words."""
    with pytest.raises(kinbin.InvalidInput) as by_library:
        kinbin.shingles(text, **options)
    with pytest.raises(InvalidArgument) as by_client:
        kinbin_client.shingles(text, **options)
    assert (by_client.value.code, str(by_client.value)) == (by_library.value.code, str(by_library.value))
