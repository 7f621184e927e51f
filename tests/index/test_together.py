"""Several edits in one transaction, with notes; and a collection held at one moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbin
from kinbin.storage.store import Store
from nursery import until

PLAIN: dict[str, Any] = {"kernel": "minmax", "dim": 2, "seed": 5}
FIELDS: dict[str, Any] = {"fields": {"one": {"dim": 2}, "two": {"dim": 3}}, "seed": 5}
NOW = 1_700_000_000.0


def checked(options: dict[str, Any], ids: list[str], first: float = 1.0, payload: Any = None) -> tuple[Any, Any, Any]:
    """Ids, rows and payloads of an add, as a schema has them."""
    X = [[first + i, 2.0] for i in range(len(ids))]
    given = X if "fields" not in options else {"one": X, "two": [[*row, 1.0] for row in X]}
    found = kinbin.Schema(**options).check(ids, given, None if payload is None else [payload] * len(ids))
    return found.ids, found.rows, found.payloads


@pytest.mark.parametrize("options", [PLAIN, FIELDS])
def test_edits_and_notes_are_one_transaction(tmp_path: Path, options: dict[str, Any]) -> None:
    """Each edit sees what the ones before it left, a refused one changes nothing, and notes are told the outcomes of all."""
    told: list[Any] = []

    def noted(outcomes: list[Any]) -> dict[bytes, bytes | None]:
        told.extend(outcomes)
        return {b"at": b"7", b"gone": None}

    with kinbin.open(tmp_path) as database:
        collection: Any = database.create_collection("c", **options)
        collection.together().nothing().commit(lambda _: {b"gone": b"x", b"at": b"6"})
        assert collection.notes() == {b"at": b"6", b"gone": b"x"}
        before = collection.stats()["commits"]
        group = collection.together().add(*checked(options, ["a", "b"]), now=NOW)
        group.add(*checked(options, ["b"]), "insert", now=NOW)
        group.write_payloads([b"a"], [b'{"x":1}']).delete(["b", "none"])
        group.delete([b"a"], if_versions=[12345]).delete_matching({"x": 2}).delete_matching("no filter")
        outcomes = group.commit(noted)
        assert outcomes == told
        assert (outcomes[0].indexed, outcomes[2].updated, outcomes[3].deleted, outcomes[5].deleted) == (2, 1, 1, 0)
        assert isinstance(outcomes[1], kinbin.ItemConflict)
        assert isinstance(outcomes[4], kinbin.VersionConflict)
        assert isinstance(outcomes[6], kinbin.InvalidInput)
        assert collection.notes() == {b"at": b"7"}
        assert collection.note(b"at") == b"7"
        assert collection.note(b"gone") is None
        assert collection.get(["a", "b"])[0].payload == {"x": 1}
        assert collection.count() == 1
        assert collection.stats()["commits"] > before
        assert collection.check().ok


@pytest.mark.parametrize("options", [PLAIN, FIELDS])
def test_what_fails_leaves_nothing(tmp_path: Path, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where notes cannot be written, or an edit fails for a reason of this machine, neither edits nor notes are there."""
    with kinbin.open(tmp_path) as database:
        collection: Any = database.create_collection("c", **options)
        long = {b"x" * 65: b""}
        with pytest.raises(kinbin.InvalidInput, match="a note has a name"):
            collection.together().add(*checked(options, ["a"]), now=NOW).commit(lambda _: long)
        group = collection.together().add(*checked(options, ["a"]), now=NOW).delete_matching({"x": 2}).delete(["a"])
        with monkeypatch.context() as patched:
            patched.setattr("kinbin.together._REFUSALS", (kinbin.ItemConflict,))
            broken = group.delete_matching({"x": 3})
            broken._edits.append(_fail)
            with pytest.raises(kinbin.CorruptData):
                broken.commit(lambda _: {b"at": b"1"})
        assert (collection.count(), collection.notes()) == (0, {})
        assert collection.together().add(*checked(options, ["a"]), now=NOW).commit(lambda _: {b"at": b"1"})[0].indexed == 1
        assert collection.check().ok


