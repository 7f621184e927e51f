"""Duplicates of a collection: rows of one snapshot, and the ids of their items."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from kinbin.duplicates.found import Cluster, Pair
from kinbin.errors import CorruptData, InvalidInput
from kinbin.options import QueryOptions, check_cancel
from kinbin.parameters import is_number, one_of
from kinbin.query.answers import limit_of
from kinbin.query.filters import compile_filter
from kinbin.query.matching import Filters, Passing
from kinbin.query.view import View
from kinbin.rows.asked import queries_record
from kinbin.rows.scratch import Scratch
from kinbin.segments.descriptors import CORRUPT
from kinbin.segments.scores import score_rows
from kinbin.segments.source import CHUNK, Recipe, Source, read_records
from kinbin.spaces.space import Space
from kinbin.storage.dead import DeadRows
from kinbin.storage.store import Store
from kinbin.storage.transactions import Reader

# What few processes use is imported where it is used: every opening would wait for it.
if TYPE_CHECKING:
    from kinbin.duplicates.search import Join, Pairs, Progress

__all__ = ["FORMS", "Duplicated", "Duplicates", "Opened", "Seen", "checked"]

FORMS = ("pairs", "clusters")
_LEAST_MISS = 1e-9


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for, checked."""

    limit: float
    """The least score, or the greatest distance, as it is printed."""
    form: str
    miss: float
    cancel: threading.Event | None
    progress: Progress | None


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """What is looked through."""

    reader: Reader
    """Of the ids of rows."""
    view: View
    masks: Sequence[DeadRows] | None
    """Hide the rows of `view` that do not count; None: those that live count."""
    passing: Passing | None
    """The ids that count of rows of several items; None: all."""


Seeing = Callable[[], AbstractContextManager[Seen]]


class Duplicated:
    """The part of a `Collection` that finds items that are near each other."""

    _filters: Filters
    _recipe: Recipe
    _store: Store
    _duplicates: Opened

    def _reading(self) -> AbstractContextManager[tuple[Reader, View]]:
        """A snapshot and the view of its state."""
        raise NotImplementedError

    def duplicates(
        self, min_score: float | None = None, as_: str = "pairs", *, max_distance: float | None = None, miss: float = 0.01,
        filter: Any = None, cancel: threading.Event | None = None, progress: Progress | None = None,
    ) -> Duplicates:  # fmt: skip
        """All pairs of items that score at least `min_score` (or are `max_distance` apart at most), or the clusters they make.

        min_score, max_distance: one of them, as the kernel prints. as_: "pairs" (`Pair`), as they are found, or "clusters" (`Cluster`),
        at the end, by their first row: single linkage, so any two members are joined by a chain of near pairs. miss: the most that the
        probability may be, of each pair, to be overlooked; it is taken over the collection's secret seed. 0: all pairs are compared.
        Scores are exact, and no pair that is told is farther. Items of the same vector count as one: pairs name the first of their
        ids, and pair it with each of the others. filter: only items that it lets through. cancel: once it is set, SearchCancelled is
        raised. progress(stage, rows done, rows).

        The answer is an iterator over one snapshot, which begins when the first is asked for; `close` it, or use it in a with
        statement, if it is not read to its end: while it is open the files cannot use freed pages again. Closing the database ends it.
        For one thread at a time.

        Raises:
            InvalidInput: a parameter is malformed; while it is read, field "min_score": nothing promises so small a miss at this score.
            CorruptData: a stored row is damaged.

        Cost: as many hashes as the miss needs, 0.25 ns a nonzero and hash, and scoring the pairs that share a band, 0.1 µs each. Memory:
        some 30 bytes an item, and 400 MB at most; more lies in a file in the collection's folder.
        """
        wanted = checked(self._recipe.space, (min_score, max_distance), as_, miss, filter, cancel, progress)
        return self._duplicates.of(partial(self._seen, filter), self._recipe, Path(self._store.path), wanted)

    @contextmanager
    def _seen(self, filter: Any) -> Iterator[Seen]:
        """The rows of a snapshot, and their ids."""
        with self._reading() as (reader, view):
            if filter is None:
                yield Seen(reader, view, None, None)
                return
            matching, passing = self._filters.matching(reader, view, filter)
            yield Seen(reader, view, matching.masks, passing)


