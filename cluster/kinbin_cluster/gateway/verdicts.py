"""What came of a message that the log holds: a replica of its shard that has applied it tells.

Every replica decides alike, so that any of them may be asked. One that is late is not waited for: after `HURRY_SECONDS` the next one is
asked as well, and who answers first counts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

import kinbin
from kinbin.errors import KinbinError
from kinbin_cluster.gateway.fanout import Fanout
from kinbin_cluster.picture import Picture

__all__ = ["Verdict", "counts_of", "error_of", "verdict_of"]

PATH = "/cluster/verdicts"
HURRY_SECONDS = 0.3
WAIT_SECONDS = 2.0
"""So long a node is asked to wait at a time for a message that it has not applied."""
PAUSE_SECONDS = 0.02

_ERRORS: Mapping[str, type[KinbinError]] = {
    one.code: one
    for one in (
        kinbin.ItemConflict, kinbin.VersionConflict, kinbin.KeyReused, kinbin.StorageFull, kinbin.StorageBusy, kinbin.CorruptData,
        kinbin.CollectionNotFound,
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one message: one of the two."""

    done: dict[str, Any] | None = None
    """What the library answered, by the names of its result."""
    refused: dict[str, Any] | None = None
    """Its problem: code, detail, ids, problems. Nothing of the message was written."""
    forgotten: bool = False
    """Neither: all replicas that tell have applied it, so long ago that they do not know any more."""


async def verdict_of(nodes: tuple[Picture, Fanout], uid: str, shard: int, sequence: int, deadline: float) -> Verdict | None:
    """What came of the message of this sequence; None: nobody told before the deadline (by `time.monotonic`), or it was dropped."""
    told = await _told(nodes, uid, shard, sequence, deadline)
    if told is None:
        return None
    return Verdict(told.get("done"), told.get("refused"), bool(told.get("unknown")))


async def counts_of(nodes: tuple[Picture, Fanout], uid: str, shards: Iterable[int], seconds: float) -> list[int | None]:
    """How many items each of these shards has, as some replica of it knows; None: nobody told within so long."""
    deadline = time.monotonic() + seconds
    told = await asyncio.gather(*(_told(nodes, uid, shard, 0, deadline) for shard in shards))
    return [None if one is None or "count" not in one else int(one["count"]) for one in told]


async def _told(nodes: tuple[Picture, Fanout], uid: str, shard: int, sequence: int, deadline: float) -> dict[str, Any] | None:
    """What a replica tells of a message, the first that does."""
    picture, fanout = nodes
    running: set[asyncio.Task[dict[str, Any] | None]] = set()
    forgotten: dict[str, Any] | None = None
    try:
        while time.monotonic() < deadline:
            addresses = [node.address for node in picture.answering(uid, shard)]
            while (addresses or running) and time.monotonic() < deadline:
                left = deadline - time.monotonic()
                if addresses:
                    running.add(asyncio.create_task(_ask(fanout, addresses.pop(0), uid, shard, sequence, deadline)))
                    left = min(left, HURRY_SECONDS)
                running, told = await _first(running, left)
                if told is not None and "unknown" not in told:
                    return told
                forgotten = forgotten or told
            if forgotten is not None:
                return forgotten
            if picture.collection_of(uid) is None:
                return None  # it was dropped, and nobody will tell
            await asyncio.sleep(PAUSE_SECONDS)
        return None
    finally:
        for one in running:
            one.cancel()


async def _first(
    running: set[asyncio.Task[dict[str, Any] | None]], seconds: float
) -> tuple[set[asyncio.Task[dict[str, Any] | None]], dict[str, Any] | None]:
    """Those that still run after so long, or after the first end; and what was told."""
    ended, running = await asyncio.wait(running, timeout=max(0.0, seconds), return_when=asyncio.FIRST_COMPLETED)
    told = [one for task in ended if (one := task.result()) is not None]
    known = [one for one in told if "unknown" not in one]
    return running, next(iter(known or told), None)


async def _ask(fanout: Fanout, address: str, uid: str, shard: int, sequence: int, deadline: float) -> dict[str, Any] | None:
    """What one node tells; None: nothing, or that it has not applied so far."""
    left = deadline - time.monotonic()
    wait = max(0.0, min(WAIT_SECONDS, left))
    asked = {"asked": [{"uid": uid, "shard": shard, "sequence": sequence}], "wait_ms": int(wait * 1_000)}
    answer = await fanout.post(address, PATH, orjson.dumps(asked), wait + 1.0)
    if answer is None or answer[0] != 200:
        return None
    told: dict[str, Any] = orjson.loads(answer[1])["verdicts"][0]
    return told if told.keys() & ({"done", "refused", "unknown"} if sequence else {"count"}) else None


def error_of(refused: Mapping[str, Any]) -> KinbinError:
    """The library's error that a replica was refused with."""
    code, detail = refused["code"], refused.get("detail", "")
    if problems := refused.get("problems"):
        return kinbin.InvalidInput([kinbin.Problem(**one) for one in problems])
    kind = _ERRORS.get(code)
    if kind is None:
        return kinbin.InvalidInput.of(code, detail)
    if issubclass(kind, kinbin.ItemConflict):
        return kind(detail, tuple(refused.get("ids", ())))
    return kind(detail)
