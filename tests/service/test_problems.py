"""Problem documents: the table of codes, the limits of size, and every library error."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

import kinbin
from kinbin_service.limits import PROBLEM_BYTES
from kinbin_service.problems import CODES, Entry, Place, Refusal, document, from_library


def library_errors(base: type[kinbin.KinbinError] = kinbin.KinbinError) -> Iterator[type[kinbin.KinbinError]]:
    """Every class of the library's error tree."""
    yield base
    for child in base.__subclasses__():
        yield from library_errors(child)


STATUSES = {
    "CollectionNotFound": 404,
    "SnapshotNotFound": 404,
    "CollectionExists": 409,
    "ItemConflict": 409,
    "VersionConflict": 409,
    "KeyReused": 409,
    "AliasConflict": 409,
    "CursorExpired": 409,
    "AliasNotFound": 404,
    "StorageFull": 507,
    "StorageBusy": 503,
    "CorruptData": 500,
    "FormatMismatch": 500,
    "StorageError": 500,
    "Closed": 503,
    "SearchCancelled": 503,
    "KinbinError": 500,
    "InvalidInput": 422,
}


@pytest.mark.parametrize("kind", sorted(set(library_errors()) - {kinbin.CollectionExists}, key=str), ids=str)
def test_every_library_error_has_its_status(kind: type[kinbin.KinbinError]) -> None:
    """No error of the library falls through the table, and its own text stays inside."""
    error = kinbin.InvalidInput.of("bad_vector", "not good") if kind is kinbin.InvalidInput else kind("a secret path")
    refusal = from_library(error, Place())
    named = next(base.__name__ for base in kind.__mro__ if base.__module__ == "kinbin.errors")
    assert CODES[refusal.code].status == STATUSES[named]
    assert b"secret" not in refusal.response().body


@pytest.mark.parametrize(
    "code",
    ["non_finite", "zero_vector", "negative_value", "dimension_mismatch", "duplicate_feature", "duplicate_id", "bad_id", "bad_payload",
     "bad_vector", "out_of_range", "over_limit", "bad_parameter", "bad_filter", "bad_name"],
)  # fmt: skip
def test_every_code_of_invalid_input_is_422(code: str) -> None:
    """All codes that the library documents for bad input are in the table, as 422."""
    refusal = from_library(kinbin.InvalidInput.of(code, "why", position=3, field="vector"), Place("items"))
    assert (refusal.code, CODES[refusal.code].status) == (code, 422)
    # The library's text has the id itself, which the service repeats of conflicts only.
    told = "the same id is in the batch already; send each id once" if code == "duplicate_id" else "why"
    assert refusal.errors == (Entry("#/items/3/vector", told),)


def test_an_unknown_id_is_not_found_and_an_unknown_code_is_still_an_input_error() -> None:
    """unknown_id is 404; a code that the service has not heard of is 422 all the same."""
    assert CODES[from_library(kinbin.InvalidInput.of("unknown_id", "none"), Place()).code].status == 404
    assert CODES[from_library(kinbin.InvalidInput.of("brand_new", "none"), Place()).code].status == 422


def test_the_name_of_a_passed_limit_is_told() -> None:
    """`limit` of a problem reaches the document."""
    refusal = from_library(kinbin.InvalidInput.of("over_limit", "too many", field="k", limit="k"), Place())
    assert orjson.loads(refusal.response().body)["limit"] == "k"


@pytest.mark.parametrize(
    ("place", "position", "field", "pointer"),
    [
        (Place("items"), 3, "vector", "#/items/3/vector"),
        (Place("items"), 3, None, "#/items/3"),
        (Place("items"), None, "mode", "#/mode"),
        (Place("items"), None, "vector", "#/items"),
        (Place("items"), None, None, "#/items"),
        (Place("queries"), 2, "vector", "#/queries/2"),
        (Place("queries"), None, "k", "#/k"),
        (Place("queries"), None, "queries", "#/queries"),
        (Place("ids"), 1, "id", "#/ids/1"),
        (Place("ids"), None, "filter", "#/filter"),
        (Place(), 0, "vector", "#/vector"),
        (Place(), None, "x", "#/vector"),
        (Place(), None, "filter", "#/filter"),
        (Place(), None, "name", "#"),
        (Place(), None, None, "#"),
    ],
)
def test_positions_and_fields_become_pointers(place: Place, position: int | None, field: str | None, pointer: str) -> None:
    """What the library says about its arguments becomes a pointer into the body they came from."""
    assert place.pointer(position, field) == pointer


def test_conflicting_ids_are_named() -> None:
    """A conflict has the library's text, which names ids, and points at the first place of each."""
    refusal = from_library(kinbin.ItemConflict("there: 'c', 'b'", ("c", "b")), Place("items", ["a", "b", "c"]))
    assert refusal.detail == "there: 'c', 'b'"
    assert [entry.pointer for entry in refusal.errors] == ["#/items/1/id", "#/items/2/id"]


def test_what_differs_of_a_collection_that_exists_is_told(tmp_path: Path) -> None:
    """The library's text is passed on, and names parts of the configuration: no file, and nothing of where the data lies."""
    with kinbin.open(tmp_path) as database:
        database.create_collection("photos", dim=3)
        for wanted in ({"dim": 4}, {"fields": {"a": {"dim": 3}}}):
            with pytest.raises(kinbin.CollectionExists) as told:
                database.create_collection("photos", **wanted, exist_ok=True)
            refusal = from_library(told.value, Place())
            assert (refusal.detail, CODES[refusal.code].status) == (str(told.value), STATUSES["CollectionExists"])
            assert str(tmp_path).encode() not in refusal.response().body


def test_a_collection_that_may_be_meant_is_named() -> None:
    """The text of a collection that is not there names a similar one, if there is one, and not what was asked for."""
    refusal = from_library(kinbin.CollectionNotFound("no collection is named 'fotos'", "photos"), Place())
    assert refusal.detail.endswith("creates default; did you mean 'photos'?")
    assert b"fotos" not in refusal.response().body


@pytest.mark.parametrize("code", CODES)
def test_every_code_makes_a_whole_document(code: str) -> None:
    """Each code of the table gives a document with status and title, and Retry-After where a retry may help."""
    response = Refusal(code, "why").response()
    content = orjson.loads(response.body)
    assert (content["code"], content["status"], content["title"]) == (code, response.status_code, CODES[code].title)
    assert ("retry-after" in response.headers) == (response.status_code in (429, 503))


@pytest.mark.parametrize("letter", ["x", "é", "😀", '"', "\\", "\0", "\ud800"])
def test_a_document_stays_below_two_kilobytes_whatever_it_holds(letter: str) -> None:
    """Long texts are cut and entries left out until the document fits, and it is JSON even then."""
    entries = [Entry("#/" + letter * 5_000, letter * 5_000)] * 50
    body = document("over_limit", letter * 5_000, entries, "k")
    assert len(body) < PROBLEM_BYTES
    assert len(orjson.loads(body)["errors"]) <= 8