def checked(
    space: Space, limits: tuple[float | None, float | None], form: str, miss: float, filter: Any, cancel: threading.Event | None,
    progress: Progress | None,
) -> Wanted:  # fmt: skip
    """What is asked for. limits: min_score and max_distance.

    Raises:
        InvalidInput: see `Collection.duplicates`. SearchCancelled.
    """
    one_of("as", form, FORMS)
    min_score, max_distance = limits
    if min_score is None and max_distance is None:
        name = "max_distance" if space.ascending else "min_score"
        raise InvalidInput.of("bad_parameter", f"how near duplicates are has to be said: give {name}", field=name)
    if not is_number(miss) or not (miss == 0 or _LEAST_MISS <= miss < 1):
        raise InvalidInput.of("bad_parameter", f"miss is 0, or a probability from {_LEAST_MISS:g} to below 1", field="miss")
    check_cancel(cancel)
    limit = limit_of(space, QueryOptions(min_score=min_score, max_distance=max_distance))
    assert limit is not None
    if filter is not None:
        compile_filter(filter)
    return Wanted(limit, form, float(miss), cancel, progress)


class Opened:
    """The answers of a collection that may not be read to their end: each holds a snapshot."""

    def __init__(self) -> None:
        self._open = WeakSet[Duplicates]()

    def of(self, seeing: Seeing, recipe: Recipe, folder: Path, wanted: Wanted) -> Duplicates:
        """A new one."""
        found = Duplicates(seeing, recipe, folder, wanted)
        self._open.add(found)
        return found

    def close(self) -> None:
        """End them."""
        for one in list(self._open):
            # One that another thread reads just now goes on, and lets go by itself.
            with suppress(ValueError):
                one.close()


