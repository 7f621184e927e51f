"""Applying a shard's log: whatever is grouped, killed and read again, replicas have the same items, versions and verdicts."""

from __future__ import annotations

import asyncio
import multiprocessing
import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbin
from crashing import at_write, die
from kinbin_cluster.applying import APPLIED, Applier, applied_of, apply
from kinbin_cluster.log import Entry
from kinbin_cluster.message import BadMessage, Edit, TooNew, decoded, encoded, mark
from kinbin_cluster.verdicts import NOTES, Verdicts

DIM = 6
KINDS: dict[str, dict[str, Any]] = {
    "vectors": {"kernel": "minmax", "dim": DIM, "seed": 3},
    "sparse": {"kernel": "ngmm", "seed": 3},
    "strings": {"items": "strings", "distance": "levenshtein", "seed": 3},
}


def objects(kind: str, rng: random.Random, n: int) -> list[Any]:
    """n objects, of which some are the same."""
    if kind == "strings":
        return ["".join(rng.choices("abc", k=4)) for _ in range(n)]
    return [[rng.randint(0, 2) for _ in range(DIM - 1)] + [1.0] for _ in range(n)]


def some_edit(kind: str, schema: kinbin.Schema, rng: random.Random, now: float) -> Edit:
    """An edit of any operation, on few ids, so that edits meet."""
    ids = [f"{i}" for i in rng.sample(range(12), rng.randint(1, 4))]
    payloads = [{"x": rng.randint(0, 3)} if rng.random() < 0.8 else None for _ in ids]
    keys, encoded_payloads = schema.check_payloads(ids, payloads)
    op = rng.choice(["add"] * 6 + ["delete", "delete_by_filter", "set_payload", "patch_payload", "indexes", "limits", "mark", "compact"])
    if op == "add":
        checked = schema.check(ids, objects(kind, rng, len(ids)), payloads)
        versions = [rng.choice([None, 0, 77]) for _ in ids] if rng.random() < 0.2 else None
        key = rng.choice("kl") if rng.random() < 0.2 else None
        mode, on_error = rng.choice(["upsert", "upsert", "insert", "update"]), rng.choice(["reject", "skip"])
        return Edit(op, checked.ids, checked.payloads, checked.rows, mode, on_error, versions, None, key, now)
    if op == "delete_by_filter":
        return Edit(op, now=now, filter={"x": rng.randint(0, 3)} if rng.random() < 0.9 else {"$nothing": 1})
    if op == "indexes":
        return Edit(op, now=now, more={"add": {"x": rng.choice(["number", "keyword"])}, "drop": rng.choice([[], [], ["x"]]), **term(rng)})
    if op == "limits":
        return Edit(op, now=now, more={"items": rng.choice([None, 8, 30]), **term(rng)})
    if op in {"mark", "compact"}:
        return Edit(op, now=now, more={"name": "m"})
    return Edit(op, keys, encoded_payloads if op != "delete" else None, now=now)


def term(rng: random.Random) -> dict[str, int]:
    """Of a change of settings: one of few terms, or none."""
    return rng.choice([{}, {"term": rng.randint(0, 9)}])


def history(kind: str, seed: int, n: int) -> list[list[bytes]]:
    """Messages of n edits, some of them malformed; hours and days pass between some."""
    rng, schema, now = random.Random(seed), kinbin.Schema(**KINDS[kind]), 1_700_000_000.0
    out = []
    for i in range(n):
        now += rng.choice([0.1, 0.1, 0.1, 50_000.0])
        out.append([encoded(Edit("mark"))[0][:-6]] if i % 17 == 5 else encoded(some_edit(kind, schema, rng, now), rng.choice([50, 10_000])))
    return out


def state(collection: Any) -> tuple[Any, ...]:
    """All that replicas have to have alike."""
    ids = [item.id for item in collection.scroll(limit=1_000).items]
    with collection.pinned() as pinned:
        digest = pinned.digest()
    verdicts = Verdicts(collection.notes(NOTES))
    told = [verdicts.of(sequence) for sequence in range(1, applied_of(collection) + 1)]
    return ids, collection.versions(ids), digest, told, collection.limits(), collection.stats()["indexes"]["fields"].keys()


def stored(parts: list[bytes]) -> float:
    """When the log stored an entry: as the gateway's clock said."""
    edit = taken(parts)
    return 0.0 if isinstance(edit, BadMessage) else edit.now


