"""Scores and bounds as kernels compute them, whatever the space.

The sums of the min-max family are inlined here. Every other space brings machine code of its own, which is called by its
address: 2 ns a call, and no kernel has to be compiled again for it.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kinbin.native.calls import call_bound, call_curve, call_score
from kinbin.native.jit import inline
from kinbin.native.memory import u32_at
from kinbin.native.records import Layout
from kinbin.rows.lookup import Lookup, clear_lookup, fill_lookup, lookup_of
from kinbin.rows.record import HEADER, record_bytes
from kinbin.spaces.shared import farthest_shapes, most_similar, shared_similarity

__all__ = [
    "SLACK",
    "SPACE",
    "Query",
    "Reach",
    "Rules",
    "best_score",
    "clear_query",
    "fill_query",
    "lay_out",
    "least_similarity",
    "look_for",
    "query_of",
    "reach_of",
    "rules_of",
    "score_row",
    "sketched_reach",
    "too_far",
]

U64 = np.uint64
SLACK = 1e-6
"""More than float32 products take from a score; a share of it where it may be larger than 1."""

SPACE = Layout(
    "SPACE",
    shapes=("count", "whether rows are compared by their shapes only, each divided by its sum"),
    floor=("number", "the least score there is: what is less, or no number, is damage"),
    score=("address", "f64 (row, nnz, look-up): the score of a stored row; 0: the min-max similarity"),
    best=("address", "f64 (context, distance, norm, norm): the most of rows whose shapes are so far apart; with `score`"),
    farthest=("address", "f64 (context, score): the distance beyond which shapes cannot score so much; with `score`"),
    least=("address", "f64 (context, score): the least collision probability of a pair of this score; with `score`"),
    context=("address", "what these functions are handed besides"),
    prepare=("address", "f64 (query's values, how many, look-up): lays an object out; 0: the query's features are looked up"),
    sketch=("address", "f64 (values, how many, frame, 64 bytes): makes the sketch of an object; 0: there are none"),
    sketch_reach=("address", "f64 (frame, score): the most that sketches of a pair of this score are apart"),
    sketch_greatest=("count", "whether by the greatest difference of a byte; 0: by the sum of all of them"),
    size_reach=("address", "f64 (frame, score): the most that the numbers of a pair of this score differ by; 0: any number"),
)


class Rules(NamedTuple):
    """A space as compiled code sees it: the fields of `SPACE`."""

    shapes: Any
    floor: Any
    score: Any
    best: Any
    farthest: Any
    least: Any
    context: Any
    prepare: Any
    sketch: Any
    sketch_reach: Any
    sketch_greatest: Any
    size_reach: Any


class Query(NamedTuple):
    """A query that is laid out: what rows are scored against."""

    space: Any
    lookup: Lookup
    record: Any
    """Address of the look-up's record."""
    norm: Any
    """Its sum, or 1 where shapes are compared."""


class Reach(NamedTuple):
    """What an answer must have by now: its score, and the distance of codes beyond which no row has it, of any norm (infinite: none)."""

    score: Any
    distance: Any


@inline
def rules_of(space):
    """What a record says of a space."""
    return Rules(
        space.shapes != 0,
        space.floor,
        space.score,
        space.best,
        space.farthest,
        space.least,
        space.context,
        space.prepare,
        space.sketch,
        space.sketch_reach,
        space.sketch_greatest != 0,
        space.size_reach,
    )


@inline
def query_of(space, scratch, lookup, norm):
    """A query that is to be laid out in the (clear) look-up of a record."""
    return Query(space, lookup, U64(scratch.ctypes.data), 1.0 if space.shapes else norm)


