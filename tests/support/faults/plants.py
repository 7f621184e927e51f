"""Broken promises, planted one by one: what a campaign has to find, so that its silence about a sound cluster means something.

`python -m faults.plants NAME node|gateway|command …` runs a program with a bug in it.
"""

from __future__ import annotations

import asyncio
import runpy
import sys
from typing import Any

__all__ = ["PLANTS"]


def _put(owner: Any, name: str, value: Any) -> None:
    """Have a part of the program be another one."""
    setattr(owner, name, value)


def _answers_before_the_quorum() -> None:
    """A gateway says that a write is done when it was sent to the log, a second ago."""
    from kinbin_cluster.gateway import adding, publishing, writes
    from kinbin_cluster.gateway.tokens import Token

    sound = publishing.written
    running: set[asyncio.Task[Any]] = set()

    async def written(log: Any, nodes: Any, collection: Any, parts: Any, *rest: Any) -> publishing.Written:
        task = asyncio.create_task(sound(log, nodes, collection, parts, *rest))
        running.add(task)
        task.add_done_callback(running.discard)
        await asyncio.wait([task], timeout=1.0)
        if task.done() and not task.exception():
            return task.result()
        done = {part.shard: {"indexed": part.items, "updated": 0, "unchanged": 0, "deleted": 0, "count": 0} for part in parts}
        return publishing.Written(done, 0, Token(collection.uid, {}).text(), replayed=False)

    for module in (adding, writes):
        vars(module)["written"] = written


def _notes_the_sequence_first() -> None:
    """A node notes how far it has applied the log in a transaction of its own, before the edits."""
    import struct
    import time

    from kinbin_cluster import applying

    sound = applying.apply

    def apply(collection: Any, taken: Any, verdicts: Any, stored: Any = None) -> Any:
        note = {applying.APPLIED: taken[-1][0].to_bytes(8, "big")}
        note |= {} if stored is None else {applying.STORED: struct.pack(">d", stored)}
        group = collection.together()
        group.nothing()
        group.commit(lambda _: note)
        # The time between two transactions, such as a busy machine makes it.
        time.sleep(0.02)
        return sound(collection, taken, verdicts, stored)

    _put(applying, "apply", apply)


def _forgets_message_ids() -> None:
    """A gateway sends what was not acknowledged again as if it were another write."""
    import secrets

    from kinbin_cluster.log import Log

    sound: Any = Log._one

    async def one(log: Log, uid: str, shard: int, part: bytes, message_id: str, seconds: float) -> Any:
        # One that was lost on its way back comes again soon, as on a network of long ways.
        return await sound(log, uid, shard, part, f"{message_id}-{secrets.token_hex(4)}", min(seconds, 0.5))

    _put(Log, "_one", one)


def _forgets_keys() -> None:
    """A gateway takes an add that comes again with its key for another one."""
    from kinbin_service.routes.adding import Batch

    sound: Any = Batch.terms
    _put(Batch, "terms", lambda batch, key=None: sound(batch, None))


def _waits_for_the_silent() -> None:
    """A gateway asks nobody else while a node is silent."""
    from kinbin_cluster.gateway import fanout

    _put(fanout._Question, "_look", lambda question, node, started: None)
    _put(fanout.Fanout, "_next", _first_of(fanout))


def _first_of(fanout: Any) -> Any:
    """The choice of a node that knows nothing of silence."""

    def chosen(self: Any, uid: str, shard: int, tried: Any) -> Any:
        nodes = [self.node(told.address) for told in self.picture.answering(uid, shard)]
        return next((node for node in nodes if node not in tried), None)

    return chosen


def _reads_what_is_there() -> None:
    """A node answers a read that has to see a certain write with what it has."""
    from kinbin_cluster.node import quick, reads

    async def nothing(*_: Any) -> None:
        return None

    _put(reads, "_wait", nothing)
    _put(quick, "AFTER", "X-Nobody-Sends-This")


def _passes_over_what_does_not_fit() -> None:
    """A node goes on behind entries that its disk had no room for."""
    import kinbin
    from kinbin_cluster import applying

    sound = applying.apply

    def apply(collection: Any, taken: Any, verdicts: Any, stored: Any = None) -> Any:
        try:
            return sound(collection, taken, verdicts, stored)
        except kinbin.StorageFull:
            return []

    _put(applying, "apply", apply)