def _fail(_: Any) -> None:
    raise kinbin.CorruptData("a page is damaged")


def test_the_clock_is_the_callers(tmp_path: Path) -> None:
    """An idempotency key is kept for a day of the time that came with the add, whatever the clock says."""
    with kinbin.open(tmp_path) as database:
        collection: Any = database.create_collection("c", **PLAIN)

        def insert(now: float) -> Any:
            group = collection.together().add(*checked(PLAIN, ["a"]), "insert", now=now, idempotency_key="k")
            return group.commit(lambda _: {})[0]

        assert insert(NOW).indexed == 1
        assert insert(NOW + 86_000).replayed
        assert isinstance(insert(NOW + 87_000), kinbin.ItemConflict)


def test_problems_name_places_of_the_batch_as_it_came(tmp_path: Path) -> None:
    """Items that are left out inside of the transaction are told by the positions that came with them."""
    with kinbin.open(tmp_path) as database:
        collection: Any = database.create_collection("c", **PLAIN)
        collection.add(["b"], [[1.0, 1.0]])
        group = collection.together()
        group.add(*checked(PLAIN, ["a", "b"]), "insert", now=NOW, positions=[4, 9], on_error="skip")
        (done,) = group.commit(lambda _: {})
        assert (done.indexed, done.skipped, [one.position for one in done.problems]) == (1, 1, [9])


@pytest.mark.parametrize("options", [PLAIN, FIELDS])
def test_indexes_and_limits_count_for_the_edits_behind_them(tmp_path: Path, options: dict[str, Any]) -> None:
    """Declarations and limits are part of the transaction, and what follows in it is held against them."""
    with kinbin.open(tmp_path) as database:
        collection: Any = database.create_collection("c", **options)
        group = collection.together().change_indexes({"x": "number"}).change_indexes({"x": "keyword"}).change_indexes({}, ["y"])
        group.set_limits(items=1).add(*checked(options, ["a", "b"]), now=NOW).add(*checked(options, ["a"], payload={"x": 4}), now=NOW)
        outcomes = group.set_limits(items=None).add(*checked(options, ["b"], 4.0, {"x": 5}), now=NOW).commit(lambda _: {})
        codes = [getattr(one, "code", None) for one in outcomes]
        assert codes == [None, "bad_parameter", "bad_parameter", None, "over_limit", None, None, None]
        assert collection.count(filter={"x": {"$gte": 5}}) == 1
        assert list(collection.stats()["indexes"]["fields"]) == ["x"]
        assert collection.limits() == {"items": None, "bytes": None}
        until(lambda: collection.stats()["indexes"]["ready"])
        collection.together().change_indexes({"z": "keyword"}, ["x"]).commit(lambda _: {})
        until(lambda: collection.stats()["indexes"]["ready"])
        assert list(collection.stats()["indexes"]["fields"]) == ["z"]
        collection.together().change_indexes({}, ["z"]).commit(lambda _: {})
        assert not (collection.stats()["indexes"] or {}).get("fields")
        assert collection.check().ok


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        (PLAIN, {}),
        (PLAIN, {"": kinbin.Schema(kernel="minmax", dim=3).check(["a"], [[0, 0, 1.0]]).rows[""]}),
        (PLAIN, {"": kinbin.Schema(kernel="gmm", dim=2).check(["a"], [[0, -1.0]]).rows[""]}),
        (PLAIN, {"": kinbin.Schema(kernel="minmax", dim=2).check(["a", "b"], [[0, 1.0]] * 2).rows[""]}),
        ({"items": "strings"}, {"": kinbin.Schema(kernel="minmax").check(["a"], [{70_000: 1.0}]).rows[""]}),
    ],
)
def test_rows_that_kernels_must_not_see_are_refused(tmp_path: Path, options: dict[str, Any], rows: Any) -> None:
    """Rows that are not of this collection are refused, alone, and before anything is written."""
    with kinbin.open(tmp_path) as database:
        collection: Any = database.create_collection("c", **options)
        outcomes = collection.together().add([b"a"], rows, [b""], now=NOW).nothing().commit(lambda _: {})
        assert isinstance(outcomes[0], kinbin.InvalidInput)
        assert outcomes[1] is None
        assert collection.count() == 0


