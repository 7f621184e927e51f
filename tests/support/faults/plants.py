"""Broken promises, planted one by one: what a campaign has to find, so that its silence about a sound cluster means something.

`python -m faults.plants NAME node|gateway` runs a program with a bug in it.
"""

from __future__ import annotations

import asyncio
import runpy
import sys
from typing import Any

__all__ = ["PLANTS"]


def _answers_before_the_quorum() -> None:
    """A gateway says that a write is done as soon as it was sent to the log."""
    from kinbin_cluster.gateway import adding, publishing, writes
    from kinbin_cluster.gateway.tokens import Token

    sound = publishing.written
    running: set[asyncio.Task[Any]] = set()

    async def written(log: Any, nodes: Any, collection: Any, parts: Any, *rest: Any) -> publishing.Written:
        task = asyncio.create_task(sound(log, nodes, collection, parts, *rest))
        running.add(task)
        task.add_done_callback(running.discard)
        await asyncio.wait([task], timeout=0.05)
        if task.done() and not task.exception():
            return task.result()
        done = {part.shard: {"indexed": part.items, "updated": 0, "unchanged": 0, "deleted": 0, "count": 0} for part in parts}
        return publishing.Written(done, 0, Token(collection.uid, {}).text(), replayed=False)

    for module in (adding, writes):
        vars(module)["written"] = written


def _notes_the_sequence_first() -> None:
    """A node notes how far it has applied the log in a transaction of its own, before the edits."""
    import time

    from kinbin_cluster import applying

    sound = applying.apply

    def apply(collection: Any, taken: Any, verdicts: Any) -> Any:
        note = {applying.APPLIED: taken[-1][0].to_bytes(8, "big")}
        group = collection.together()
        group.nothing()
        group.commit(lambda _: note)
        # The time between two transactions, such as a busy machine makes it.
        time.sleep(0.02)
        return sound(collection, taken, verdicts)

    applying.apply = apply


PLANTS = {"answers-before-the-quorum": _answers_before_the_quorum, "notes-the-sequence-first": _notes_the_sequence_first}


if __name__ == "__main__":
    PLANTS[sys.argv[1]]()
    module = f"kinbin_cluster.{sys.argv[2]}"
    sys.argv[1:] = []
    runpy.run_module(module, run_name="__main__")
