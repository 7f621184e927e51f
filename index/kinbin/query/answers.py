"""From rows found to answers: ids, printed scores, bounds or the reason why there is none."""

from __future__ import annotations

import math
import threading
from collections.abc import Container
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinbin.errors import CorruptData, InvalidInput
from kinbin.options import QueryOptions
from kinbin.query.found import BANDS, EXACT, LINKS, PATHS, POOL, Found, FoundOne
from kinbin.query.view import View
from kinbin.records import Answer, AnswerBatch
from kinbin.rows.topk import NOTHING
from kinbin.spaces.space import Space
from kinbin.storage.transactions import Reader

__all__ = ["WALKED", "Epoch", "Names", "answer_batch", "answer_one", "epoch_of", "limit_of", "row_numbers_of"]

_MOST_NAMES = 500_000
"""Rows whose ids are remembered in a process."""
_PLAIN = {str}
Epoch = tuple[int, int]
"""As long as it is the same, the ids of living rows are."""
_Name = str | tuple[str, ...]


class _Known(NamedTuple):
    """Names, and of when; one object, so that whoever takes it has both of one epoch."""

    epoch: Epoch
    runs: dict[int, NDArray[np.object_]]
    """By the run's number, of each row; None where it is not known."""
    fresh: dict[int, _Name]
    """By row number."""


def epoch_of(reader: Reader, view: View) -> Epoch:
    """The epoch of a snapshot of the view's state."""
    return reader.opening, view.state.renames


class Names:
    """The ids of rows, as strings, remembered: a look into the store costs 2 µs a row, and every answer names ten.

    They are forgotten when the state says that the ids of some living row have changed. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known = _Known((-1, -1), {}, {})
        self._count = 0

    def of_run(self, epoch: Epoch, run: int, rows: NDArray[np.int64]) -> list[str] | None:
        """The ids of rows of the run of this number, if all are remembered and each row is of one item. Cost: 1 µs for ten."""
        known = self._known
        names = known.runs.get(run) if known.epoch == epoch else None
        if names is None:
            return None
        ids: list[str] = names[rows].tolist()
        return ids if set(map(type, ids)) == _PLAIN else None

    def of(self, reader: Reader, view: View, found: Found) -> NDArray[np.object_]:
        """(m, k) the id of each row found; a tuple for a row of several items, None where there is no row."""
        answers = found.answers
        out = np.full(answers.rows.shape, None, object)
        with self._lock:
            # The arrays of this epoch: another thread may begin a new one meanwhile.
            _, runs, fresh = self._keep_up(reader, view)
        for i in range(len(view.runs) + 1):
            here = answers.runs == i
            if not here.any():
                continue
            if i == len(view.runs):
                out[here] = self._fresh_names(reader, view, answers.rows[here], fresh)
            else:
                names = runs.get(view.runs[i].number)
                if names is None:
                    names = runs.setdefault(view.runs[i].number, np.full(view.runs[i].rows, None, object))
                out[here] = self._run_names(reader, view.runs[i].row_numbers, answers.rows[here], names)
        return out

    def of_one(self, reader: Reader, view: View, found: FoundOne) -> list[_Name | None]:
        """(k) the ids of the rows of a single answer: what `of` gives, without arrays, which cost more than ten rows."""
        with self._lock:
            _, runs, fresh = self._keep_up(reader, view)
        last, names = -1, None
        if found.runs and found.runs.count(found.runs[0]) == len(found.runs):
            # All of one run, as most answers are.
            last = found.runs[0]
            names = self._table(view, runs, last)
            if names is not None:
                known: list[_Name | None] = names[found.rows].tolist()
                if None not in known:
                    return known
        out: list[_Name | None] = []
        missing: list[tuple[int, int, NDArray[np.object_] | None, int]] = []
        for run, row in zip(found.runs, found.rows.tolist(), strict=True):
            if run != last:
                last, names = run, self._table(view, runs, run)
            name: _Name | None = None if names is None else names[row]
            if name is None and run >= 0:
                number = int((view.fresh if run == len(view.runs) else view.runs[run]).row_numbers[row])
                if names is None:
                    name = fresh.get(number)
                if name is None:
                    missing.append((len(out), number, names, row))
            out.append(name)
        # Together, in one call.
        for (place, number, names, row), ids in zip(missing, reader.owners([one[1] for one in missing]), strict=True):
            name = out[place] = _decoded(ids)
            if names is None:
                fresh[number] = name
            else:
                names[row] = name
        self._count += len(missing)
        return out

    @staticmethod
    def _table(view: View, runs: dict[int, NDArray[np.object_]], run: int) -> NDArray[np.object_] | None:
        """The names of a run's rows that are known; None of fresh rows, and where there is no run."""
        if run < 0 or run == len(view.runs):
            return None
        here = view.runs[run]
        names = runs.get(here.number)
        return runs.setdefault(here.number, np.full(here.rows, None, object)) if names is None else names

    def _keep_up(self, reader: Reader, view: View) -> _Known:
        """Forget everything if ids may have changed, or if it is too much; and the runs that are no more. Returns what is known."""
        known, epoch = self._known, epoch_of(reader, view)
        if epoch != known.epoch or self._count > _MOST_NAMES:
            known, self._count = _Known(epoch, {}, {}), 0
        if len(known.runs) > len(view.runs):
            listed = {run.number for run in view.runs}
            known = known._replace(runs={number: names for number, names in known.runs.items() if number in listed})
        self._known = known
        return known

    def _run_names(
        self, reader: Reader, row_numbers: NDArray[np.uint64], local: NDArray[np.int64], names: NDArray[np.object_]
    ) -> NDArray[np.object_]:
        got = names[local]
        missing = np.unique(local[got == None])  # noqa: E711 - element by element
        if len(missing):
            owners = reader.owners(row_numbers[missing].tolist())
            for place, ids in zip(missing.tolist(), owners, strict=True):
                names[place] = _decoded(ids)
            self._count += len(missing)
            got = names[local]
        return got

    def _fresh_names(self, reader: Reader, view: View, local: NDArray[np.int64], names: dict[int, _Name]) -> NDArray[np.object_]:
        rows: list[int] = view.fresh.row_numbers[local].tolist()
        missing = list({row for row in rows if row not in names})
        for row, ids in zip(missing, reader.owners(missing), strict=True):
            names[row] = _decoded(ids)
        self._count += len(missing)
        out = np.empty(len(rows), object)
        out[:] = [names[row] for row in rows]
        return out


