"""Repairing a damaged database, and telling what is saved, what is lost with a word, and what is invented or left out without one."""

from __future__ import annotations

import hashlib
import shutil
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import kinbin
from pooled import pools_at_once
from torture.forms import FORMS, Form, files_of
from torture.specimen import Specimen
from torture.verdict import scrolled

__all__ = ["Mended", "judge", "judged"]

_EARLIER = (
    "a meta page is damaged", "both meta pages are damaged", "a write was killed or taken back", "may be of an earlier state",
    "may be that of an earlier state",
)  # fmt: skip
"""Problems that tell that items may be as they were before, or as they were to be by a commit that was given up."""
_MORE = ("more items were stored", "the state record is lost", "the last state record is lost", "an older copy of their file", *_EARLIER)
"""Problems that tell that items may be missing without a name."""
_FEWER = ("items fewer were stored", "the state record is lost", "the last state record is lost", *_EARLIER)
"""Problems that tell that items may be there that were deleted."""
_REFUSED = (kinbin.CorruptData, kinbin.FormatMismatch)


class Mended:
    """What came of the repair of one database."""

    def __init__(self) -> None:
        self.silent: list[str] = []
        """What is wrong, too much or missing, without a word."""
        self.untyped: list[str] = []
        self.missing: list[str] = []
        """What is lost, and said to be."""
        self.refused: list[str] = []

    @property
    def outcome(self) -> str:
        """The worst that happened."""
        if self.untyped:
            return "untyped error"
        if self.silent:
            return "silent"
        if self.refused:
            return "nothing saved"
        return "lost with a word" if self.missing else "all saved"


def judged(path: str, specimen: Specimen) -> Mended:
    """Repair the collection "c" of a database, and compare."""
    out = Mended()
    folder = Path(path) / "collections" / "c"
    before = _digest(folder)
    try:
        with kinbin.open(path) as database:
            report = database.repair("c")
            _compare(specimen, FORMS[specimen.form](database.collection(report.name)), report, out)
    except _REFUSED as error:
        out.refused.append(f"{type(error).__name__}: {str(error)[:200]}")
    except Exception as error:  # noqa: BLE001 - it is what is looked for
        out.untyped.append(f"{type(error).__name__}: {str(error)[:200]}")
    if _digest(folder) != before:
        out.silent.append("the damaged files were changed")
    return out


def _digest(folder: Path) -> dict[str, bytes]:
    return {name: hashlib.sha256((folder / name).read_bytes()).digest() for name in files_of(folder)}


def _compare(specimen: Specimen, collection: Form, report: kinbin.RepairReport, out: Mended) -> None:
    """Hold what was saved against what was stored."""
    told = " | ".join(report.problems)
    last = {name: (vector, payload) for name, vector, payload in zip(specimen.names, specimen.vectors, specimen.payloads, strict=True)}
    ids = scrolled(collection)
    for name, item in zip(ids, collection.get(ids), strict=True):
        bare = name in report.bare_ids
        if name in last and _is(collection, item, last[name], bare=bare):
            continue
        earlier = any(_is(collection, item, one, bare=bare) for one in specimen.ever.get(name, []))
        allowed = _EARLIER if name in last else _FEWER
        if not earlier or not any(text in told for text in allowed):
            kind = ("an earlier one" if earlier else "none that ever was") if name in last else "not stored"
            out.silent.append(f"{name} is {kind}; {told[:300]}")
        else:
            out.missing.append(f"{name} is an earlier one, and that may be")
    gone = set(last) - set(ids)
    unsaid = gone - set(report.lost_ids)
    if unsaid and not any(text in told for text in _MORE):
        out.silent.append(f"{len(unsaid)} items are missing, {sorted(unsaid)[:2]}; lost {report.lost}, {told[:300]}")
    if report.bare and not gone:
        out.missing.append(f"{report.bare} payloads are lost")
    if gone:
        out.missing.append(f"{len(gone)} of {len(last)} items are lost: {told[:200]}")
    if not report.items == len(ids) == len(set(ids)) == collection.count():
        out.silent.append(f"{report.items} items saved, {len(ids)} there, {collection.count()} counted")
    if set(report.lost_ids) & set(ids):
        out.silent.append("what is there is said to be lost")
    problems = collection.check().problems
    if problems:
        out.silent.append(f"check of what was saved: {problems[:2]}")


def _is(collection: Form, item: Any, stored: tuple[Any, Any], *, bare: bool) -> bool:
    vector, payload = stored
    return collection.holds(item, vector) and (item.payload == payload or (bare and item.payload is None))


def judge(connection: Connection, specimen: Specimen) -> None:
    """For each path: repair the database there and send what came of it. What was saved is removed."""
    with pools_at_once():
        while True:
            try:
                path = connection.recv()
            except EOFError:
                return
            connection.send(judged(path, specimen))
            shutil.rmtree(path, ignore_errors=True)