@pytest.mark.parametrize("options", [PLAIN, FIELDS])
def test_digests_are_of_contents(tmp_path: Path, options: dict[str, Any]) -> None:
    """The same items have the same digest however they were written and lie; another id, payload or vector has another one."""
    with kinbin.open(tmp_path) as database:
        one: Any = database.create_collection("one", **options)
        other: Any = database.create_collection("other", **{**options, "seed": 6})
        for collection in (one, other):
            collection.together().add(*checked(options, ["a", "b", "c"], payload={"x": 1}), now=NOW).commit(lambda _: {})
        for step in range(3):
            other.together().add(*checked(options, ["b", "d"], 4.0 + step), now=NOW).commit(lambda _: {})
        other.compact()
        group = other.together().add(*checked(options, ["a", "b", "c"], payload={"x": 1}), now=NOW)
        group.delete(["d"]).commit(lambda _: {})

        def digest(collection: Any) -> str:
            with collection.pinned() as pinned:
                return str(pinned.digest())

        assert digest(one) == digest(other)
        seen = {digest(one)}
        one.together().write_payloads([b"a"], [b'{"x":2}']).commit(lambda _: {})
        seen.add(digest(one))
        one.together().add(*checked(options, ["c"], 9.0, {"x": 1}), now=NOW).commit(lambda _: {})
        seen.add(digest(one))
        one.together().delete(["b"]).commit(lambda _: {})
        seen.add(digest(one))
        assert len(seen) == 4


@pytest.mark.parametrize("options", [PLAIN, FIELDS])
def test_what_is_pinned_stays(tmp_path: Path, options: dict[str, Any]) -> None:
    """Digest, notes and snapshot of a pinned collection are those of one moment, whatever is written meanwhile; a copy has them too."""
    with kinbin.open(tmp_path / "data") as database:
        collection: Any = database.create_collection("c", **options)
        collection.together().add(*checked(options, ["a", "b"]), now=NOW).commit(lambda _: {b"at": b"1"})
        with collection.pinned() as pinned:
            digest = pinned.digest()
            collection.together().add(*checked(options, ["c"], 9.0), now=NOW).delete(["a"]).commit(lambda _: {b"at": b"2"})
            assert (pinned.count, pinned.note(b"at"), pinned.digest()) == (2, b"1", digest)
            pinned.snapshot(tmp_path / "c.kinbin")
        copy: Any = database.restore(tmp_path / "c.kinbin", "copy")
        with copy.pinned() as pinned:
            assert (pinned.count, pinned.note(b"at"), pinned.digest()) == (2, b"1", digest)


def test_a_digest_reads_runs_as_it_reads_the_journal(tmp_path: Path, rng: np.random.Generator) -> None:
    """Sealed and merged rows have the digest that they had in the journal."""
    with kinbin.open(tmp_path) as database:
        collection: Any = database.create_collection("c", kernel="minmax", dim=8)
        collection.add([f"{i:04}" for i in range(5_000)], rng.random((5_000, 8)) + 0.1)
        collection.delete([f"{i:04}" for i in range(0, 5_000, 3)])
        with collection.pinned() as pinned:
            before = pinned.digest()
        collection.compact()
        with collection.pinned() as pinned:
            assert pinned.digest() == before


def test_a_store_is_written_once_for_a_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many edits a group has, it is one transaction."""
    writes = []
    original = Store.write

    def counted(store: Store) -> Any:
        writes.append(1)
        return original(store)

    with kinbin.open(tmp_path) as database:
        collection: Any = database.create_collection("c", **PLAIN)
        monkeypatch.setattr(Store, "write", counted)
        group = collection.together()
        for i in range(20):
            group.add(*checked(PLAIN, [f"{i}"], 1.0 + i), now=NOW)
        group.commit(lambda _: {b"at": b"20"})
        assert len(writes) == 1
