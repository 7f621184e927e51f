"""What a collection says of its settings: predicted by a sample, measured, and chosen anew."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from kinbin.errors import InvalidInput
from kinbin.hashing import MAX_ROWS, Sampler
from kinbin.items.kind import Kind
from kinbin.options import QueryOptions, check_cancel, deeper
from kinbin.parameters import MODES, at_most, is_number, one_of, sequence_of, whole
from kinbin.query.search import Searcher
from kinbin.query.view import View
from kinbin.records import Answer, AnswerBatch, CollectionConfig
from kinbin.rows.rows import Rows
from kinbin.rows.topk import ALIKE
from kinbin.spaces.space import Space
from kinbin.storage.transactions import Reader
from kinbin.upkeep.sealing import Upkeep

# What few processes use is imported where it is used: every opening would wait for it.
if TYPE_CHECKING:
    from kinbin.tuning.records import Rebuilt, RecallReport, Tuning

__all__ = ["MOST_BANDS", "Tuned", "checked_modes", "checked_seed", "refuse_lacking"]

MOST_BANDS = 255
"""Of a run."""
_MOST_SEED = 2**64


class Tuned:
    """The part of a `Collection` that predicts, measures and changes how its rows lie in bands."""

    config: CollectionConfig
    _kind: Kind
    _space: Space
    _sampler: Sampler
    _searcher: Searcher
    _upkeep: Upkeep
    _wide: bool

    def _reading(self) -> AbstractContextManager[tuple[Reader, View]]:
        """A snapshot and the view of its state."""
        raise NotImplementedError

    def _rows(self, X: Any) -> Rows:
        """A batch of objects, vectors or others, as canonical rows."""
        raise NotImplementedError

    def _search(
        self, reader: Reader, view: View, queries: Rows, asked: QueryOptions, cancel: threading.Event | None, *, named: bool = True
    ) -> AnswerBatch:
        """A batch of queries of a snapshot."""
        raise NotImplementedError

    def _search_one(self, reader: Reader, view: View, query: Rows, asked: QueryOptions, cancel: threading.Event | None) -> Answer:
        """One query of a snapshot."""
        raise NotImplementedError

    def tune(
        self, k: int = 10, target_recall: float = 0.9, *, sample: int = 200, seed: int = 0,
        choices: Iterable[tuple[int, int]] | None = None, cancel: threading.Event | None = None,
    ) -> Tuning:  # fmt: skip
        """What bands of r hashes, and walks, would find and take in this collection as it is; nothing is changed.

        sample: stored rows that are drawn, each as a query without itself: its exact neighbours are looked for among all rows.
        target_recall: the one that queries ask for, and that the suggestion keeps in mode `bands`. choices: pairs of (rows, bands) to
        judge instead of all usual ones. seed: of the draw. cancel: once it is set, the work ends.

        Recall is that of these queries, to the digit: with their neighbours they are hashed as a rebuild would hash them, and the search
        is followed by numbers of shared bands. Times are of one thread, of queries that are asked in a batch, without reading
        what was sent; they follow from the table of costs (`kinbin calibrate`), and from what hashing and scoring rows, and making answers,
        takes here.

        Cost: `sample` exact queries; hashing of 80 rows for each, with the most bands and hashes that are judged (k > 10: of 8 k rows).
        For 200 of 50,000 rows of 512 dimensions some 2 s.

        Raises:
            InvalidInput: a parameter is malformed, or items are not hashed. SearchCancelled. CorruptData: a row is damaged.
        """
        return self._tuned((k, target_recall, sample, seed, choices), cancel, named=True)

    def _tuned(
        self, told: tuple[int, float, int, int, Iterable[tuple[int, int]] | None], cancel: threading.Event | None, *, named: bool
    ) -> Tuning:
        """See `tune`. told: k, target_recall, sample, seed and choices. named: whether rows have ids: those of a field have none here."""
        from kinbin.tuning.judging import checked_choices, tuned

        k, target_recall, sample, seed, choices = told
        self._refuse_unhashed("tune")
        asked = QueryOptions(whole("k", k), target_recall)
        at_most("tuned_k", asked.k, "k")
        at_most("tuned_rows", whole("sample", sample), "sample")
        judged = checked_choices(choices)
        check_cancel(cancel)
        with self._reading() as at:

            def ask(rows: Rows, options: QueryOptions) -> AnswerBatch:
                return self._search(*at, rows, options, cancel, named=named)

            return tuned(self._searcher, at, asked, (int(sample), checked_seed(seed)), judged, ask, cancel)

    def recall(
        self, queries: Any = 100, k: int = 10, target_recall: float = 0.9, *, modes: Iterable[str] | None = None, seed: int = 0,
        cancel: threading.Event | None = None,
    ) -> RecallReport:  # fmt: skip
        """Measured recall of every mode that the collection answers, held against an exact scan of the same snapshot.

        queries: how many stored rows to draw (all if there are fewer), each left out of its own answers in every mode alike; or the
        vectors or objects to ask about, as `query_batch` takes them. modes: those to measure, of those that the collection has the means
        for; None: all of them. seed: of the draw.

        Recall counts by score: of neighbours that are equally near any will do, and those that have nothing in common with a query are
        neither hit nor miss. Certificates are the means of `recall_lower_bound`; the draw of rows is no draw of queries to come.

        Cost: each query in each mode, one after the other, and an exact scan for each.

        Raises:
            InvalidInput: a parameter or a query is malformed. SearchCancelled: `cancel` was set.
        """
        from kinbin.tuning.measuring import Asked, measured
        from kinbin.tuning.records import RecallReport
        from kinbin.tuning.sampling import places_of, read_places

        asked = QueryOptions(whole("k", k), target_recall)
        sampled = is_number(queries) or isinstance(queries, bool)
        count = whole("queries", queries) if sampled else 0
        given = None if sampled else self._rows(queries)
        at_most("tuned_rows", count if given is None else len(given), "queries")
        wanted, seed = checked_modes(modes), checked_seed(seed)
        check_cancel(cancel)
        with self._reading() as (reader, view):
            there = self._modes(view)
            refuse_lacking(wanted, there)
            if given is None:
                every = places_of(view)
                given = read_places(every.take(np.random.default_rng(seed).permutation(len(every))[:count]), self._wide)

            def answer(mode: str, query: Rows, depth: int) -> Answer:
                options = deeper(replace(asked, mode=mode), depth)
                return self._search_one(reader, view, query, options, cancel)

            worst = float(self._space.printed(ALIKE)) * (-1.0 if self._space.ascending else 1.0)
            found = measured(Asked(asked.k, sampled, worst), wanted or there, given, answer)
        return RecallReport(len(given), asked.k, float(target_recall), sampled, tuple(found))

    def rebuild(self, rows: int | None = None, bands: int | None = None) -> Rebuilt:
        """Lay all rows out anew, in one run of so many bands of `rows` hashes; so lie rows that come later, too. None: chosen by Kinbin.

        Reads and writes go on meanwhile: queries are answered from the old runs until the new one is whole, and what is added then
        is sealed into runs of the new kind. It is waited for, and waits for whoever merges. A crash leaves the old runs and the new
        choice, which later merges follow. Links stay: they do not depend on bands.

        Cost: as `compact`: hashing every row, and 8 ns a row and band; disk for a second copy of the rows meanwhile.

        Raises:
            InvalidInput: a number is out of its range, or items are not hashed. Closed. StorageFull: the old runs stay.
        """
        from kinbin.tuning.records import Rebuilt

        self._refuse_unhashed("rebuild")
        r, width = _within("rows", rows, MAX_ROWS), _within("bands", bands, MOST_BANDS)
        began = perf_counter()
        self._upkeep.rebuild(r, width)
        self.config = replace(self.config, rows=r, bands=width)
        with self._reading() as (_, view):
            largest = max((run.header for run in view.runs), key=lambda header: header.rows, default=None)
            made_r, made_bands = (None, None) if largest is None else (largest.r, largest.bands)
            return Rebuilt(made_r, made_bands, view.live_rows, round(perf_counter() - began, 3))

    def _modes(self, view: View) -> list[str]:
        """The modes that this collection has the means for."""
        there = {"auto": True, "bands": self._space.hashes, "links": view.links is not None, "exact": True}
        return [mode for mode in MODES if there.get(mode)]

    def _refuse_unhashed(self, call: str) -> None:
        if not self._space.hashes:
            text = f"{call} is about bands, and {self._kind.name} under {self._space.name} have none: no hash tells how near two are"
            raise InvalidInput.of("bad_parameter", text, field="kernel")


def checked_modes(modes: Iterable[str] | None) -> list[str] | None:
    """Modes that are asked for; None: all that there are."""
    wanted = None if modes is None else list(sequence_of("modes", modes))
    for mode in wanted or ():
        one_of("modes", mode, MODES)
    return wanted


def refuse_lacking(wanted: list[str] | None, there: list[str]) -> None:
    """Refuse modes that a collection has no means for."""
    if lacking := [mode for mode in wanted or () if mode not in there]:
        text = f"modes: this collection has no {lacking[0]}: they would be answered another way; it has {', '.join(there)}"
        raise InvalidInput.of("bad_parameter", text, field="modes")


def checked_seed(seed: object) -> int:
    """The seed of a draw."""
    if not is_number(seed) or not hasattr(seed, "__index__") or not 0 <= seed < _MOST_SEED:  # type: ignore[operator]
        raise InvalidInput.of("bad_parameter", "seed is a whole number from 0 to 2**64-1", field="seed")
    return int(seed)


def _within(name: str, value: object, most: int) -> int | None:
    """A number of rows or bands; None stays None."""
    if value is None:
        return None
    if not is_number(value) or not hasattr(value, "__index__") or not 1 <= value <= most:  # type: ignore[operator]
        raise InvalidInput.of("bad_parameter", f"{name} is a whole number from 1 to {most}, or null", field=name)
    return int(value)