def _names_snapshots_first() -> None:
    """A node enters a snapshot before it is stored."""
    import time
    from pathlib import Path

    from kinbin_cluster.node.running import RunningNode
    from kinbin_cluster.objects import Objects
    from kinbin_cluster.picture import Snapshot

    registries: list[Any] = []
    sound_init: Any = RunningNode.__init__
    sound_put: Any = Objects.put

    def init(node: Any, means: Any, settings: Any) -> None:
        registries.append(means)
        sound_init(node, means, settings)

    async def put(objects: Objects, name: str, path: Path) -> int:
        uid, shard, sequence, _ = name.split(".")
        means = registries[-1]
        named = Snapshot(int(sequence), name, 0, means.name, time.time())
        await means.registry.add_snapshot(uid, int(shard), named)
        return int(await sound_put(objects, name, path))

    _put(RunningNode, "__init__", init)
    _put(Objects, "put", put)


def _notes_before_it_restores() -> None:
    """A node makes a replica that is as far as a snapshot, and takes over what the snapshot holds afterwards."""
    import asyncio
    import tempfile

    from kinbin_cluster.applying import APPLIED
    from kinbin_cluster.node.replica import ShardReplica

    sound: Any = ShardReplica._restored

    async def restored(replica: Any, name: str) -> Any:
        described = replica.means.registry.picture.collection_of(replica.uid)
        database = replica.means.database
        note = {APPLIED: int(name.split(".")[2]).to_bytes(8, "big")}

        def begin() -> None:
            group = database.create_collection(replica.name, exist_ok=True, **described.configuration).together()
            group.nothing()
            group.commit(lambda _: note)

        # A folder as restores have: whoever looks for one meets the moment.
        await asyncio.to_thread(begin)
        with tempfile.TemporaryDirectory(prefix=".restoring-", dir=database.path):
            await asyncio.sleep(0.1)
        await asyncio.to_thread(database.drop_collection, replica.name)
        return await sound(replica, name)

    _put(ShardReplica, "_restored", restored)


def _keeps_what_is_damaged() -> None:
    """A node tries for ever to use files that are damaged."""
    from kinbin_cluster.node.replica import ShardReplica

    _put(ShardReplica, "_judged", lambda replica, failure: failure)


def _follows_from_the_end() -> None:
    """A node that starts takes what it has for all that there is, and follows the log from its end."""
    from kinbin_cluster.node.replica import ShardReplica

    async def read(replica: Any, applier: Any, going: asyncio.Event) -> None:
        def goes_on() -> None:
            if not going.is_set():
                replica.state, replica.problem, replica.applier = "replaying", None, applier
                going.set()

        last = await replica.means.log.last(replica.uid, replica.shard)
        applier.progress.end(max(last, applier.progress.applied))
        async for entry in replica.means.log.read(replica.uid, replica.shard, applier.progress.applied, None, goes_on):
            await applier.feed(entry)

    _put(ShardReplica, "_read", read)


def _does_not_close() -> None:
    """The command that cuts a collection into other shards lets the old one take writes to the end."""
    from dataclasses import replace

    from kinbin_cluster import resharding
    from kinbin_cluster.log import Log

    async def nothing(*_: Any, **__: Any) -> None:
        return None

    _put(Log, "take", nothing)
    _put(resharding, "replace", lambda held, **new: held if new == {"closed": "pause"} else replace(held, **new))


PLANTS = {
    "answers-before-the-quorum": _answers_before_the_quorum,
    "forgets-message-ids": _forgets_message_ids,
    "forgets-keys": _forgets_keys,
    "waits-for-the-silent": _waits_for_the_silent,
    "notes-the-sequence-first": _notes_the_sequence_first,
    "reads-what-is-there": _reads_what_is_there,
    "passes-over-what-does-not-fit": _passes_over_what_does_not_fit,
    "names-snapshots-first": _names_snapshots_first,
    "notes-before-it-restores": _notes_before_it_restores,
    "keeps-what-is-damaged": _keeps_what_is_damaged,
    "follows-from-the-end": _follows_from_the_end,
    "does-not-close": _does_not_close,
}


def _main(name: str, program: str, *arguments: str) -> None:
    PLANTS[name]()
    sys.argv[1:] = arguments
    if program == "command":
        from kinbin_service.cli import app

        app()
    runpy.run_module(f"kinbin_cluster.{program}", run_name="__main__")


if __name__ == "__main__":
    _main(*sys.argv[1:])
