"""Ids and payloads that cannot be taken: code, text and position, and nothing written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, IntEnum
from fractions import Fraction
from typing import Any
from uuid import UUID

import numpy as np
import pytest

import kinbin
from kinbin.limits import LIMITS
from refusals import refused, unchanged

EMPTY = "an id has at least one character, this one is empty"
UNPRINTABLE = "an id holds printable characters only, this one has a control, separator or surrogate character"
TOO_LARGE = "an integer id has 64 bits: from -2**63 to 2**64 - 1; convert others with str()"
NOT_NFC = "an id is in Unicode normal form C, this one is not; normalise it first"


def kind(name: str) -> str:
    """The refusal of what is neither a string nor an integer."""
    return f"an id is a string or a 64-bit integer, this is {name}; convert it with str()"


BAD_IDS: dict[str, tuple[Any, str]] = {
    "a lone surrogate": ("a\ud800", UNPRINTABLE),
    "a low surrogate": ("\udc80", UNPRINTABLE),
    "NUL": ("a\0b", UNPRINTABLE),
    "a new line": ("a\nb", UNPRINTABLE),
    "an escape": ("a\x1b[31m", UNPRINTABLE),
    "delete": ("a\x7f", UNPRINTABLE),
    "a C1 control": ("a\x85", UNPRINTABLE),
    "a line separator": ("a\u2028b", UNPRINTABLE),
    "a right-to-left override": ("a\u202eb", UNPRINTABLE),
    "a zero-width space": ("a\u200bb", UNPRINTABLE),
    "a no-break space": ("a\xa0b", UNPRINTABLE),
    "a byte order mark": ("\ufeffa", UNPRINTABLE),
    "not assigned": ("a\U000e0fff", UNPRINTABLE),
    "empty": ("", EMPTY),
    "256 bytes": ("a" * 256, "an id has at most 255 bytes of UTF-8, this one has 256"),
    "256 bytes in 128 characters": ("é" * 128, "an id has at most 255 bytes of UTF-8, this one has 256"),
    "a million bytes": ("a" * 1_000_000, "an id has at most 255 bytes of UTF-8, this one has 1000000"),
    "decomposed": ("e\u0301", NOT_NFC),
    "a singleton": ("\u212b", NOT_NFC),
    "an integer of 65 bits": (2**64, TOO_LARGE),
    "an integer of 65 bits below 0": (-(2**63) - 1, TOO_LARGE),
    "a fraction": (5.0, kind("float")),
    "a boolean": (True, kind("bool")),
    "null": (None, kind("NoneType")),
    "bytes": (b"a", kind("bytes")),
    "a list": (["a"], kind("list")),
    "a numpy fraction": (np.float32(5), kind("float32")),
    "a numpy boolean": (np.bool_(True), kind("bool")),
}

GOOD_IDS = [
    "a",
    " ",
    "0",
    "A.b:c-d_e/f\\g",
    "../../etc/passwd",
    "%2e%2e",
    "a b",
    '"quoted"',
    "<b>",
    "é",
    "日本語",
    "🦊",
    "ß",
    "a" * 255,
    "é" * 127,
    "🦊" * 63,
    "null",
    "$ne",
]


def filled(db: kinbin.Database) -> kinbin.Collection:
    """A collection with one item."""
    made = db.create_collection("c", dim=3)
    made.add(["here"], [[1, 2, 3]], [{"kept": True}])
    return made


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kinbin.Collection]:
    """One for all tests that leave in it what they find."""
    with kinbin.open(tmp_path_factory.mktemp("items")) as db:
        yield filled(db)


@pytest.mark.parametrize("label", BAD_IDS)
def test_a_bad_id_is_refused(label: str, collection: kinbin.Collection) -> None:
    """Every method that takes ids refuses a bad one with its text and position, and nothing is written."""
    identifier, detail = BAD_IDS[label]
    ids = ["here", "new", identifier, "more"]
    with unchanged(collection):
        with refused("bad_id", detail, position=2, field="id"):
            collection.add(ids, np.ones((4, 3)))
        with refused("bad_id", detail, position=2, field="id"):
            collection.delete(ids)
        with refused("bad_id", detail, position=2, field="id"):
            collection.get(ids)
        with refused("bad_id", detail, position=0, field="id"):
            collection.query_id(identifier)


@pytest.mark.parametrize("identifier", GOOD_IDS)
def test_a_good_id_is_kept_as_it_is(identifier: str, collection: kinbin.Collection) -> None:
    """Any printable text in normal form C of up to 255 bytes is an id, and comes back unchanged from every method."""
    collection.add([identifier], [[3, 2, 1]])
    (item,) = collection.get([identifier])
    assert item is not None
    assert item.id == identifier
    assert collection.query([3, 2, 1], k=1).ids == [identifier]
    assert collection.query_id(identifier, k=1, include_self=True).ids == [identifier]
    assert identifier in [item.id for item in collection.scroll().items]
    assert collection.delete([identifier]).deleted == 1


def test_a_duplicate_id_is_refused(db: kinbin.Database) -> None:
    """An add with an id twice is refused at its second place, though the vectors are equal; get and delete take it."""
    collection = filled(db)
    with (
        unchanged(collection),
        refused("duplicate_id", "the id 'a' is at position 1 already; send each id once", position=3, field="id"),
    ):
        collection.add(["x", "a", "y", "a"], np.ones((4, 3)))
    assert [item.id for item in collection.get(["here", "here"]) if item is not None] == ["here", "here"]
    assert collection.delete(["here", "here"]) == kinbin.DeleteResult(1, 0)


def test_the_first_eight_bad_ids_are_named(collection: kinbin.Collection) -> None:
    """Of many bad ids, the first eight are listed, of all kinds together."""
    ids: list[Any] = ["a", "", "a", 3.5, "b", "\0", "b", "", "", "", "", "", ""]
    with unchanged(collection), pytest.raises(kinbin.InvalidInput) as caught:
        collection.add(ids, np.ones((len(ids), 3)))
    assert [(p.position, p.code) for p in caught.value.problems] == [
        (1, "bad_id"), (2, "duplicate_id"), (3, "bad_id"), (5, "bad_id"), (6, "duplicate_id"), (7, "bad_id"), (8, "bad_id"), (9, "bad_id"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "ids",
    ["abc", b"abc", np.array("abc"), {"a"}, {"a": 1}, 5, (x for x in "a"), kinbin.Tokens({})],
    ids=lambda ids: type(ids).__name__,
)
def test_ids_are_a_list(ids: Any, collection: kinbin.Collection) -> None:
    """Ids that are no sequence of strings (a string among them) are refused as a whole."""
    with unchanged(collection):
        with refused("bad_parameter", "ids are a list of strings", field="ids"):
            collection.add(ids, np.ones((1, 3)))
        with refused("bad_parameter", "ids are a list of strings", field="ids"):
            collection.get(ids)


@pytest.mark.parametrize("ids", [("a", "b"), np.array(["a", "b"]), np.array(["a", "b"], object)], ids=["tuple", "array", "objects"])
def test_ids_may_be_any_sequence(ids: Any, db: kinbin.Database) -> None:
    """Tuples and arrays of strings are taken as lists are."""
    collection = filled(db)
    collection.add(ids, np.ones((2, 3)))
    assert [item.id for item in collection.get(ids) if item is not None] == ["a", "b"]


def deep(levels: int) -> dict[str, Any]:
    """A payload of so many levels."""
    payload: dict[str, Any] = {}
    for _ in range(levels - 1):
        payload = {"a": payload}
    return payload


def endless() -> dict[str, Any]:
    """A payload that holds itself."""
    payload: dict[str, Any] = {}
    payload["self"] = [payload]
    return payload


def foreign(name: str) -> str:
    """The refusal of what JSON has no word for."""
    article = "an" if name in ("int64", "object") else "a"
    return f"a payload holds JSON only: dict, list, str, int, float, bool, None; this one has {article} {name}, convert it first"


class Colour(Enum):
    """An enumeration, whose members have values."""

    RED = "red"


class Number(IntEnum):
    """One whose members are numbers as well."""

    ONE = 1


@dataclass
class Record:
    """A dataclass, whose fields are not those of JSON."""

    inner: Any = float("nan")


class Hiding(dict[str, Any]):
    """A dictionary that does not show what it holds."""

    def values(self) -> Any:
        """Nothing."""
        return ()


FINITE = "a payload has finite numbers only, this one has a NaN or an infinity; use null"
DEEP = "a payload is nested at most 32 levels deep, this one is deeper"

BAD_PAYLOADS: dict[str, tuple[Any, str]] = {
    "NaN": ({"a": float("nan")}, FINITE),
    "infinity inside": ({"a": [{"b": float("inf")}]}, FINITE),
    "minus infinity": ({"a": {"b": float("-inf")}}, FINITE),
    "a string": ("text", "a payload is a JSON object (dict) or null, this is str"),
    "a number": (3, "a payload is a JSON object (dict) or null, this is int"),
    "a list": ([1], "a payload is a JSON object (dict) or null, this is list"),
    "a boolean": (False, "a payload is a JSON object (dict) or null, this is bool"),
    "33 levels": (deep(33), DEEP),
    "33 levels of lists": ({"a": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}, DEEP),
    "itself": (endless(), DEEP),
    "a number as key": ({1: "a"}, "a payload is JSON: Dict key must be str"),
    "a set": ({"a": {1}}, foreign("set")),
    "bytes": ({"a": b"1"}, foreign("bytes")),
    "a complex number": ({"a": 1j}, foreign("complex")),
    "an array": ({"a": np.ones(2)}, foreign("ndarray")),
    "an object": ({"a": object()}, foreign("object")),
    "a dataclass": ({"a": Record(1)}, foreign("Record")),
    "a dataclass with a NaN": ({"a": [Record()]}, foreign("Record")),
    "a date": ({"a": datetime(2020, 1, 1)}, foreign("datetime")),  # noqa: DTZ001 - any date is refused
    "a UUID": ({"a": UUID(int=1)}, foreign("UUID")),
    "an enumeration": ({"a": Colour.RED}, foreign("Colour")),
    "an enumeration of numbers": ({"a": Number.ONE}, foreign("Number")),
    "a numpy number": ({"a": np.int64(1)}, foreign("int64")),
    "a numpy fraction": ({"a": np.float64(1)}, foreign("float64")),
    "a numpy string": ({"a": np.str_("a")}, foreign("str_")),
    "a fraction of integers": ({"a": Fraction(1, 2)}, foreign("Fraction")),
    "a hidden NaN": (Hiding(a=float("nan")), FINITE),
    "70 bits": ({"a": 2**70}, "a payload is JSON: Integer exceeds 64-bit range"),
    "400 digits": ({"a": 10**400}, "a payload is JSON: Integer exceeds 64-bit range"),
    "a lone surrogate": ({"a": "\ud800"}, "a payload is JSON: str is not valid UTF-8: surrogates not allowed"),
    "a lone surrogate as key": ({"\ud800": 1}, "a payload is JSON: str is not valid UTF-8: surrogates not allowed"),
}


@pytest.mark.parametrize("label", BAD_PAYLOADS)
def test_a_bad_payload_is_refused(label: str, collection: kinbin.Collection) -> None:
    """A payload that is no finite JSON object is refused with its text and position, and nothing is written."""
    payload, detail = BAD_PAYLOADS[label]
    with unchanged(collection), refused("bad_payload", detail, position=2, field="payload"):
        collection.add(["here", "new", "bad"], np.ones((3, 3)), [{"a": 1}, None, payload])


def test_a_payload_over_the_limit_is_refused(db: kinbin.Database) -> None:
    """65,536 bytes of JSON are taken, one more is refused."""
    collection = filled(db)
    most = int(LIMITS["payload_bytes"].value)
    room = most - len('{"a":""}')
    collection.add(["most"], np.ones((1, 3)), [{"a": "x" * room}])
    with (
        unchanged(collection),
        refused(
            "over_limit",
            f"a payload has at most {most} bytes of JSON, this one has {most + 1}",
            position=1,
            field="payload",
            limit="payload_bytes",
        ),
    ):
        collection.add(["here", "more"], np.ones((2, 3)), [None, {"a": "x" * (room + 1)}])
    collection.add(["32 levels"], np.ones((1, 3)), [deep(32)])


@pytest.mark.parametrize(
    "payloads", [5, {"a": 1}, "ab", (None for _ in range(1)), np.array([None])], ids=lambda payloads: type(payloads).__name__
)
def test_payloads_are_a_list(payloads: Any, collection: kinbin.Collection) -> None:
    """Payloads that are no sequence are refused as a whole."""
    with (
        unchanged(collection),
        refused("bad_parameter", "payloads are a list of JSON objects (dict) or None, one for each id", field="payloads"),
    ):
        collection.add(["a"], np.ones((1, 3)), payloads)


def test_the_number_of_payloads_is_that_of_the_ids(collection: kinbin.Collection) -> None:
    """Fewer payloads than ids are refused."""
    with unchanged(collection), refused("bad_parameter", "1 payloads came with 2 ids; send one (or None) for each", field="payloads"):
        collection.add(["a", "b"], np.ones((2, 3)), [None])


def test_every_fault_of_a_batch_is_found_before_anything_is_written(collection: kinbin.Collection) -> None:
    """Ten thousand good items and one bad one, of each kind, write nothing."""
    n = int(LIMITS["batch_items"].value)
    ids = [str(i) for i in range(n)]
    X = np.ones((n, 3))
    X[-1] = 0
    bad: list[Callable[[], Any]] = [
        lambda: collection.add(ids, X),
        lambda: collection.add([*ids[:-1], "0"], np.ones((n, 3))),
        lambda: collection.add(ids, np.ones((n, 3)), [*[None] * (n - 1), {"a": float("nan")}]),
    ]
    with unchanged(collection):
        for call in bad:
            with pytest.raises(kinbin.InvalidInput) as caught:
                call()
            assert caught.value.problems[0].position == n - 1
