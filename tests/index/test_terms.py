"""Writes on terms: payloads alone, item versions, bad items left out, idempotency keys, limits; with one vector and with fields."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbin
from kinbin.payloads import merged
from kinbin.storage import answered

KINDS = ("plain", "fields")


class Held:
    """A collection of either kind, with the vectors that it takes."""

    def __init__(self, database: kinbin.Database, kind: str) -> None:
        self.kind = kind
        given: dict[str, Any] = {"dim": 3} if kind == "plain" else {"fields": {"one": {"dim": 3}, "two": {}}}
        self.collection: Any = database.create_collection("held", **given)

    def vectors(self, rows: list[list[float]]) -> Any:
        """Vectors in the form of the collection."""
        return (
            rows
            if self.kind == "plain"
            else {"one": rows, "two": [kinbin.Tokens({"w": 1.0}) if row[0] == row[0] else [0.0] for row in rows]}
        )

    def add(self, ids: list[str], rows: list[list[float]], payloads: Any = None, **terms: Any) -> kinbin.AddResult:
        """Add items."""
        result: kinbin.AddResult = self.collection.add(ids, self.vectors(rows), payloads, **terms)
        return result

    def state(self) -> dict[str, Any]:
        """Payload and version of everything that is stored."""
        page = self.collection.scroll(include=("payload", "version"))
        return {item.id: (item.payload, item.version) for item in page.items}


@pytest.fixture(params=KINDS)
def held(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Held]:
    """An empty collection of each kind."""
    with kinbin.open(tmp_path / "data") as database:
        yield Held(database, request.param)


ROWS = [[1.0, 0.0, 2.0], [0.0, 1.5, 2.0], [3.0, 1.0, 0.5]]


def test_payloads_are_replaced_and_patched_without_vectors(held: Held) -> None:
    """A payload is replaced, patched or taken away; vectors, answers and the number of stored rows stay as they are."""
    held.add(["a", "b", "c"], ROWS, [{"year": 2020, "in": {"x": 1, "y": 2}}, None, {"t": 1}])
    before = held.collection.get(["a", "b", "c"], include=("vector",))
    done = held.collection.set_payload(["b", "c"], [{"year": 1999}, None])
    assert (done.updated, done.unchanged, done.count) == (2, 0, 3)
    patched = held.collection.patch_payload(["a", "b"], [{"in": {"x": None, "z": [1]}, "new": True}, {}])
    assert (patched.updated, patched.unchanged) == (1, 1)
    told = {name: payload for name, (payload, _) in held.state().items()}
    assert told == {"a": {"year": 2020, "in": {"y": 2, "z": [1]}, "new": True}, "b": {"year": 1999}, "c": None}
    assert held.collection.count({"year": 1999}) == 1
    after = held.collection.get(["a", "b", "c"], include=("vector",))
    assert [str(one.vector if held.kind == "plain" else one.vectors) for one in after] == [
        str(one.vector if held.kind == "plain" else one.vectors) for one in before
    ]
    assert held.collection.check().ok
    assert held.collection.check().rows == (3 if held.kind == "plain" else 6)


def test_payload_writes_are_all_or_none(held: Held) -> None:
    """An id that is not there, a payload that is none, and one that grows too large by a patch refuse the whole call."""
    held.add(["a", "b"], ROWS[:2], [{"x": 1}, {"long": "x" * 60_000}])
    before = held.state()
    with pytest.raises(kinbin.ItemConflict, match=r"2 of 3 ids are not in the collection \('z', 'y'\)") as missing:
        held.collection.set_payload(["a", "z", "y"], [{"x": 2}] * 3)
    assert missing.value.ids == ("z", "y")
    with pytest.raises(kinbin.InvalidInput, match="JSON object") as bad:
        held.collection.patch_payload(["a", "b"], [{"x": 2}, [1]])
    assert bad.value.problems[0].position == 1
    with pytest.raises(kinbin.InvalidInput, match="with the patch this one has 1") as large:
        held.collection.patch_payload(["a", "b"], [{"x": 2}, {"more": "y" * 60_000}])
    assert (large.value.code, large.value.problems[0].position) == ("over_limit", 1)
    with pytest.raises(kinbin.InvalidInput, match="already; send each id once"):
        held.collection.set_payload(["a", "a"], [{}, {}])
    assert held.state() == before


@pytest.mark.parametrize(
    ("payload", "patch", "wanted"),
    [
        (b'{"a":"b"}', b'{"a":"c"}', b'{"a":"c"}'),
        (b'{"a":"b"}', b'{"b":"c"}', b'{"a":"b","b":"c"}'),
        (b'{"a":"b"}', b'{"a":null}', b"{}"),
        (b'{"a":"b","b":"c"}', b'{"a":null}', b'{"b":"c"}'),
        (b'{"a":["b"]}', b'{"a":"c"}', b'{"a":"c"}'),
        (b'{"a":"c"}', b'{"a":["b"]}', b'{"a":["b"]}'),
        (b'{"a":{"b":"c"}}', b'{"a":{"b":"d","c":null}}', b'{"a":{"b":"d"}}'),
        (b'{"a":[{"b":"c"}]}', b'{"a":[1]}', b'{"a":[1]}'),
        (b'{"e":null}', b'{"a":1}', b'{"a":1,"e":null}'),
        (b"", b'{"a":{"bb":{"ccc":null}}}', b'{"a":{"bb":{}}}'),
        (b'{"a":1}', b"", b'{"a":1}'),
    ],
)
def test_patches_follow_the_examples_of_the_standard(payload: bytes, patch: bytes, wanted: bytes) -> None:
    """The examples of RFC 7396, appendix A, whose documents are objects, come out as it says."""
    assert merged(payload, patch) == wanted


def test_a_version_changes_with_vector_and_payload_and_with_nothing_else(held: Held) -> None:
    """Writes that change an item give it another version; the same again, compaction and a reader of its own do not."""
    held.add(["a", "b"], ROWS[:2], [{"x": 1}, None])
    first = held.state()
    held.add(["a"], ROWS[:1], [{"x": 1}])
    held.collection.compact()
    assert held.state() == first
    held.collection.set_payload(["a"], [{"x": 2}])
    second = held.state()
    held.add(["b"], [[9.0, 1.0, 1.0]])
    third = held.state()
    assert len({first["a"][1], second["a"][1]}) == 2
    assert (second["b"][1], third["a"][1]) == (first["b"][1], second["a"][1])
    assert third["b"][1] != second["b"][1]
    assert held.collection.versions(["b", "nobody", "a"]) == [third["b"][1], 0, third["a"][1]]
    assert held.collection.get(["a"])[0].version is None
    held.add(["twin"], ROWS[:1], [{"x": 2}])
    assert len(set(held.collection.versions(["a", "twin"]))) == 2


def test_conditional_writes_are_refused_where_one_version_differs(held: Held) -> None:
    """A version that is not the stored one refuses the whole write and names the ids; the right ones let it through."""
    held.add(["a", "b"], ROWS[:2], [{"x": 1}, None])
    before, (a, b) = held.state(), held.collection.versions(["a", "b"])
    for versions, named in (([a, b + 1], ("b",)), ([0, b], ("a",)), ([b, a], ("a", "b"))):
        with pytest.raises(kinbin.VersionConflict, match="get them and decide anew; nothing was written") as refused:
            held.add(["a", "b"], ROWS[1:], if_versions=versions)
        assert (refused.value.ids, refused.value.code) == (named, "version_conflict")
        with pytest.raises(kinbin.VersionConflict):
            held.collection.set_payload(["a", "b"], [{"y": 1}] * 2, if_versions=versions)
    with pytest.raises(kinbin.VersionConflict):
        held.add(["new"], ROWS[:1], if_versions=[a])
    assert held.state() == before
    held.add(["a", "new", "b"], ROWS, if_versions=[a, 0, None])
    held.collection.patch_payload(["b"], [{"y": 1}], if_versions=held.collection.versions(["b"]))
    assert held.state()["b"][0] == {"y": 1}
    for malformed in ([a], [a, -1], [a, True], [a, 2**53], "ab", [a, 1.5]):
        with pytest.raises(kinbin.InvalidInput, match="if_versions is a list"):
            held.add(["a", "b"], ROWS[:2], if_versions=malformed)


def test_deletes_are_conditional_on_versions(held: Held) -> None:
    """A delete by ids removes all or nothing: every item has to have the version that is named for it, 0 where it is not there."""
    held.add(["a", "b", "c"], [[1, 2, 3], [3, 2, 1], [1, 1, 1]], [{"n": 1}, {"n": 2}, None])
    a, b, c = held.collection.versions(["a", "b", "c"])
    before = held.state()
    for ids, versions in ((["a", "b"], [a, a]), (["a", "none"], [a, 1]), (["a"], [0])):
        with pytest.raises(kinbin.VersionConflict, match="get them and decide anew; nothing was written"):
            held.collection.delete(ids, if_versions=versions)
    for ids, wrong in ((["a"], []), (["a"], [-1]), (["a", "a"], [a, a])):
        with pytest.raises(kinbin.InvalidInput):
            held.collection.delete(ids, if_versions=wrong)
    with pytest.raises(kinbin.InvalidInput, match="if_versions comes with ids"):
        held.collection.delete(filter={"n": 1}, if_versions=[a])
    assert held.state() == before
    held.collection.set_payload(["b"], [{"n": 3}])
    with pytest.raises(kinbin.VersionConflict):
        held.collection.delete(["a", "b"], if_versions=[a, b])
    done = held.collection.delete(["a", "none", "c"], if_versions=[a, 0, None])
    assert (done.deleted, list(held.state())) == (2, ["b"])
    assert c != 0


def test_of_many_who_decide_by_one_version_one_wins(held: Held) -> None:
    """Threads that each replace what they read, on condition of its version, lose no step of any other."""
    held.add(["n"], ROWS[:1], [{"n": 0}])

    def step(_: int) -> None:
        while True:
            item = held.collection.get(["n"], include=("payload", "version"))[0]
            try:
                held.collection.set_payload(["n"], [{"n": item.payload["n"] + 1}], if_versions=[item.version])
            except kinbin.VersionConflict:
                continue
            return

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(step, range(24)))
    assert held.state()["n"][0] == {"n": 24}


def test_bad_items_are_left_out_where_that_is_asked_for(held: Held) -> None:
    """Skipping writes the good items, and tells of each bad one its place and what is wrong, whatever it is."""
    held.add(["there"], ROWS[:1])
    ids: list[Any] = ["a", "", "there", "c", "a", "d", "e"]
    rows = [ROWS[0], ROWS[1], ROWS[2], [float("nan"), 1.0, 1.0], ROWS[1], ROWS[2], [5.0, 4.0, 3.0]]
    payloads = [None, None, None, None, None, {"x": float("inf")}, {"ok": 1}]
    with pytest.raises(kinbin.InvalidInput):
        held.add(ids, rows, payloads, mode="insert")
    done = held.add(ids, rows, payloads, mode="insert", on_error="skip")
    assert (done.indexed, done.skipped, done.count) == (2, 5, 3)
    told = [(one.position, one.code) for one in done.problems]
    assert told == [(1, "bad_id"), (2, "item_conflict"), (3, "non_finite"), (4, "duplicate_id"), (5, "bad_payload")]
    assert held.state().keys() == {"a", "e", "there"}
    versions = [held.collection.versions(["a"])[0], 7, None]
    again = held.add(["a", "e", "f"], [[7.0, 7.0, 1.0], *ROWS[:2]], on_error="skip", if_versions=versions)
    assert ([(one.position, one.code) for one in again.problems], again.updated, again.indexed) == ([(1, "version_conflict")], 1, 1)
    nothing = held.add(["x", ""], [[0.0, 0.0, 0.0], ROWS[0]], on_error="skip")
    assert (nothing.skipped, nothing.count) == (2, 4)
    with pytest.raises(kinbin.InvalidInput, match="on_error is one of reject, skip"):
        held.add(["a"], ROWS[:1], on_error="ignore")
    assert held.collection.check().ok


def test_skipped_items_are_counted_all_and_told_up_to_a_hundred(held: Held) -> None:
    """However many items are bad, the list of them is bounded and the count is not; good ones among them are written."""
    n = 250
    rows = [ROWS[0] if i % 5 == 0 else [-float("inf"), 1.0, 1.0] for i in range(n)]
    done = held.add([f"i{i}" for i in range(n)], rows, on_error="skip")
    assert (done.indexed, done.skipped, len(done.problems)) == (50, 200, 100)


def test_the_same_add_again_gets_the_answer_of_the_first(held: Held) -> None:
    """An insert that comes again with its key changes nothing and gets the same numbers; without one it is refused."""
    first = held.add(["a", "b"], ROWS[:2], mode="insert", idempotency_key="one")
    held.add(["c"], ROWS[2:])
    again = held.add(["a", "b"], ROWS[:2], mode="insert", idempotency_key="one")
    assert (first.indexed, first.count, first.replayed) == (2, 2, False)
    assert (again.indexed, again.count, again.replayed) == (2, 2, True)
    with pytest.raises(kinbin.ItemConflict):
        held.add(["a", "b"], ROWS[:2], mode="insert", idempotency_key="other")
    skipped = held.add(["c", "d", ""], ROWS, mode="insert", idempotency_key="skips", on_error="skip")
    repeated = held.add(["c", "d", ""], ROWS, mode="insert", idempotency_key="skips", on_error="skip")
    assert (repeated.problems, repeated.indexed, repeated.replayed) == (skipped.problems, 1, True)


def test_a_key_with_another_add_is_refused(held: Held) -> None:
    """Other ids, vectors, payloads or terms under a key that is kept are refused, and nothing is written."""
    held.add(["a"], ROWS[:1], [{"x": 1}], idempotency_key="key")
    before = held.state()
    for ids, rows, payloads, terms in (
        (["b"], ROWS[:1], [{"x": 1}], {}),
        (["a"], ROWS[1:2], [{"x": 1}], {}),
        (["a"], ROWS[:1], [{"x": 2}], {}),
        (["a"], ROWS[:1], [{"x": 1}], {"mode": "update"}),
        (["a"], ROWS[:1], [{"x": 1}], {"on_error": "skip"}),
        (["a"], ROWS[:1], [{"x": 1}], {"if_versions": [before["a"][1]]}),
        (["a", "b"], ROWS[:2], [{"x": 1}, None], {}),
    ):
        with pytest.raises(kinbin.KeyReused, match="take a new key for each add; nothing was written"):
            held.add(ids, rows, payloads, idempotency_key="key", **terms)
    assert held.state() == before
    for bad in ("", "x" * 256, "ä", "a\n", 7):
        with pytest.raises(kinbin.InvalidInput, match="an idempotency key is a string"):
            held.add(["b"], ROWS[:1], idempotency_key=bad)


def test_refused_adds_leave_their_key_free(held: Held) -> None:
    """An add that was refused may be mended and sent again under its key."""
    held.add(["a"], ROWS[:1])
    with pytest.raises(kinbin.ItemConflict):
        held.add(["a"], ROWS[1:2], mode="insert", idempotency_key="key")
    assert held.add(["b"], ROWS[1:2], mode="insert", idempotency_key="key").indexed == 1


def test_keys_are_kept_for_a_day_and_then_removed(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key is free again after 24 hours, and its record leaves the files as new ones come."""
    now = [1_000_000.0]
    monkeypatch.setattr("kinbin.terms.time.time", lambda: now[0])
    for i in range(20):
        held.add([f"a{i}"], [[1.0 + i, 2.0, 3.0]], idempotency_key=f"key{i}")
    now[0] += answered.KEPT_SECONDS - 1
    assert held.add(["a0"], [[1.0, 2.0, 3.0]], idempotency_key="key0").replayed
    now[0] += 2
    assert held.add(["b0"], ROWS[:1], idempotency_key="key0").indexed == 1
    for i in range(3):
        held.add([f"b{i}"], ROWS[:1], idempotency_key=f"new{i}")
    with held.collection._store.read() as reader:
        kept = [key for key, _ in reader.scan_tree(0, b"") if key.startswith((b"key:", b"due:"))]
        assert answered._count(reader) == 4
    assert len(kept) == 8
    assert held.collection.check().ok


