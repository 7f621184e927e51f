"""Looking at a collection from outside its hot paths: statistics, and the check of everything stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kinbin.errors import CollectionNotFound, CorruptData
from kinbin.hashing import band_keys, content_hash
from kinbin.links.search import GONE
from kinbin.options import OPTIONS
from kinbin.query.plan import Plan
from kinbin.query.route import Route, Wanted, route_for
from kinbin.query.search import fresh_keys
from kinbin.query.view import View, Views
from kinbin.records import CheckReport, CollectionConfig
from kinbin.segments.run import Run
from kinbin.segments.source import Recipe, Source, iterate_rows
from kinbin.storage.copying import Tally
from kinbin.storage.format import Part
from kinbin.storage.lookups import META
from kinbin.storage.transactions import Reader
from kinbin.storage.workspace import IN_MEMORY
from kinbin.upkeep.drafts import unpacked

__all__ = ["MOST_PROBLEMS", "Findings", "check_items", "check_records", "check_store", "describe"]

MOST_PROBLEMS = 20
_Entry = TypeVar("_Entry")


def describe(name: str, config: CollectionConfig, view: View, plan: Plan, size: int) -> dict[str, Any]:
    """What `Collection.stats` returns."""
    route = _usual_route(plan)
    runs = [
        {
            "rows": run.rows, "live": run.live, "r": run.header.r, "bands": run.header.bands,
            "slot_bits": run.header.slot_bits,
            "postings_per_query": round(prediction.postings, 1),
            "verified_per_query": round(prediction.verified, 1),
            "uncertified_share": round(prediction.uncertified, 4),
        }
        for run, prediction in zip(view.runs, plan.predictions, strict=True)
    ]  # fmt: skip
    return {
        "name": name, "items": config.items, "kernel": config.kernel, "parameters": config.parameters, "dim": config.dim,
        "sampler": config.sampler, "bands": config.bands, "rows_per_band": config.rows,
        "count": view.state.items, "rows": view.live_rows, "fresh_rows": view.fresh.rows, "dead_rows": view.total_rows - view.live_rows,
        "runs": runs, "bytes": size, "commits": view.state.sequence,
        "auto": route.path, "route": [{"step": str(step), "expected_us": round(step.ns / 1_000, 1)} for step in route.steps],
        "links": _describe_links(view, plan),
    }  # fmt: skip


def _usual_route(plan: Plan) -> Route:
    """The way of a query without options."""
    return route_for(plan, Wanted(k=OPTIONS["k"].default, least=0.0, target=OPTIONS["target_recall"].default, mode="auto"))


def _describe_links(view: View, plan: Plan) -> dict[str, Any] | None:
    """What covers which rows, and how wide walks are for which recall."""
    if view.links is None or plan.links is None:
        return None
    links = view.links.set
    width = plan.links.width(10, 1.0, forced=True)
    assert width is not None
    return {
        "rows": view.links.linked, "unlinked_rows": view.unlinked_rows + view.fresh.rows,
        "code_layout": links.coder.layout, "code_bytes": links.code_bytes, "code_recall": links.coder.recall,
        "links_per_row": round(links.header.link_count / max(1, len(links.row_numbers)), 1),
        "pool": width.pool, "far_pool": width.pool_at(width.far / 2), "far_similarity": width.far,
        "hard_pool": int(width.beam["wide"][0]), "hard_similarity": width.hard,        "alike": width.alike,
        "calibration": links.calibration.steps(),
    }  # fmt: skip


class Findings:
    """Problems as sentences, the first of them."""

    def __init__(self, progress: Callable[[str], None] | None = None) -> None:
        self.problems: list[str] = []
        self._progress = progress

    def add(self, text: str) -> None:
        """Note a problem."""
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(text)

    def tell(self, text: str) -> None:
        """Say what is being looked at."""
        if self._progress is not None:
            self._progress(text)


def check_store(
    reader: Reader, recipe: Recipe, progress: Callable[[str], None] | None, owned: NDArray[np.uint64] | None = None
) -> CheckReport:
    """Verify everything of one snapshot: checksums, postings against rows, items against owners and rows.

    owned: the rows that have to live, ascending, of a store whose rows have no ids; others may live as well.

    Cost: every stored row is hashed again (as when it was merged).
    """
    findings = Findings(progress)
    try:
        view = Views(recipe.space.geometry).at(reader)
        assert view is not None
    except CorruptData as error:
        return CheckReport(False, 0, 0, 0, [error.what], advice=error.own_advice)
    if view.state.dropped:
        raise CollectionNotFound("the collection was removed")
    living: list[NDArray[np.uint64]] = []
    for run in view.runs:
        findings.tell(f"run {run.number}: {run.rows} rows")
        try:
            _check_run(reader, run, recipe, findings)
        except CorruptData as error:
            findings.add(f"run {run.number}: {error.what}")
        living.append(run.row_numbers[run.dead.living()])
    findings.tell(f"journal: {view.fresh.rows} rows")
    try:
        _check_fresh(view, recipe, findings)
    except CorruptData as error:
        findings.add(f"journal: {error.what}")
    living.append(view.fresh.row_numbers[view.fresh.dead.living()])
    _check_links(reader, view, recipe, findings)
    check_records(reader, findings)
    if owned is None:
        findings.tell("items")
        try:
            owned = check_items(reader, findings)
            alive = np.concatenate(living)
            if not np.array_equal(np.sort(alive), owned):
                findings.add(f"{len(alive)} rows are alive, {len(owned)} have ids, and they are not the same")
        except CorruptData as error:
            findings.add(error.what)
    elif lost := len(np.setdiff1d(owned, np.concatenate(living))):
        findings.add(f"{lost} items have no row here")
    return CheckReport(not findings.problems, view.state.items, view.live_rows, len(view.runs), findings.problems)


def check_records(reader: Reader, findings: Findings) -> None:
    """Every record of the first tree, answers of idempotency keys and notes among them."""
    tally = Tally(reader.salt)
    try:
        for key, value in reader.scan_tree(META, b""):
            try:
                tally.pass_on((META, key, value))
            except CorruptData as error:
                findings.add(error.what)
    except CorruptData as error:
        findings.add(error.what)


def _check_run(reader: Reader, run: Run, recipe: Recipe, findings: Findings) -> None:
    """Checksums of all parts, then every row's record, content hash and postings."""
    for part in (Part.OFFSETS, Part.ROW_NUMBERS, Part.CHECKS, Part.CONTENT, Part.CONTENT_ROWS, Part.BLOCK, Part.BAND):
        reader.run_parts(run.number, part, verify=True)
    if (np.diff(run.row_numbers.astype(np.int64)) <= 0).any():
        findings.add(f"run {run.number}: its row numbers do not ascend")
    r, bands = run.header.r, run.header.bands
    addresses, rooms = run.places(np.arange(run.rows))
    slots = np.empty((run.rows, bands), np.uint32)
    hashes = np.empty(run.rows, np.uint64)
    for start, rows in iterate_rows(Source(run.row_numbers, addresses, rooms), recipe.wide):
        stop = start + len(rows)
        if bands:
            slots[start:stop] = band_keys(recipe.sampler.codes(rows, r, bands), r, bands) >> np.uint32(32 - run.header.slot_bits)
        hashes[start:stop] = content_hash(rows)
    if not np.array_equal(run.content, hashes[run.content_rows]) or not np.array_equal(run.content, np.sort(hashes)):
        findings.add(f"run {run.number}: its content hashes are not those of its rows")
    posting = np.dtype("<u2") if run.header.posting_bytes == 2 else np.dtype("<u4")
    count = (1 << run.header.slot_bits) + 1
    for j, table in enumerate(reader.run_parts(run.number, Part.BAND)):
        if len(table) != run.header.table_bytes:
            findings.add(f"run {run.number}, band {j}: it has not the size its header gives")
            continue
        offsets = np.frombuffer(table, "<u4", count)
        postings = np.frombuffer(table, posting, run.rows, offsets.nbytes)
        expected = np.concatenate([[0], np.cumsum(np.bincount(slots[:, j], minlength=count - 1))])
        if not np.array_equal(offsets, expected) or not np.array_equal(postings, np.argsort(slots[:, j], kind="stable")):
            findings.add(f"run {run.number}, band {j}: its postings are not those of its rows")