def row_numbers_of(view: View, found: FoundOne) -> NDArray[np.uint64]:
    """The numbers of the rows of a single answer. Cost: 2 µs where all are of one run."""
    runs, rows = found.runs, found.rows
    if runs and runs.count(runs[0]) == len(runs):
        return _numbers(view, runs[0])[rows]
    each = [_numbers(view, run)[row] for run, row in zip(runs, rows.tolist(), strict=True)]
    return np.array(each, np.uint64)


def _numbers(view: View, run: int) -> NDArray[np.uint64]:
    return (view.fresh if run == len(view.runs) else view.runs[run]).row_numbers


def _decoded(ids: list[bytes]) -> _Name:
    """The name of a row by its owners.

    Raises:
        CorruptData: it has none, and living rows have at least one.
    """
    if not ids:
        raise CorruptData("the owners of a living row are missing; it was not answered from")
    return ids[0].decode() if len(ids) == 1 else tuple(key.decode() for key in ids)


def limit_of(space: Space, asked: QueryOptions, *, less: bool = False) -> float | None:
    """The least score, or the greatest distance, that is wanted, as it is printed; None: any is.

    less: whether it is of a mean less another one.

    Raises:
        InvalidInput: code "bad_parameter": it is the other one, or nothing that this kernel prints.
    """
    if asked.min_score is None and asked.max_distance is None:
        return None
    name, value = ("max_distance", asked.max_distance) if space.ascending else ("min_score", asked.min_score)
    other, wrong = ("min_score", asked.min_score) if space.ascending else ("max_distance", asked.max_distance)
    if wrong is not None:
        printed = "distances" if space.ascending else "scores"
        raise InvalidInput.of("bad_parameter", f"{space.name} prints {printed}: use {name}, not {other}", field=other)
    assert value is not None
    low, high = space.printed_range
    if less:
        low, high = low - high, high - low
    if not low <= value <= high:
        bounds = f"from {low:g} on" if high == math.inf else f"from {low:g} to {high:g}"
        raise InvalidInput.of("bad_parameter", f"{name} is a number {bounds} for {space.name}, not {value:g}", field=name)
    return float(value)


def answer_batch(
    found: Found, names: NDArray[np.object_], k: int, limit: float | None, allowed: Container[bytes] | None, space: Space
) -> AnswerBatch:
    """Arrays of ids, scores and certificates. names: as of `Names.of`. allowed: ids that a filter lets through (None: all)."""
    answers = found.answers
    scores = np.where(answers.scores > NOTHING, answers.scores, np.nan)
    if tuple in set(map(type, names.flat)):
        names, scores = _spread(names, scores, allowed)
    names, scores = _of_width(names, None, k), _of_width(scores, np.nan, k)
    scores = space.printed(scores)
    certificate = np.where(found.path == EXACT, 1.0, answers.certificates)
    certificate[found.truncated] = np.nan
    if limit is None:
        certificate[(found.path == BANDS) & (names[:, -1] == None)] = np.nan  # noqa: E711 - element by element
    else:
        below = space.falls_short(scores, limit)
        names[below], scores[below] = None, np.nan
        if space.ascending:
            scores = np.minimum(scores, limit)
    return AnswerBatch(
        names, scores, certificate, _reasons(found, certificate), _once(answers.verified, answers.candidates), answers.candidates,
        [["postings"] if cut else [] for cut in found.truncated.tolist()], [PATHS[path] for path in found.path.tolist()], found.steps,
        found.far, ascending=space.ascending,
    )  # fmt: skip