def taken(parts: list[bytes]) -> Edit | BadMessage:
    """An entry as the applier takes it."""
    try:
        return decoded(parts)
    except BadMessage as error:
        return error


@pytest.mark.parametrize("kind", KINDS)
def test_replicas_are_alike_however_entries_are_grouped(tmp_path: Path, kind: str) -> None:
    """One by one, or in groups with reopening, merging and restoring in between: items, versions, digests and verdicts are equal."""
    entries = [(number, taken(parts)) for number, parts in enumerate(history(kind, 1, 120), 1)]
    rng = random.Random(2)
    with kinbin.open(tmp_path / "one") as database:
        one: Any = database.create_collection("c", **KINDS[kind])
        verdicts = Verdicts({})
        for entry in entries:
            apply(one, [entry], verdicts)
        wanted = state(one)
    assert {"done", "refused"} == {word for verdict in wanted[3] for word in verdict}
    assert {verdict["refused"]["code"] for verdict in wanted[3] if "refused" in verdict} >= {"bad_request", "item_conflict", "bad_filter"}
    at, name = 0, "c"
    with kinbin.open(tmp_path / "other") as database:
        database.create_collection("c", **KINDS[kind])
    while at < len(entries):
        with kinbin.open(tmp_path / "other") as database:
            other: Any = database.collection(name)
            verdicts = Verdicts(other.notes(NOTES))
            assert applied_of(other) == at
            for _ in range(rng.randint(1, 3)):
                step = rng.randint(1, 12)
                apply(other, entries[at : at + step], verdicts) if entries[at : at + step] else None
                at = min(len(entries), at + step)
            if rng.random() < 0.3:
                other.compact()
            if rng.random() < 0.3:
                other.snapshot(tmp_path / f"{at}.kinbin")
                name = f"c{at}"
                database.restore(tmp_path / f"{at}.kinbin", name)
    with kinbin.open(tmp_path / "other") as database:
        assert state(database.collection(name)) == wanted
        assert database.collection(name).check().ok


def test_settings_of_an_earlier_term_are_refused(tmp_path: Path) -> None:
    """What a gateway that stalled had on its way changes nothing behind what came later: in one transaction, in two, after a restart."""

    def limit(items: int, **more: Any) -> Edit:
        return Edit("limits", more={"items": items, **more})

    with kinbin.open(tmp_path) as database:
        collection = database.create_collection("c", dim=2)
        verdicts = Verdicts({})
        apply(collection, [(1, limit(10, term=5)), (2, limit(20, term=4)), (3, limit(30, term=5))], verdicts)
        assert collection.limits()["items"] == 30
        assert (verdicts.of(2) or {})["refused"]["code"] == "storage_busy"
    with kinbin.open(tmp_path) as database:
        collection = database.collection("c")
        verdicts = Verdicts(collection.notes(NOTES))
        later = [(limit(40, term=4), 30), (limit(50), 50), (limit(60, term="x"), 60), (limit(70, term=6), 70)]
        for sequence, (edit, wanted) in enumerate(later, 4):
            apply(collection, [(sequence, edit)], verdicts)
            assert collection.limits()["items"] == wanted


def go_on(path: str, messages: bytes, kill_at: int = 1_000, when: str = "in") -> None:
    """Apply what is not applied yet; die at some transaction."""

    async def run(collection: Any, entries: list[list[bytes]]) -> None:
        applier = Applier(collection, asyncio.get_running_loop())
        applier.start()
        for number, parts in enumerate(entries, 1):
            if number > applied_of(collection):
                await applier.feed(Entry(number, number, stored(parts), parts))
        assert await applier.progress.reached(len(entries), 110)
        await applier.stop()

    with kinbin.open(path) as database:
        collection: Any = database.collection("c")
        with at_write(kill_at, when, die):
            asyncio.run(run(collection, pickle.loads(messages)))


@pytest.mark.durability
def test_entries_count_once_whatever_is_killed(tmp_path: Path) -> None:
    """Killed in and right after transactions and read again from the last applied entry, a replica is what it would be without."""
    messages = history("vectors", 3, 80)
    with kinbin.open(tmp_path / "one") as database:
        one: Any = database.create_collection("c", **KINDS["vectors"])
        apply(one, [(number, taken(parts)) for number, parts in enumerate(messages, 1)], Verdicts({}))
        wanted = state(one)
    with kinbin.open(tmp_path / "other") as database:
        database.create_collection("c", **KINDS["vectors"])
    context = multiprocessing.get_context("spawn")
    for kill_at, when in ((2, "after"), (1, "in")):
        child = context.Process(target=go_on, args=(str(tmp_path / "other"), pickle.dumps(messages), kill_at, when))
        child.start()
        child.join(100)
        assert child.exitcode == -9
    go_on(str(tmp_path / "other"), pickle.dumps(messages))
    with kinbin.open(tmp_path / "other") as database:
        assert state(database.collection("c")) == wanted


