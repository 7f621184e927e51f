"""`kinbin cluster reshard`: a collection into a new one of other shards, which takes its name.

    copy ─ rounds, until little changes ─▶ close the old one ─▶ the last round ─▶ compare ─▶ the name leads to the new one

| broken off | the old collection | begun again |
|---|---|---|
| while it copies | takes writes | the new collection is dropped, and everything is copied anew |
| while writes pause | refuses writes; opened by the command itself unless it was killed | it is opened first, then as above |
| after contents were compared | closed | the names are brought to their end, nothing else |

One command at once works on a collection (a lease). How far it is stands in the registry: `jobs.reshard.{name}`. A command that has
stalled while another one began takes no further step: the old collection's record says which run has closed it (`closed_by`), and what
is not of that run opens nothing and changes no name.
"""

from __future__ import annotations

import asyncio
import secrets
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import kinbin
from kinbin_cluster.commands import Refused, Session, Tell, opened
from kinbin_cluster.copying import MODULUS, Copy
from kinbin_cluster.errors import ClusterError, NotThere
from kinbin_cluster.gateway.creating import created
from kinbin_cluster.leases import Lease, alone
from kinbin_cluster.message import Edit, encoded
from kinbin_cluster.picture import Collection, Picture
from kinbin_cluster.settings import ClusterSettings
from kinbin_service.problems import Refusal

__all__ = ["cancel", "reshard"]

_FEW, _ROUNDS = 200, 8
"""Items that a round may write at most to be the last before writes pause; rounds after which it is so anyway."""
_PAUSE_SECONDS = 60.0
"""Longest pause: what is not done then is broken off, and the old collection opened again."""
_MARK_SECONDS = 5.0
_LEASE_SECONDS = 6.0
"""Longest wait for the lease: a command that was killed has it for 5 s."""

T = TypeVar("T")
Job = dict[str, Any]