def _check_links(reader: Reader, view: View, recipe: Recipe, findings: Findings) -> None:
    """Checksums and bounds of the link set, and that its codes are those of the rows."""
    sets = reader.link_sets()
    if view.links is None:
        if sets:
            what = "is damaged, or of another version: nothing is answered from it"
            findings.add(f"link set {sets[0]} {what}; link the collection again (`kinbin link`)")
        return
    links = view.links.set
    findings.tell(f"link set {links.number}: {len(links.row_numbers)} rows")
    try:
        graph = unpacked(reader, links, recipe.space.shapes, IN_MEMORY)
    except CorruptData as error:
        findings.add(f"link set {links.number}: {error.what}; link the collection again (`kinbin link`)")
        return
    nodes = np.flatnonzero(view.links.places != GONE)
    for start, rows in iterate_rows(Source(links.row_numbers[nodes], *view.addresses(view.links.places[nodes])), recipe.wide):
        some = nodes[start : start + len(rows)]
        codes, errors = links.coder.encode(rows)
        if not codes.equals(graph.codes.take(some)) or not np.array_equal(errors, links.errors[some]):
            findings.add(f"link set {links.number}: its codes are not those of its rows; link the collection again (`kinbin link`)")
            return


def _check_fresh(view: View, recipe: Recipe, findings: Findings) -> None:
    """The journal's rows against their hashes and keys (their checksums were verified when they were read)."""
    fresh = view.fresh
    source = Source(fresh.row_numbers[: fresh.rows], fresh.addresses[: fresh.rows], fresh.rooms[: fresh.rows].astype(np.int64))
    for start, rows in iterate_rows(source, recipe.wide):
        stop = start + len(rows)
        if not np.array_equal(content_hash(rows), fresh.hashes[start:stop]):
            findings.add("journal: content hashes are not those of the rows")
        if not np.array_equal(fresh_keys(recipe.space, recipe.sampler, rows), fresh.keys[start:stop]):
            findings.add("journal: band keys are not those of the rows")