def test_adds_with_a_key_are_refused_where_no_more_can_be_kept(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where as many keys are kept as may be, an add with a new one is refused: it could not be sent again. Known ones are answered."""
    monkeypatch.setattr("kinbin.storage.answered.limit", lambda _: 2)
    for i in range(2):
        held.add([f"a{i}"], ROWS[:1], idempotency_key=f"key{i}")
    with pytest.raises(kinbin.InvalidInput, match="remembers at most 2 idempotency keys") as refused:
        held.add(["b"], ROWS[1:2], idempotency_key="key2")
    assert refused.value.problems[0].limit == "idempotency_keys"
    assert held.add(["a1"], ROWS[:1], idempotency_key="key1").replayed
    assert held.state().keys() == {"a0", "a1"}
    # Those of yesterday are no reason to refuse.
    later = time.time() + answered.KEPT_SECONDS + 1
    monkeypatch.setattr("kinbin.terms.time.time", lambda: later)
    for i in range(2):
        held.add([f"c{i}"], ROWS[:1], idempotency_key=f"new{i}")
    with pytest.raises(kinbin.InvalidInput, match="remembers at most 2 idempotency keys"):
        held.add(["d"], ROWS[1:2], idempotency_key="new2")


def test_an_add_that_comes_twice_at_once_is_done_once(held: Held) -> None:
    """Threads that send the same insert under one key at the same time all get the answer of one."""
    ready = threading.Barrier(4)

    def send(_: int) -> kinbin.AddResult:
        ready.wait(30)
        return held.add(["a", "b"], ROWS[:2], mode="insert", idempotency_key="key")

    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(send, range(4)))
    assert sorted(one.replayed for one in done) == [False, True, True, True]
    assert {(one.indexed, one.count) for one in done} == {(2, 2)}


def test_keys_survive_closing(tmp_path: Path) -> None:
    """A database that is opened again knows the keys of the day."""
    with kinbin.open(tmp_path) as database:
        database.create_collection("c", dim=3).add(["a"], ROWS[:1], mode="insert", idempotency_key="key")
    with kinbin.open(tmp_path) as database:
        assert database.collection("c").add(["a"], ROWS[:1], mode="insert", idempotency_key="key").replayed


def test_a_filter_deletes_what_matches_in_its_transaction(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    """An item that begins to match after the look and before the transaction is deleted too, and one that ends to match stays."""
    held.add(["a", "b", "c"], ROWS, [{"old": True}, {"old": True}, {"old": False}])
    looked = type(held.collection)._matching

    def disturbed(self: Any, matches: Any, filter: Any) -> Any:
        found = looked(self, matches, filter)
        self.set_payload(["a", "c"], [{"old": disturbed.turn % 2 == 0}, {"old": disturbed.turn % 2 == 1}])  # type: ignore[attr-defined]
        disturbed.turn += 1  # type: ignore[attr-defined]
        return found

    disturbed.turn = 1  # type: ignore[attr-defined]
    monkeypatch.setattr("kinbin.writes._TRIES", 2)
    monkeypatch.setattr(type(held.collection), "_matching", disturbed)
    done = held.collection.delete(filter={"old": True})
    # Disturbed before each of three tries: the last one leaves "c" matching, and what the first look found is not deleted.
    assert (done.deleted, done.atomic, done.count) == (2, True, 1)
    assert held.state().keys() == {"a"}


def test_a_delete_of_too_many_says_that_it_was_several_transactions(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit a filter deletes in slices, and the result says so."""
    monkeypatch.setattr("kinbin.writes.limit", lambda _: 5)
    monkeypatch.setattr("kinbin.writes._FILTERED_SLICE", 3)
    rng = np.random.default_rng(5)
    held.add([f"i{i}" for i in range(12)], rng.random((12, 3)).tolist(), [{"n": i} for i in range(12)])
    few = held.collection.delete(filter={"n": {"$lt": 5}})
    assert (few.deleted, few.atomic, few.count) == (5, True, 7)
    many = held.collection.delete(filter={"n": {"$gte": 6}})
    assert (many.deleted, many.atomic, many.count) == (6, False, 1)
    assert held.collection.delete(filter={"n": 99}) == kinbin.DeleteResult(0, 1)


def test_a_collection_takes_no_more_items_than_it_may(held: Held) -> None:
    """An add that would pass the number of items is refused whole; replacing and deleting go on; the limit outlives closing."""
    held.add(["a", "b"], ROWS[:2])
    assert held.collection.limits() == {"items": None, "bytes": None}
    held.collection.set_limits(items=3)
    with pytest.raises(kinbin.InvalidInput, match="takes at most 3 items, and would have 4; nothing was written") as refused:
        held.add(["c", "d"], ROWS[:2])
    assert (refused.value.code, refused.value.problems[0].limit) == ("over_limit", "collection_items")
    held.add(["c"], ROWS[2:])
    held.add(["a", "b", "c"], [[4.0, 5.0, 6.0], *ROWS[1:]])
    held.collection.delete(["a"])
    held.add(["d"], ROWS[:1])
    assert held.state().keys() == {"b", "c", "d"}
    assert held.collection.limits() == {"items": 3, "bytes": None}
    held.collection.set_limits()
    held.add(["e"], ROWS[:1])
    for bad in (-1, 1.5, True, 2**63, "3"):
        with pytest.raises(kinbin.InvalidInput, match="items is a whole number from 0 on, or None"):
            held.collection.set_limits(items=bad)


def test_a_collection_takes_no_more_bytes_than_it_may(held: Held) -> None:
    """Adds and payloads are refused once they would pass the bytes; what was deleted and compacted makes room again."""
    held.collection.set_limits(bytes=4_000_000)
    added = 0

    def fill() -> None:
        nonlocal added
        for added in range(100):
            held.add([f"i{added}"], [[1.0 + added, 2.0, 3.0]], [{"text": "x" * 60_000}])

    with pytest.raises(kinbin.InvalidInput, match="takes at most 4000000 bytes") as refused:
        fill()
    assert refused.value.problems[0].limit == "collection_bytes"
    assert 20 < added < 67
    assert held.collection.count() == added
    with pytest.raises(kinbin.InvalidInput, match="takes at most 4000000 bytes"):
        held.collection.set_payload(["i0", "i1"], [{"text": "y" * 65_000}, {"text": "z" * 65_000}])
    held.collection.delete([f"i{i}" for i in range(added - 1)])
    held.collection.compact()
    held.add(["again"], ROWS[:1], [{"text": "x" * 60_000}])


def test_items_without_ids_are_added_once_under_their_key(held: Held) -> None:
    """Ids that are not given are made, other ones each time; the same add under the same key gets those of the first."""
    first = held.collection.add(None, held.vectors(ROWS), [{"n": i} for i in range(3)], idempotency_key="key")
    again = held.collection.add(None, held.vectors(ROWS), [{"n": i} for i in range(3)], idempotency_key="key")
    assert first.ids == again.ids == sorted(held.state())
    assert (again.replayed, again.count) == (True, 3)
    with pytest.raises(kinbin.KeyReused):
        held.collection.add(None, held.vectors(ROWS[::-1]), [{"n": i} for i in range(3)], idempotency_key="key")
    more = held.collection.add(None, held.vectors(ROWS))
    assert (more.indexed, more.count, len({*more.ids, *first.ids})) == (3, 6, 6)
    with pytest.raises(kinbin.InvalidInput, match="ids are made for an array, or a list of vectors"):
        held.collection.add(None, 5 if held.kind == "plain" else {"one": 5})