class Duplicates(Iterator[Any]):
    """An answer that is found while it is read. See `Collection.duplicates`."""

    def __init__(self, seeing: Seeing, recipe: Recipe, folder: Path, wanted: Wanted) -> None:
        self.rows = 0
        """Different vectors that were looked at."""
        self.miss_probability: float | None = None
        """The most that it is for any pair; None before the first is asked for."""
        self.complete = False
        """Whether all was told."""
        self._seeing, self._recipe, self._folder, self._wanted = seeing, recipe, folder, wanted
        self._join: Join | None = None
        self._running = self._run()

    @property
    def compared(self) -> int:
        """Pairs that were scored, so far."""
        return 0 if self._join is None else self._join.compared

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return next(self._running)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the snapshot."""
        self._running.close()

    def _run(self) -> Generator[Any, None, None]:
        from kinbin.duplicates.planning import choose_plan
        from kinbin.duplicates.search import Join

        wanted, space, wide = self._wanted, self._recipe.space, self._recipe.wide
        least = _least_score(space, wanted.limit)
        with self._seeing() as seen:
            source = _living(seen.view, seen.masks)
            plan = choose_plan(source, space, wide, least, wanted.miss)
            self.rows, self.miss_probability = len(source), plan.miss
            self._join = join = Join(source, space, wide, plan, least, cancel=wanted.cancel, progress=wanted.progress)
            names = _Names(seen.reader, source, seen.passing)
            with join.hashed(self._recipe.sampler.codes, self._folder) as keys:
                yield from self._pairs(join, keys, names) if wanted.form == "pairs" else self._clusters(join, keys, names)
        self.complete = True

    def _printed(self, pairs: Pairs) -> Pairs:
        """Pairs with what is printed of their scores."""
        a, b, scores = pairs
        return a, b, np.asarray(self._recipe.space.printed(scores), np.float64)

    def _pairs(self, join: Join, keys: NDArray[np.uint32], names: _Names) -> Iterator[Pair]:
        for places in names.shared():
            for place, score in zip(places, self._own_scores(names.source, places).tolist(), strict=True):
                first, *others = names.of(int(place))
                yield from (Pair(first.decode(), other.decode(), score) for other in others)
        for found in join.pairs(keys):
            a, b, scores = self._printed(found)
            for one, other, score in zip(a.tolist(), b.tolist(), scores.tolist(), strict=True):
                ids = sorted((names.of(one)[0], names.of(other)[0]))
                yield Pair(ids[0].decode(), ids[1].decode(), score)

    def _clusters(self, join: Join, keys: NDArray[np.uint32], names: _Names) -> Iterator[Cluster]:
        n = len(names.source)
        parents = np.arange(n, dtype=np.uint32)
        joined = [(a, scores) for a, _, scores in map(self._printed, join.clusters(keys, parents))]
        joined += [(places, self._own_scores(names.source, places)) for places in names.shared()]
        if not joined:
            return
        roots = _roots(parents)
        # Clusters by their first row, and of each the members in order.
        rows, scores = roots[np.concatenate([a for a, _ in joined])], np.concatenate([s for _, s in joined])
        farther = np.maximum if self._recipe.space.ascending else np.minimum
        least = np.full(n, -np.inf if self._recipe.space.ascending else np.inf)
        farther.at(least, rows, scores)
        told = np.zeros(n, np.bool_)
        told[rows] = True
        members = np.flatnonzero(told[roots])
        members = members[np.argsort(roots[members], kind="stable")]
        for group in np.split(members, np.flatnonzero(np.diff(roots[members])) + 1):
            ids = sorted(key for place in group.tolist() for key in names.of(place))
            yield Cluster(ids[0].decode(), tuple(key.decode() for key in ids), float(least[roots[group[0]]]))

    def _own_scores(self, source: Source, places: NDArray[np.int64]) -> NDArray[np.float64]:
        """What rows score with themselves, as it is printed."""
        space, wide = self._recipe.space, self._recipe.wide
        addresses, rooms = source.addresses[places], source.rooms[places]
        rows = read_records(addresses, rooms, wide)
        scratch = Scratch(wide, rows.most_nonzeros)
        if space.objects is not None:
            scratch.work(space.objects.room(rows))
        each = np.arange(len(places), dtype=np.int64)
        scores = np.empty(len(places))
        spans = np.ascontiguousarray(np.stack([each, each + 1, each], axis=1))
        if score_rows(space.record, queries_record(rows), addresses, rooms, spans, scratch.record, scores) == CORRUPT:
            space.raise_failure()
            raise CorruptData("a stored row is damaged")
        return np.asarray(space.printed(scores), np.float64)


class _Names:
    """The ids of the rows of a source."""

    def __init__(self, reader: Reader, source: Source, passing: Passing | None) -> None:
        self.source = source
        self._reader = reader
        self._passing = passing
        self._known: dict[int, list[bytes]] = {}

    def of(self, place: int) -> list[bytes]:
        """The ids of one row, ascending, that the filter lets through."""
        known = self._known.get(place)
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            (ids,) = self._reader.owners([int(self.source.row_numbers[place])])
            known = self._known[place] = sorted(self._let_through(ids))
            if not known:
                raise CorruptData("a row has no id")
        return known

    def shared(self) -> Iterator[NDArray[np.int64]]:
        """The places of the rows of two items or more that the filter lets through, some at a time."""
        found: list[int] = []
        for row, ids in self._reader.scan_owners():
            if len(ids) < 2 or len(self._let_through(ids)) < 2:
                continue
            found.append(row)
            if len(found) == CHUNK:
                yield self._places(found)
                found = []
        if found:
            yield self._places(found)

    def _let_through(self, ids: list[bytes]) -> list[bytes]:
        return ids if self._passing is None else [key for key in ids if key in self._passing]

    def _places(self, rows: list[int]) -> NDArray[np.int64]:
        return np.searchsorted(self.source.row_numbers, np.array(rows, np.uint64)).astype(np.int64)


_REMEMBERED = 100_000
_ROUNDED = 64
_MOST_SCORE = 1e300


def _least_score(space: Space, limit: float) -> float:
    """The least score of which as much is printed as the limit: turning a printed number into a score rounds.

    Near 0 that may be far off: scores are as many steps of floats apart as half of them have. So steps double until one is past it, then
    halve. Where printing rounds, neighbours of the place that is found may print as much: the least of `_ROUNDED` counts.
    """
    first = _bits(max(0.0, space.score_of(limit) * (1.0 - 1e-14)))

    def short(bits: int) -> bool:
        return bool(space.falls_short(float(space.printed(_float(bits))), limit))

    low, step = first, 1
    while short(low + step):
        low, step = low + step, 2 * step
        if low + step > _bits(_MOST_SCORE):
            return math.inf
    high = low + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if short(middle) else (low, middle)
    return _float(next(bits for bits in range(max(first, high - _ROUNDED), high + 1) if not short(bits)))


def _bits(score: float) -> int:
    """The place of a float of 0 or more among all of them."""
    return int(np.float64(score).view(np.int64))


def _float(bits: int) -> float:
    return float(np.int64(bits).view(np.float64))


def _living(view: View, masks: Sequence[DeadRows] | None) -> Source:
    """The rows that may be answered, by ascending row number."""
    fresh = view.fresh
    masks = masks if masks is not None else [*(run.dead for run in view.runs), fresh.dead]
    numbers, addresses, rooms = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
    for run, mask in zip(view.runs, masks[:-1], strict=True):
        alive = mask.living()
        places, room = run.places(alive)
        numbers.append(run.row_numbers[alive])
        addresses.append(places)
        rooms.append(room)
    alive = masks[-1].living()
    numbers.append(fresh.row_numbers[alive])
    addresses.append(fresh.addresses[alive])
    rooms.append(fresh.rooms[alive].astype(np.int64))
    return Source(np.concatenate(numbers), np.concatenate(addresses), np.concatenate(rooms))


def _roots(parents: NDArray[np.uint32]) -> NDArray[np.int64]:
    """The first row of each row's cluster."""
    roots = parents.astype(np.int64)
    while True:
        above = roots[roots]
        if np.array_equal(above, roots):
            return roots
        roots = above