def _batches(entries: Iterable[_Entry]) -> Iterator[list[_Entry]]:
    """Entries, some at a time: all of a million would be held in memory."""
    source = iter(entries)
    while batch := list(islice(source, 1_024)):
        yield batch


def check_items(reader: Reader, findings: Findings) -> NDArray[np.uint64]:
    """Items and owners name each other, and are found by key, as readers look for them. Returns the numbers that have ids, ascending."""
    owner: dict[bytes, int] = {}
    owned: list[int] = []
    for batch in _batches(reader.scan_owners()):
        owned += [row for row, _ in batch]
        owner.update((key, row) for row, ids in batch for key in ids)
        if reader.owners([row for row, _ in batch]) != [ids for _, ids in batch]:
            findings.add("the ids of rows are not found by the number of their row")
        for row, ids in batch:
            if not ids:
                findings.add(f"row {row} has no id")
    count, state = 0, reader.state()
    for items in _batches(reader.scan_items(None)):
        count += len(items)
        if reader.items([key for key, _, _ in items]) != [(row, payload) for _, row, payload in items]:
            findings.add("items are not found by their id")
        for key, row, _ in items:
            if owner.pop(key, None) != row:
                findings.add(f"an item names row {row}, which does not name the item")
    if owner:
        findings.add(f"{len(owner)} ids of rows are no items")
    if count != state.items:
        findings.add(f"there are {count} items, the state record says {state.items}")
    if owned and max(owned) >= state.next_row:
        findings.add("an item has a number that was never given")
    return np.sort(np.array(owned, np.uint64))
