"""Requests are what the contract says, byte for byte; arguments that no request can hold are refused before."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kinbin_client import Client, Conflict, ConnectionFailed, InvalidArgument, QueryOptions, _requests
from kinbin_client._chunks import Chunking, query_chunks
from kinbin_client._requests import DEFAULT_SCOPE, Operation, collection_scope
from kinbin_client._responses import Reply
from kinbin_client.retry import Repeat


def parts(operation: Operation[Any]) -> tuple[str, str, Any]:
    """Method, path and JSON of an operation."""
    request = operation.request
    return request.method, request.path, None if request.body is None else json.loads(request.body)


def test_operations_have_their_routes() -> None:
    """Every operation has the method, path and body of the contract."""
    assert parts(_requests.query(DEFAULT_SCOPE, [1, 2], QueryOptions(k=5, include=("payload",), filter={"year": 2020}))) == (
        "POST",
        "/query",
        {"vector": [1, 2], "k": 5, "target_recall": 0.9, "mode": "auto", "include": ["payload"], "filter": {"year": 2020}},
    )
    assert parts(_requests.query_id(collection_scope("p"), "a", QueryOptions(min_score=0.5, mode="exact", target_recall=1.0))) == (
        "POST",
        "/v1/collections/p/query",
        {"id": "a", "k": 10, "target_recall": 1.0, "mode": "exact", "include": [], "min_score": 0.5},
    )
    assert parts(_requests.query(DEFAULT_SCOPE, [1, 2], QueryOptions(k=5, mode="links", certify=True))) == (
        "POST",
        "/query",
        {"vector": [1, 2], "k": 5, "target_recall": 0.9, "mode": "links", "certify": True, "include": []},
    )
    assert parts(_requests.get("p", ["a"], ("vector",))) == ("POST", "/v1/collections/p/get", {"ids": ["a"], "include": ["vector"]})
    assert parts(_requests.delete("p", ["a"], None)) == ("POST", "/v1/collections/p/delete", {"ids": ["a"]})
    assert parts(_requests.delete("p", None, {"year": 1})) == ("POST", "/v1/collections/p/delete", {"filter": {"year": 1}})
    scroll = {"after": "x", "limit": 7, "filter": None, "include": ["payload"]}
    assert parts(_requests.scroll("p", "x", 7, None, ("payload",))) == ("POST", "/v1/collections/p/scroll", scroll)
    ordered = {**scroll, "order_by": "year", "descending": True}
    assert parts(_requests.scroll("p", "x", 7, None, ("payload",), "year", True)) == ("POST", "/v1/collections/p/scroll", ordered)
    facets = {"field": "tag", "filter": {"year": 1}, "limit": 5}
    assert parts(_requests.facets("p", "tag", {"year": 1}, 5)) == ("POST", "/v1/collections/p/facets", facets)
    changed = {"add": {"year": "number"}, "drop": ["tag"]}
    assert parts(_requests.change_indexes("p", {"year": "number"}, ["tag"])) == ("POST", "/v1/collections/p/indexes", changed)
    assert parts(_requests.count("p", None)) == ("POST", "/v1/collections/p/count", {"filter": None})
    assert parts(_requests.create_collection("p", {"kernel": "gmm"}, True)) == ("PUT", "/v1/collections/p", {"kernel": "gmm"})
    assert parts(_requests.collection_info("p")) == ("GET", "/v1/collections/p", None)
    assert parts(_requests.drop_collection("p")) == ("DELETE", "/v1/collections/p", None)
    assert parts(_requests.collections()) == ("GET", "/v1/collections", None)
    assert parts(_requests.limits()) == ("GET", "/v1/limits", None)
    assert parts(_requests.health()) == ("GET", "/healthz", None)
    assert parts(_requests.ready()) == ("GET", "/readyz", None)


def test_only_dropping_is_not_repeated_blindly() -> None:
    """Of all operations but adds, dropping a collection alone must not be done twice."""
    operations: list[Operation[Any]] = [
        _requests.query(DEFAULT_SCOPE, [1], QueryOptions()),
        _requests.query_id(DEFAULT_SCOPE, "a", QueryOptions()),
        _requests.get("p", ["a"], ()),
        _requests.delete("p", ["a"], None),
        _requests.scroll("p", None, 1, None, ()),
        _requests.count("p", None),
        _requests.create_collection("p", {}, True),
        _requests.collection_info("p"),
        _requests.collections(),
        _requests.limits(),
        _requests.health(),
        _requests.ready(),
    ]
    assert {operation.request.repeat for operation in operations} == {Repeat.ALWAYS}
    assert _requests.drop_collection("p").request.repeat is Repeat.IF_NOT_DONE


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "a b", "a?b", "a#b", "a%2fb", "é", "a\n", ".hidden"])
def test_name_that_leads_elsewhere_is_refused(name: str) -> None:
    """A name that would change the path is refused before it is put there."""
    with pytest.raises(InvalidArgument, match="the name of a collection"):
        _requests.collection_path(name)


@pytest.mark.parametrize("name", ["photos", "a-b_c", "X1", "a..b"])
def test_name_that_fits_a_path_is_left_to_the_service(name: str) -> None:
    """Whether a name that can stand in a path is allowed, the service says."""
    assert _requests.collection_path(name) == f"/v1/collections/{name}"


def test_certify_travels_only_where_it_is_asked_for() -> None:
    """A service that does not know the option is not told of it unless it is wanted."""
    assert "certify" not in parts(_requests.query(DEFAULT_SCOPE, [1, 2], QueryOptions(certify=False)))[2]
    assert parts(_requests.query_id(DEFAULT_SCOPE, "a", QueryOptions(certify=True)))[2]["certify"] is True


def test_unknown_option_is_a_type_error() -> None:
    """An option that does not exist is refused as Python does it, not ignored."""
    with pytest.raises(TypeError, match="target_recal"):
        QueryOptions(target_recal=0.5)  # type: ignore[call-arg]  # the mistake under test


def test_delete_takes_one_of_ids_and_filter() -> None:
    """Deleting by nothing or by both is refused: it would delete something else than was meant."""
    with pytest.raises(InvalidArgument, match="exactly one"):
        _requests.delete("p", None, None)
    with pytest.raises(InvalidArgument, match="exactly one"):
        _requests.delete("p", ["a"], {"x": 1})


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ("abc", "ids are a list of strings"),
        ([1.5], "item 0: an id is a string or a 64-bit integer, this is float"),
        ([2**64], "item 0: an integer id has 64 bits"),
        (["a", None], "item 1"),
        ({"a"}, "ids are a list"),
        ({"a": 1}, "ids are a list"),
    ],
)
def test_ids_are_strings(ids: Any, words: str) -> None:
    """Ids that are neither strings nor integers of 64 bits, or one string in place of many, are refused."""
    with pytest.raises(InvalidArgument, match=words):
        _requests.id_list(ids)


def test_one_string_is_one_name() -> None:
    """A string in place of a sequence of names is not taken letter by letter: it is one name, as in the library."""
    assert parts(_requests.get("p", ["a"], "payload"))[2]["include"] == ["payload"]  # type: ignore[arg-type]  # no sequence
    assert parts(_requests.query(DEFAULT_SCOPE, [1], QueryOptions(include="vector")))[2]["include"] == ["vector"]  # type: ignore[arg-type]


@pytest.mark.parametrize("exist_ok", [True, False])
def test_a_collection_that_is_there_is_found_only_if_that_is_wanted(exist_ok: bool) -> None:
    """200 in place of 201 means that nothing was created: without exist_ok that is the conflict that it is in the library."""
    operation = _requests.create_collection("p", {}, exist_ok)
    body = b'{"name":"p","kernel":"ngmm","dim":null,"sampler":null,"bands":null,"rows":null,"count":0,"stats":{}}'
    assert operation.parse(Reply(201, {"content-type": "application/json"}, body)).name == "p"
    there = Reply(200, {"content-type": "application/json"}, body)
    if exist_ok:
        assert operation.parse(there).name == "p"
    else:
        with pytest.raises(Conflict, match="the collection exists; choose another name or drop it first") as found:
            operation.parse(there)
        assert (found.value.status, found.value.code) == (409, "collection_exists")
    # Sent twice, the second answer would be that the collection of the first is there.
    assert operation.request.repeat is (Repeat.ALWAYS if exist_ok else Repeat.IF_NOT_DONE)


def test_what_has_no_json_is_refused() -> None:
    """Foreign objects, circles and NaN in payloads and filters are refused, naming what they stand in."""
    circle: dict[str, Any] = {}
    circle["self"] = circle
    for value in (object(), circle, float("nan"), {1, 2}):
        with pytest.raises(InvalidArgument, match="the payload has no JSON form"):
            _requests.to_json({"x": value}, "payload")


@pytest.mark.parametrize("given", [{"after": "\xe9"}, {"after": "a\r\nb: c"}, {"k": 10**400}, {"target_recall": 10**400}], ids=repr)
def test_options_that_no_request_can_carry_are_refused(given: Any) -> None:
    """A number beyond all floats, a token that is no header: refused by the client, for every way of asking."""
    with pytest.raises(InvalidArgument) as refused:
        QueryOptions(**given)
    assert refused.value.code == "bad_parameter"


def test_options_may_be_numpys() -> None:
    """Narrow numbers and arrays of ids are taken, without a warning."""
    given: dict[str, Any] = {"k": np.int8(3), "target_recall": np.float32(0.5), "min_score": np.float16(0.5)}
    options = QueryOptions(**given, exclude=np.array(["a", "b"]))  # type: ignore[arg-type]  # as people have them
    assert options.exclude == ("a", "b")


@pytest.mark.parametrize("given", [{"k": "3"}, {"k": None}, {"k": [3]}, {"offset": "1"}], ids=repr)
def test_a_batch_sends_what_the_service_is_to_refuse(given: Any) -> None:
    """How a batch is cut follows from k and offset where they are numbers; what they are else travels as it is."""
    total, chunks = query_chunks(DEFAULT_SCOPE, [[1.0, 2.0], [3.0, 4.0]], QueryOptions(**given), Chunking())
    assert total == 2
    assert list(chunks)


ARRAY: Any = np.array(["a", "b"])
WORDS: dict[str, Callable[[Client], object]] = {
    "mode": lambda client: client.collection("c").add(["a"], [[1, 2]], mode=ARRAY),
    "on_error": lambda client: client.collection("c").add(["a"], [[1, 2]], on_error=ARRAY),
    "items": lambda client: client.create_collection("c", items=ARRAY),
    "cursor": lambda client: client.collection("c").query([1, 2], cursor=ARRAY),
    "group_by": lambda client: client.collection("c").query([1, 2], group_by=ARRAY),
}
"""Arrays in the place of a word."""


@pytest.mark.slow
@pytest.mark.parametrize("word", WORDS)
def test_an_array_is_no_word(word: str) -> None:
    """It is refused in the client's words, or sent as a list, for the service to refuse."""
    error = InvalidArgument if word in {"mode", "on_error"} else ConnectionFailed
    with Client("http://127.0.0.1:9") as client, pytest.raises(error):
        WORDS[word](client)