@inline
def lay_out(query, scratch, features, values, norm):
    """Lay a query out; undo it with `clear_query`.

    The min-max family looks up values that are scaled already, as float32. A score of another space is computed in float64 from
    the values as they are: what is printed of it may amplify its last digits (an arc cosine near 1 does). Of objects a space makes
    what it wants, in room that it asked for.
    """
    if query.space.prepare != U64(0):
        scratch[0].norm, scratch[0].context, scratch[0].cutoff = norm, query.space.context, 0.0
        call_score(query.space.prepare, U64(values.ctypes.data), len(values), query.record)
        return
    scale = np.float32(1.0)
    if query.space.score == U64(0):
        scratch[0].norm = query.norm
        if query.space.shapes:
            scale = np.float32(1.0 / norm)
    else:
        squares = 0.0
        for x in range(len(values)):
            squares += np.float64(values[x]) * np.float64(values[x])
        scratch[0].norm, scratch[0].squares, scratch[0].context = norm, squares, query.space.context
    fill_lookup(query.lookup, features, values, scale)


@inline
def fill_query(space, scratch, features, values, norm):
    """A query that is laid out; undo it with `clear_query`."""
    query = query_of(space, scratch, lookup_of(scratch[0]), norm)
    lay_out(query, scratch, features, values, norm)
    return query


@inline
def clear_query(query, features):
    """Leave the look-up of a query clear."""
    if query.space.prepare == U64(0):
        clear_lookup(query.lookup, features)


@inline
def look_for(scratch, score):
    """Tell the space of a query which score is looked for: rows that score less need not be scored to the end."""
    scratch[0].cutoff = score


@inline
def sketched_reach(space, frame, score):
    """(how far apart sketches of a pair may be that scores so much, how much their sizes may differ); where any score will do, any."""
    if score <= 0.0:
        return np.inf, np.inf
    differ = np.inf if space.size_reach == U64(0) else call_curve(space.size_reach, frame, score)
    return call_curve(space.sketch_reach, frame, score), differ


@inline
def score_row(query, address, room):
    """(score, whether it is sound) of the record at an address, which has so many bytes of room."""
    if room < HEADER:
        return 0.0, False
    nnz = np.int64(u32_at(address + U64(8)))
    if record_bytes(nnz, query.lookup.wide) > room:
        return 0.0, False
    if query.space.score == U64(0):
        score = shared_similarity(address, nnz, query.space.shapes, query.norm, query.lookup)
    else:
        score = call_score(query.space.score, address, nnz, query.record)
    # Comparisons with NaN are false.
    return score, score >= query.space.floor


@inline
def best_score(space, distance, norm, other_norm):
    """The most that rows of these norms can score whose shapes are `distance` apart in L1."""
    if space.score == U64(0):
        return most_similar(distance, 1.0 if space.shapes else norm, 1.0 if space.shapes else other_norm)
    return call_bound(space.best, space.context, distance, norm, other_norm)


@inline
def least_similarity(space, score):
    """The least collision probability of a pair of this score: of the min-max family, its similarity."""
    return score if space.score == U64(0) else call_curve(space.least, space.context, score)


@inline
def reach_of(space, score, error):
    """What an answer must reach that scores at least so much. error: of the query's code."""
    reached = max(score, space.floor)
    if space.score == U64(0):
        reached -= SLACK
        similarity = max(reached, 0.0)
        # Of all norms those whose ratio is that of the shared part can be most similar: just as much as is shared.
        return Reach(reached, (farthest_shapes(similarity) if space.shapes else 2.0 * (1.0 - similarity)) + error)
    # Other scores may have any range: the slack is a share of them.
    reached *= 1.0 - SLACK
    if not space.shapes:
        return Reach(reached, np.inf)
    return Reach(reached, call_curve(space.farthest, space.context, reached) + error)


@inline
def too_far(space, distance, error, norm, other_norm, reach):
    """Whether rows cannot score what is to be reached. distance: that of their codes, less the other's error; error: of the query's."""
    if space.shapes:
        return distance > reach.distance
    return best_score(space, max(0.0, distance - error), norm, other_norm) < reach.score