def _once(verified: NDArray[np.int64], candidates: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows that were scored. A scan scores those of the walk before it once more."""
    return np.minimum(verified, candidates)


def answer_one(
    found: FoundOne, named: tuple[list[_Name | None], NDArray[np.uint64]], k: int, limit: float | None, allowed: Container[bytes] | None,
    space: Space,
) -> Answer:  # fmt: skip
    """The one answer of a search for one query: what `answer_batch` gives, without arrays.

    named: the ids of the rows, as of `Names.of_one`, and their numbers.
    """
    names, rows = named
    ids: list[str] = []
    if limit is None and len(names) <= k and set(map(type, names)) == _PLAIN:
        ids = names  # type: ignore[assignment]
        scores = space.printed(found.scores)
    else:
        kept: list[float] = []
        numbers: list[int] = []
        for name, number, one_score in zip(names, rows.tolist(), found.scores.tolist(), strict=True):
            if name is None:
                continue
            score = space.printed(one_score)
            if limit is not None:
                if space.falls_short(score, limit):
                    continue
                score = min(score, limit) if space.ascending else score
            for one in name if isinstance(name, tuple) else (name,):
                if len(ids) < k and (allowed is None or isinstance(name, str) or one.encode() in allowed):
                    ids.append(one)
                    kept.append(score)
                    numbers.append(number)
        scores, rows = np.array(kept), np.array(numbers, np.uint64)
    cut, path = found.truncated, found.path
    bound = 1.0 if path == EXACT else found.certificate
    short = limit is None and path == BANDS and len(ids) < k
    no_bound = _reason(math.isnan(bound), cut, path, short)
    return Answer(
        ids, scores, None if no_bound else bound, no_bound, min(found.verified, found.candidates), found.candidates,
        ["postings"] if cut else [],
        PATHS[path], found.steps, found.far, ascending=space.ascending, row_numbers=rows,
    )  # fmt: skip


_CUT, _SHORT = "a cap was hit: see truncated", "fewer than k items were found"
WALKED = "links give no bound; certify asks the bands for one"
_CALIBRATED = "calibrated"


def _reason(missing: bool, cut: bool, path: int, short: bool) -> str | None:
    """Why an answer has no bound; None: it has one."""
    if cut:
        return _CUT
    if short:
        return _SHORT
    if missing:
        return WALKED if path == LINKS else _CALIBRATED if path == POOL else _SHORT
    return None


def _reasons(found: Found, certificate: NDArray[np.float64]) -> list[str | None]:
    """Why answers have no bound."""
    missing, walked = np.isnan(certificate), found.path == LINKS
    reasons = np.full(len(missing), None, object)
    reasons[missing & walked] = WALKED
    reasons[missing & ~walked] = _SHORT
    reasons[missing & (found.path == POOL)] = _CALIBRATED
    reasons[found.truncated] = _CUT
    told: list[str | None] = reasons.tolist()
    return told


def _spread(
    names: NDArray[np.object_], scores: NDArray[np.float64], allowed: Container[bytes] | None
) -> tuple[NDArray[np.object_], NDArray[np.float64]]:
    """One entry for each id of rows that several items share."""
    shared = [i for i, ids in enumerate(names.tolist()) if tuple in set(map(type, ids))]
    answers: list[list[tuple[str, float]]] = []
    for i in shared:
        answer: list[tuple[str, float]] = []
        for name, value in zip(names[i].tolist(), scores[i].tolist(), strict=True):
            if isinstance(name, tuple):
                answer += [(one, value) for one in name if allowed is None or one.encode() in allowed]
            elif name is not None:
                answer.append((name, value))
        answers.append(answer)
    width = max(names.shape[1], *map(len, answers))
    wide_names, wide_scores = _of_width(names, None, width).copy(), _of_width(scores, np.nan, width).copy()
    for i, answer in zip(shared, answers, strict=True):
        wide_names[i], wide_scores[i] = None, np.nan
        wide_names[i, : len(answer)] = [name for name, _ in answer]
        wide_scores[i, : len(answer)] = [value for _, value in answer]
    return wide_names, wide_scores


def _of_width(values: NDArray[Any], filler: object, k: int) -> NDArray[Any]:
    """(m, k) the first k columns, padded."""
    m, width = values.shape
    if width >= k:
        return values[:, :k]
    return np.concatenate([values, np.full((m, k - width), filler, values.dtype)], axis=1)
