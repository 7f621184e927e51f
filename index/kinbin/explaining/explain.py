"""One explanation, in a snapshot: the item's row is found, both rows are told apart, and bands and links are asked about the pair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinbin.distances.alignment import Alignment
from kinbin.distances.alignment import Pair as Aligned
from kinbin.errors import CorruptData
from kinbin.explaining.bands import curve_of, layout_of, no_bands, shared_bands
from kinbin.explaining.sums import Pair, factor_of
from kinbin.explaining.told import Cell, Factor, Rest, SharedBands, Term, Walked
from kinbin.items.kind import Form, Kind
from kinbin.query.found import LINKS, POOL
from kinbin.query.plan import plan_query
from kinbin.query.route import Wanted
from kinbin.query.search import Masks
from kinbin.query.view import View
from kinbin.rows.asked import queries_record
from kinbin.rows.rows import Rows
from kinbin.segments.scores import score_rows
from kinbin.segments.source import read_records
from kinbin.spaces.nested_cells import nodes_of
from kinbin.spaces.space import Space
from kinbin.storage.transactions import Reader

__all__ = ["How", "Stored", "explained"]

_NOISE = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """The item that is explained, and what tells the items of rows."""

    reader: Reader
    key: bytes
    row: int
    asked: bytes | None
    """The stored item that is asked about: a query by it leaves it out of its answers."""


@dataclass(frozen=True, slots=True, eq=False)
class How:
    """What is asked of an explanation."""

    names: Mapping[int, str]
    terms: int
    """So many are listed, at most."""
    k: int
    """Of the walk."""
    target: float
    s_curve: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Both:
    """The two rows, and where the item's lies."""

    query: Rows
    item: Rows
    address: int
    room: int
    run: int


def explained(parts: Any, at: tuple[Reader, View], query: Rows, stored: Stored, masks: Masks, how: How) -> dict[str, Any]:
    """The fields of an `Explanation`, but for the id. parts: a collection; masks: rows that a walk must not answer.

    Raises:
        CorruptData: the row is damaged.
    """
    view, space = at[1], parts._space
    run, address, room = view.find(stored.row)
    item = read_records(np.array([address], np.uint64), np.array([room], np.int64), parts._wide)
    both = _Both(query, item, address, room, run)
    score = _score(parts._searcher, space, both)
    printed = float(space.printed(score))
    return {
        "score": printed, "kernel": space.name, "formula": space.formula, "ascending": space.ascending,
        "factors": _factors(parts, both, score, how), "bands": _bands(parts, view, both, how),
        "no_bound": None if space.hashes else no_bands(space), "walk": _walk(parts, at, (both.query, stored), masks, how),
    }  # fmt: skip


def _score(searcher: Any, space: Space, both: _Both, *, record: Any = None) -> float:
    """The score of the pair by the engine's own code. record: of another space for the same rows."""
    desk = searcher.borrow(both.query)
    out = np.empty(1)
    places = np.array([both.address], np.uint64), np.array([both.room], np.int64)
    asked = queries_record(both.query)
    if score_rows(space.record if record is None else record, asked, *places, np.array([[0, 1, 0]]), desk.scratch.record, out):
        space.raise_failure()
        raise CorruptData("a stored row is damaged; it was not explained")
    searcher.give_back(desk)
    return float(out[0])


def _factors(parts: Any, both: _Both, score: float, how: How) -> tuple[Factor, ...]:
    space: Space = parts._space
    if space.objects is not None:
        return (_aligned(space, parts._kind, parts._form, both, score, how),)
    if space.pyramid is not None:
        return (_nested(space, both, score),)
    pair = Pair.of(both.query, both.item)
    if not space.factors:
        return (factor_of(space, pair, score, how.names, how.terms),)
    # Of a product the min-max similarity is computed in another way than alone.
    scores = [None if one.code is None else _score(parts._searcher, one, both) for one in space.factors]
    return tuple(factor_of(one, pair, own, how.names, how.terms) for one, own in zip(space.factors, scores, strict=True))