def test_verdicts_are_kept_for_a_while_and_no_longer(tmp_path: Path) -> None:
    """The last verdicts are told after a restart, and the oldest are let go of, transaction by transaction."""
    with kinbin.open(tmp_path) as database:
        collection: Any = database.create_collection("c", **KINDS["vectors"])
        verdicts = Verdicts({}, kept=10)
        for first in range(1, 40, 4):
            apply(collection, [(first + i, Edit("delete", [b"%d" % (first + i)])) for i in range(4)], verdicts)
        again = Verdicts(collection.notes(NOTES), kept=10)
        for known in (verdicts, again):
            assert [known.of(sequence) is not None for sequence in range(1, 41)] == [False] * 28 + [True] * 12
        assert again.of(40) == {"done": {"deleted": 0, "count": 0, "atomic": True}}
        assert list(collection.notes(APPLIED).values()) == [(40).to_bytes(8, "big")]


def test_large_verdicts_do_not_pile_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where verdicts are long, fewer are kept, on disk as in memory; the newest is always told."""
    monkeypatch.setattr("kinbin_cluster.verdicts.KEPT_BYTES", 2_000)
    with kinbin.open(tmp_path) as database:
        collection: Any = database.create_collection("c", **KINDS["vectors"])
        verdicts = Verdicts({})
        for sequence in range(1, 30):
            # Nothing is known by these ids: the refusal names eight of them.
            edit = Edit("set_payload", [b"%d-%d" % (sequence, i) * 10 for i in range(8)], [b""] * 8)
            apply(collection, [(sequence, edit)], verdicts)
        assert sum(map(len, collection.notes(NOTES).values())) <= 2_000
        again = Verdicts(collection.notes(NOTES))
        for known in (verdicts, again):
            assert known.of(1) is None
            assert known.of(29)["refused"]["code"] == "item_conflict"  # type: ignore[index]


def test_items_with_fields_are_applied_one_entry_at_a_time(tmp_path: Path) -> None:
    """Replicas of a collection with fields hold and tell the same however fast entries come, as each is a transaction."""
    options: dict[str, Any] = {"fields": {"one": {"dim": 2}, "two": {"dim": 3}}, "seed": 4}
    schema, entries = kinbin.Schema(**options), []
    for i in range(12):
        rows = [[1.0 + i // 3, 1.0]]
        checked = schema.check([f"{i % 4}"], {"one": rows, "two": [[*rows[0], 2.0]]}, [{"x": i % 2}])
        entries.append(encoded(Edit("add", checked.ids, checked.payloads, checked.rows)))
        entries.append(encoded(Edit("delete_by_filter", filter={"x": i % 3})))
    with kinbin.open(tmp_path) as database:
        one: Any = database.create_collection("one", **options)
        verdicts = Verdicts({})
        for number, parts in enumerate(entries, 1):
            apply(one, [(number, taken(parts))], verdicts)
        other: Any = database.create_collection("other", **options)
        applier = applied(other, entries, wait=len(entries))
        assert [applier.verdicts.of(i) for i in range(1, 25)] == [verdicts.of(i) for i in range(1, 25)]
        with one.pinned() as pinned, other.pinned() as replica:
            assert pinned.count > 0
            assert pinned.digest() == replica.digest()


def applied(collection: Any, entries: list[list[bytes]], reached: Any = None, wait: int | None = None) -> Applier:
    """An applier that was handed entries from 1 on, stopped when it has applied `wait` of them, or has ended."""

    async def run() -> Applier:
        applier = Applier(collection, asyncio.get_running_loop(), reached)
        applier.start()
        for number, parts in enumerate(entries, 1):
            await applier.feed(Entry(number, number, 0.0, parts))
        if wait is None:
            await asyncio.wait_for(applier.ended.wait(), 110)
        else:
            assert await applier.progress.reached(wait, 110)
        await applier.stop()
        return applier

    return asyncio.run(run())


def test_what_comes_before_an_entry_that_is_not_known_is_applied(tmp_path: Path) -> None:
    """A node that is too old stops before that entry, not before those that are handed to it with it."""
    schema = kinbin.Schema(**KINDS["vectors"])
    rows = [schema.check([f"{number}"], objects("vectors", random.Random(number), 1), None) for number in range(20)]
    entries = [encoded(Edit("add", one.ids, one.payloads, one.rows, now=1.0)) for one in rows]
    with kinbin.open(tmp_path) as database:
        collection = database.create_collection("c", **KINDS["vectors"])
        done = applied(collection, [*entries, [b"\xffof a later version"], *entries[:1]])
        assert isinstance(done.failure, TooNew)
        assert (applied_of(collection), collection.count()) == (20, 20)


def test_marks_are_reached_before_anything_later(tmp_path: Path) -> None:
    """Whoever is told of a mark sees the collection just as the entries up to it left it."""
    schema = kinbin.Schema(**KINDS["vectors"])
    entries = []
    for i in range(5):
        checked = schema.check([f"{i}"], [[i + 1.0] * DIM])
        entries += [encoded(Edit("add", checked.ids, rows=checked.rows)), [mark()]]
    seen = []
    with kinbin.open(tmp_path) as database:
        collection: Any = database.create_collection("c", **KINDS["vectors"])
        applied(collection, entries, lambda _, sequence: seen.append((sequence, collection.count(), applied_of(collection))), len(entries))
    assert seen == [(2, 1, 2), (4, 2, 4), (6, 3, 6), (8, 4, 8), (10, 5, 10)]


def test_a_later_version_stops_the_replica(tmp_path: Path) -> None:
    """An entry that this version cannot know is not passed over: the replica ends before it, and applies nothing behind it."""
    schema = kinbin.Schema(**KINDS["vectors"])
    checked = schema.check(["a"], [[1.0] * DIM])
    add = encoded(Edit("add", checked.ids, rows=checked.rows))
    with kinbin.open(tmp_path) as database:
        collection: Any = database.create_collection("c", **KINDS["vectors"])
        applier = applied(collection, [add, [b"\x03" + add[0][1:]], [mark()]])
        assert applier.failure is not None
        assert "too old" in str(applier.failure)
        assert applied_of(collection) <= 1
        assert applier.progress.applied == applied_of(collection)


def test_a_full_disk_is_waited_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a transaction fails for want of room nothing is lost or skipped; afterwards the replica goes on by itself."""
    schema = kinbin.Schema(**KINDS["vectors"])
    checked = schema.check(["a"], [[1.0] * DIM])
    failures = iter([kinbin.StorageFull("full"), kinbin.StorageBusy("unknown"), None])
    with kinbin.open(tmp_path) as database:
        collection: Any = database.create_collection("c", **KINDS["vectors"])
        original = apply

        def failing(*given: Any) -> Any:
            error = next(failures, None)
            if isinstance(error, kinbin.StorageFull):
                raise error
            made = original(*given)
            if error is not None:
                # It was done, and its writer does not know.
                raise error
            return made

        monkeypatch.setattr("kinbin_cluster.applying.apply", failing)
        monkeypatch.setattr("kinbin_cluster.applying.RETRY_SECONDS", 0.0)
        applier = applied(collection, [encoded(Edit("add", checked.ids, rows=checked.rows, mode="insert")), [mark()]], wait=2)
        assert applier.problem is None
        assert (collection.count(), applier.items) == (1, 1)
        assert applier.verdicts.of(1) == {
            "done": {"indexed": 1, "updated": 0, "unchanged": 0, "count": 1, "skipped": 0, "problems": [], "replayed": False, "next_row": 1}
        }


def test_large_edits_are_applied(tmp_path: Path, rng: np.random.Generator) -> None:
    """An edit of several messages is one edit, and what waits to be applied does not grow without bound."""
    schema = kinbin.Schema(kernel="minmax", dim=512, seed=1)
    checked = schema.check([f"{i}" for i in range(1_500)], rng.random((1_500, 512)) + 0.1)
    entries = [encoded(Edit("add", checked.ids, rows=checked.rows))] * 3
    assert len(entries[0]) > 1
    with kinbin.open(tmp_path) as database:
        collection: Any = database.create_collection("c", kernel="minmax", dim=512, seed=1)
        applier = applied(collection, entries, wait=3)
        assert collection.count() == 1_500
        assert applier.verdicts.of(3)["done"]["unchanged"] == 1_500  # type: ignore[index]