async def reshard(
    settings: ClusterSettings, name: str, shards: int, tell: Tell, *, replicas: int | None = None, drop_old: bool = False,
    scratch: Path | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Cut a collection into other shards. Returns the names, the number of items, and for how many seconds writes were refused.

    name: of it, or an alias; all aliases follow. replicas: as many as it has, if None. drop_old: else it is kept, under another name, and
    takes no writes. scratch: a folder that has room for all of the collection's files once, here; a temporary one if None.

    Raises:
        Refused, NotThere; ClusterError: it was broken off, and may be begun again.

    Cost: what a new replica of each shard costs, here, and one more add of all items; 200 bytes of memory an item.
    ARCHITECTURE.md has figures.
    """
    async with opened(settings) as session:
        old = _named(session, name)
        async with _alone(session, old.name) as lease:
            old = _named(session, name)  # who had the lease before may have changed it
            job = _job(session, old.name)
            try:
                if not _only_names(old, job):
                    await _begun_anew(session, old, job)
                    job = await _copied(session, old, (shards, replicas), partial(_see_that_it_is_ours, lease, old.name), tell, scratch)
                pause = await _swapped(session, job)
            except (Refused, ClusterError):
                await _cleared(session, old.name)
                raise
            if drop_old:
                await session.registry.drop_collection(job["kept"])
            became = "is dropped" if drop_old else f"is kept as {job['kept']}, and takes no writes"
            tell(f"{job['name']} has {job['shards']} shards; what it was {became}")
            return {key: job[key] for key in ("name", "shards", "items", "kept")} | {"dropped": drop_old, "paused_seconds": pause}


async def cancel(settings: ClusterSettings, name: str, tell: Tell) -> None:
    """Give up what was broken off: the new collection is dropped, the old one takes writes. Raises Refused, NotThere, ClusterError."""
    async with opened(settings) as session:
        old = _named(session, name)
        async with _alone(session, old.name):
            old = _named(session, name)
            job = _job(session, old.name)
            if _only_names(old, job):
                raise Refused(f"{old.name} was copied, and its name only has to follow: run it again without --cancel")
            await _begun_anew(session, old, job)
            tell(f"{old.name} is as it was")


def _named(session: Session, name: str) -> Collection:
    found = session.picture.resolved(name)
    if found is None:
        raise NotThere(f"there is no collection {name}")
    return found


def _job(session: Session, name: str) -> Job:
    return session.picture.jobs.get(f"reshard.{name}") or {"state": "none"}


def _only_names(found: Collection, job: Job) -> bool:
    """Whether all is copied and compared, and nothing was written since."""
    return bool(job["state"] == "swapping" and (found.uid != job["old"] or (found.closed and found.closed_by == job.get("run", ""))))


def _alone(session: Session, name: str) -> AbstractAsyncContextManager[Lease]:
    """Hold the lease of a collection. Raises Refused when another command does."""
    lease = Lease(session.registry, f"reshard.{name}", f"command-{secrets.token_hex(4)}", session.connection.clock)
    return alone(lease, _LEASE_SECONDS, lambda: Refused(f"another command cuts {name} into other shards just now"))


def _see_that_it_is_ours(lease: Lease, name: str) -> None:
    if not lease.sure:
        raise ClusterError(f"this command stalled for too long, and another one may work on {name} by now: run it again")


async def _begun_anew(session: Session, old: Collection, job: Job) -> None:
    """Undo what a command that was broken off has left."""
    if old.closed == "kept":
        raise Refused(f"{old.name} is kept as it was before it was cut into other shards: name the one that took its name")
    # First of all: from here on the command that closed it, should it still run, opens nothing and changes no name.
    await _opened(session, old, old.closed_by)
    if job["state"] != "none":
        collections = session.picture.collections
        if job["into"] in collections:
            await session.registry.drop_collection(job["into"])
        if job["kept"] in collections and collections[job["kept"]].uid == old.uid:
            await session.registry.drop_name(job["kept"])
    await session.registry.put_job(f"reshard.{old.name}", {"state": "none"})


async def _cleared(session: Session, name: str) -> None:
    """Remove what was made for a collection that was dropped meanwhile, or has another one's name; nothing where it is there."""
    job, held = _job(session, name), session.picture.collections.get(name)
    if job["state"] == "none" or (held is not None and held.uid in (job["old"], job.get("new"))):
        return
    kept, new = (session.picture.collections.get(job[what]) for what in ("kept", "into"))
    if kept is not None and kept.uid == job["old"]:
        await session.registry.drop_name(job["kept"])
    if new is not None:
        await session.registry.drop_collection(job["into"])
    await session.registry.put_job(f"reshard.{name}", {"state": "none"})


# ----------------------------------------------------------------------------------------------- copying


async def _copied(
    session: Session, old: Collection, spread: tuple[int, int | None], see: Callable[[], None], tell: Tell, scratch: Path | None
) -> Job:
    """Make the new collection, fill it, and close the old one, which holds the same then. Returns the job, for `_swapped`.

    see: raises where another command may be at work by now.
    """
    shards, replicas = spread
    job: Job = {
        "state": "copying", "name": old.name, "old": old.uid, "shards": shards, "run": secrets.token_hex(8),
        "into": f"{old.name[:40]}-to-{shards}-shards", "kept": f"{old.name[:40]}-was-{old.uid[:8]}",
    }  # fmt: skip
    if {job["into"], job["kept"]} & {*session.picture.collections, *session.picture.aliases}:
        raise Refused(f"{job['into']} and {job['kept']} are the names that are needed, and one of them is taken")
    tell(f"{old.name} is cut from {old.shards} into {shards} shards; it takes writes until the last of them are taken over")
    with tempfile.TemporaryDirectory(prefix=".resharding-", dir=scratch) as folder:
        async with Copy(session, old, Path(folder), tell) as copy:
            await copy.caught_up()
            await session.registry.put_job(f"reshard.{old.name}", job)
            copy.new = await _created(session, job["into"], copy.configuration(), (shards, replicas or old.replicas))
            job["new"] = copy.new.uid
            await _rounds(session, copy, tell)
            return await _closed(session, copy, job, see, tell)


async def _created(session: Session, name: str, configuration: dict[str, Any], spread: tuple[int, int]) -> Collection:
    try:
        return await created(session, name, kinbin.Schema(**configuration), *spread)
    except Refusal as refusal:
        raise Refused(refusal.detail) from None


async def _rounds(session: Session, copy: Copy, tell: Tell) -> None:
    """Write rounds until one of them writes little, and the new shards have applied it."""
    for number in range(1, _ROUNDS + 1):
        written = await copy.round()
        await copy.indexes()
        await _applied(session, copy)
        tell(f"round {number}: {written} items written")
        await copy.caught_up()
        if written <= _FEW:
            return


async def _applied(session: Session, copy: Copy) -> None:
    """Wait until a replica of each new shard has applied what its log holds now."""
    assert copy.new is not None
    uid = copy.new.uid
    for number in range(copy.new.shards):
        last = await session.log.last(uid, number)
        while max(session.picture.applied(uid, number).values(), default=0) < last:
            if uid not in {one.uid for one in session.picture.collections.values()}:
                raise Refused("the new collection was dropped meanwhile")
            await session.registry.wait_for(partial(_is_applied, (uid, number), last), 5.0)


def _is_applied(place: tuple[str, int], last: int, picture: Picture) -> bool:
    return max(picture.applied(*place).values(), default=0) >= last


async def _closed(session: Session, copy: Copy, job: Job, see: Callable[[], None], tell: Tell) -> Job:
    """Close the old collection, take over its last edits, and compare. It is opened again unless all of it is alike."""
    tell("writes pause")
    began = time.time()
    alike = False
    try:
        async with asyncio.timeout(_PAUSE_SECONDS):
            see()
            await _paused(session, copy.old, job["run"])
            await _all(session.log.take(copy.old.uid, number, edits=False) for number in range(copy.old.shards))
            ends = await _all(_end(session, copy.old.uid, number) for number in range(copy.old.shards))
            await copy.caught_up(_PAUSE_SECONDS, ends)
            written = await copy.round()
            await copy.indexes()
            await copy.limit()
            tell(f"the last round: {written} items written")
            await _compared(session, copy)
            tell(f"{copy.count} items are alike")
            for number, end in enumerate(ends):
                if await session.log.last(copy.old.uid, number) > end:
                    raise Refused(f"shard {number} was written to though it takes no writes: nothing was changed, try again")
            see()
            done = job | {"state": "swapping", "items": copy.count, "closed": began}
            await session.registry.put_job(f"reshard.{copy.old.name}", done)
            alike = True
    except TimeoutError:
        raise Refused(f"the last edits were not taken over in {_PAUSE_SECONDS:.0f} s") from None
    finally:
        if not alike:
            # First of all, so that nobody takes it for copied once it takes writes again.
            await session.registry.put_job(f"reshard.{copy.old.name}", job)
            if session.picture.collection_of(copy.old.uid) is not None:
                await _opened(session, copy.old, job["run"])
                tell("writes go on")
    return done


async def _all(several: Iterable[Awaitable[T]]) -> list[T]:
    """What all of several return, once each has ended: nothing of them goes on behind an error of one."""
    tasks = [asyncio.ensure_future(one) for one in several]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _paused(session: Session, old: Collection, run: str) -> None:
    """Have gateways refuse writes. Raises Refused where the name is gone, or another collection's."""

    def paused(held: Collection) -> Collection:
        if held.uid != old.uid:
            raise Refused(f"{old.name} was dropped meanwhile, and another collection has its name")
        if held.closed and held.closed_by != run:
            raise Refused(f"another command cuts {old.name} into other shards by now")
        return replace(held, closed="pause", closed_by=run)

    try:
        await session.registry.change_collection(old.name, paused)
    except NotThere:
        raise Refused(f"{old.name} was dropped meanwhile") from None


async def _end(session: Session, uid: str, number: int) -> int:
    """Put a mark behind all edits of a log that takes no more; its sequence."""
    name = f"end-{secrets.token_hex(8)}"
    (payload,) = encoded(Edit("mark", now=time.time(), more={"name": name}))
    return await session.log.end(uid, number, payload, name, seconds=_PAUSE_SECONDS)


async def _opened(session: Session, old: Collection, run: str) -> None:
    """Let a collection that a run has closed, or none has, take writes; nothing happens where another run has closed it."""
    mine = secrets.token_hex(8)

    def taken_over(held: Collection) -> Collection:
        """Closed until its logs are open, and for that by nobody else: the run that closed it finds that it is not its own any more."""
        ours = held.uid == old.uid and held.closed == "pause" and held.closed_by == run
        return replace(held, closed_by=mine) if ours else held

    held = await session.registry.change_collection(old.name, taken_over)
    if held.uid != old.uid or (held.closed and held.closed_by != mine):
        return
    await _all(session.log.take(old.uid, number, edits=True) for number in range(old.shards))
    await session.registry.change_collection(
        old.name, lambda held: replace(held, closed="", closed_by="") if held.uid == old.uid and held.closed_by == mine else held
    )


async def _compared(session: Session, copy: Copy) -> None:
    """See that the new collection's nodes hold what was read from the old one. Raises Refused."""
    assert copy.new is not None
    found = await asyncio.gather(*(_digest(session, copy.new.uid, number) for number in range(copy.new.shards)))
    total, count = sum(digest for digest, _ in found) % MODULUS, sum(items for _, items in found)
    if (total, count) != (copy.digest, copy.count):
        raise Refused(f"the new shards hold {count} items and the old ones {copy.count}, or not the same: nothing was changed")


async def _digest(session: Session, uid: str, number: int) -> tuple[int, int]:
    """What a replica of a shard holds: the sum of its items' digests, and their number."""
    marks: set[int] = set()
    while True:
        # A replica that is still at another mark passes this one over: the next one comes. Writes pause: any mark of these tells the same.
        name = f"reshard-{secrets.token_hex(8)}"
        parts = encoded(Edit("mark", now=time.time(), more={"name": name, "of": "set"}))
        marks.add((await session.log.publish(uid, number, parts, name, time.monotonic() + _PAUSE_SECONDS)).sequence)
        told: list[tuple[int, int]] = []

        def tells(picture: Picture, told: list[tuple[int, int]] = told) -> bool:
            shard = picture.shards.get((uid, number))
            for node in () if shard is None else shard.replicas:
                replica = picture.replica(uid, number, node)
                if replica is not None and replica.digest is not None and replica.digest[0] in marks:
                    told.append((int(str(replica.digest[1]), 16), replica.items))
            return bool(told) or shard is None

        if await session.registry.wait_for(tells, _MARK_SECONDS):
            if not told:
                raise Refused("the new collection was dropped meanwhile")
            return told[0]


# ----------------------------------------------------------------------------------------------- names


async def _swapped(session: Session, job: Job) -> float:
    """Bring the names to their end, from wherever they are. Returns the seconds since the old collection was closed."""
    registry, picture = session.registry, session.picture
    new, held, run = picture.collections.get(job["into"]), picture.collections.get(job["name"]), job.get("run", "")
    if held is not None and held.uid == job["old"] and held.closed_by == run:
        if new is None or new.uid != job["new"]:
            raise ClusterError(f"{job['into']}, which has all of {job['name']}, is not there any more")
        await registry.put_name(replace(held, name=job["kept"], closed="kept"))
        leads_to = replace(new, name=job["name"], created=held.created)
        with suppress(NotThere):
            held = await registry.change_collection(
                job["name"], lambda now: leads_to if now.uid == job["old"] and now.closed_by == run else now
            )
    if held is not None and held.uid == job["old"]:
        raise ClusterError(f"another command works on {job['name']} by now: this one has changed nothing")
    if held is None or held.uid != job["new"]:
        raise Refused(f"{job['name']} was dropped meanwhile: the collection that was made of it is dropped as well")
    pause = round(time.time() - float(job["closed"]), 3)
    await registry.drop_name(job["into"])
    await registry.put_job(f"reshard.{job['name']}", {"state": "none"})
    return pause