def _nested(space: Space, both: _Both, score: float) -> Factor:
    assert space.pyramid is not None
    nodes = nodes_of(space.pyramid, space.parameters, both.query, both.item)
    root = nodes[-1]
    terms = [Term((1.0 - root.share) * root.kernel, name="the whole image")]
    if root.share:
        terms.append(Term(root.share * root.parts, name="its parts"))
    off = score - root.value
    constants = (("equal but for rounding", off),) if abs(off) > _NOISE else ()
    cells = tuple(Cell(node.level, node.y, node.x, node.apart, node.kernel, node.value, node.share) for node in nodes)
    terms.sort(key=lambda term: -term.part)
    return Factor(
        space.name, space.formula, dict(space.parameters), score, score, None, tuple(terms), Rest(), constants, cells,
    )  # fmt: skip


def _aligned(space: Space, kind: Kind, form: Form, both: _Both, score: float, how: How) -> Factor:
    """Of objects: what stands against what."""
    distance = float(space.printed(score))
    if space.aligned is None:
        found = Alignment([], (("what the function returned", distance),))
    else:
        shape: tuple[int, ...] = (-1,) if form.dim is None else (-1, form.dim)
        found = space.aligned(both.query.values.reshape(shape), both.item.values.reshape(shape), distance)
    elements = kind.item(both.query, 0, form), kind.item(both.item, 0, form)
    pairs = sorted(found.pairs, key=lambda pair: (-abs(pair.part), -(pair.apart or 0.0)))
    rest = Rest(len(pairs[how.terms :]), sum(pair.part for pair in pairs[how.terms :]))
    terms = tuple(_term(pair, elements) for pair in pairs[: how.terms])
    return Factor(space.name, space.formula, dict(space.parameters), distance, found.total, found.outer, terms, rest, found.constants)


def _term(pair: Aligned, elements: tuple[Any, Any]) -> Term:
    values = [None if at is None else _element(of, at) for of, at in zip(elements, (pair.query, pair.item), strict=True)]
    return Term(
        pair.part, query=values[0], item=values[1], what=pair.what, query_at=pair.query, item_at=pair.item, apart=pair.apart,
    )  # fmt: skip


def _element(of: Any, at: int) -> Any:
    one = of[at]
    return one.tolist() if isinstance(one, np.ndarray | np.generic) else one


def _bands(parts: Any, view: View, both: _Both, how: How) -> SharedBands | None:
    space: Space = parts._space
    if not space.hashes:
        return None
    layout = layout_of(view, both.run)
    collision = _score(parts._searcher, space, both, record=space.law)
    curve = curve_of(space, layout) if how.s_curve else None
    fresh = both.run == len(view.runs)
    return shared_bands(space, parts._searcher.sampler, (both.query, both.item), layout, collision, curve, fresh=fresh)


def _walk(parts: Any, at: tuple[Reader, View], pair: tuple[Rows, Stored], masks: Masks, how: How) -> Walked | None:
    """The item's place in the answer of a walk, from which the stored item that is asked about is left out as a query by it does."""
    query, stored = pair
    view, space = at[1], parts._space
    plan = plan_query(view, space, how.target)
    own = None if stored.asked == stored.key else stored.asked
    k = max(1, min(how.k, view.live_rows))
    wanted = Wanted(max(1, min(k + (own is not None), view.live_rows)), 0.0, how.target, "links", False, 1.0, None)
    if parts._pools is not None:
        found = parts._pools.search_one(at, plan, query, wanted, masks)
    elif plan.links is None:
        return None
    else:
        found = parts._searcher.search_one(at, plan, query, wanted, masks)
    if found is None or found.path not in (LINKS, POOL):
        return None
    rows = stored.reader.owners(_numbers(view, found.runs, found.rows))
    # Equal items share a row, and an answer names all of them.
    ids = [one for owners in rows for one in owners if one != own][:k]
    rank = ids.index(stored.key) + 1 if stored.key in ids else None
    width = None if plan.links is None else plan.links.width(wanted.k, 1.0, forced=True)
    return Walked(rank, k, None if width is None or parts._pools is not None else width.pool)


def _numbers(view: View, runs: list[int], rows: Any) -> list[int]:
    """The numbers of rows that were found."""
    sources = [*(run.row_numbers for run in view.runs), view.fresh.row_numbers]
    return [int(sources[run][local]) for run, local in zip(runs, rows.tolist(), strict=True)]
