"""Tuning of collections with several fields: the bands of one field, and measured recall of combined scores."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from kinbin.collection import Collection
from kinbin.fields.combining import Combination, combination_of
from kinbin.fields.depths import Depths
from kinbin.fields.moment import Moment
from kinbin.options import QueryOptions, check_cancel, deeper
from kinbin.parameters import MODES, at_most, is_number, one_of, whole
from kinbin.records import Answer, FieldsConfig
from kinbin.rows.rows import Rows
from kinbin.rows.topk import ALIKE
from kinbin.spaces.space import Space
from kinbin.tuning.tuned import checked_modes, checked_seed, refuse_lacking

if TYPE_CHECKING:
    from kinbin.tuning.records import Rebuilt, RecallReport, Tuning

__all__ = ["TunedFields"]


@dataclass(frozen=True, slots=True)
class _Queries:
    """m queries: of each field that is asked for as many rows."""

    rows: dict[str, Rows]

    def __len__(self) -> int:
        return len(next(iter(self.rows.values())))

    def slice(self, start: int, stop: int) -> Self:
        """Some of them."""
        return replace(self, rows={name: rows.slice(start, stop) for name, rows in self.rows.items()})


class TunedFields:
    """The part of a `FieldsCollection` that predicts, measures and changes how the rows of its fields lie in bands."""

    config: FieldsConfig
    _fields: dict[str, Collection]
    _spaces: dict[str, Space]
    _depths: Depths

    def _reading(self) -> AbstractContextManager[Moment]:
        """A moment of all stores."""
        raise NotImplementedError

    def _asked_rows(self, combination: Combination, vectors: Mapping[str, Any]) -> dict[str, Rows]:
        """Vectors of queries as canonical rows, of every field as many."""
        raise NotImplementedError

    def _find(self, moment: Moment, combination: Combination, queries: Mapping[str, Rows], asked: QueryOptions, cancel: Any) -> Answer:
        """The answer to one query of a moment."""
        raise NotImplementedError

    def tune(
        self, k: int = 10, target_recall: float = 0.9, *, field: str, sample: int = 200, seed: int = 0,
        choices: Iterable[tuple[int, int]] | None = None, cancel: threading.Event | None = None,
    ) -> Tuning:  # fmt: skip
        """What bands of r hashes, and walks, would find and take in one field, asked alone: `field`. All else: see `Collection.tune`."""
        one_of("field", field, self._fields)
        return self._fields[field]._tuned((k, target_recall, sample, seed, choices), cancel, named=False)

    def rebuild(self, rows: int | None = None, bands: int | None = None, *, field: str) -> Rebuilt:
        """Lay all rows of one field, `field`, out anew: see `Collection.rebuild`. How deep fields are searched is measured anew."""
        one_of("field", field, self._fields)
        made = self._fields[field].rebuild(rows, bands)
        self._depths.forget()
        self.config = FieldsConfig({name: one.config for name, one in self._fields.items()})
        return made

    def recall(
        self, queries: Any = 100, k: int = 10, target_recall: float = 0.9, *, weights: Mapping[str, float] | None = None,
        combine: str = "sum", modes: Iterable[str] | None = None, seed: int = 0, cancel: threading.Event | None = None,
    ) -> RecallReport:  # fmt: skip
        """Measured recall of combined scores in every mode, held against scores of all items of the same moment.

        queries: how many stored items to draw, each left out of its own answers; or vectors by field, as `query_batch` takes them. Of
        drawn items all fields are compared, or those that `weights` names; weights, combine: see `query_batch`. All else: see
        `Collection.recall`.
        """
        from kinbin.tuning.measuring import Asked, measured
        from kinbin.tuning.records import RecallReport

        asked = QueryOptions(whole("k", k), target_recall)
        sampled = is_number(queries) or isinstance(queries, bool)
        count = whole("queries", queries) if sampled else 0
        named = dict.fromkeys(weights if isinstance(weights, Mapping) else self._spaces) if sampled else queries
        combination = combination_of(self._spaces, named, weights, combine)
        given = None if sampled else _Queries(self._asked_rows(combination, queries))
        at_most("tuned_rows", count if given is None else len(given), "queries")
        wanted, seed = checked_modes(modes), checked_seed(seed)
        check_cancel(cancel)
        with self._reading() as moment:
            there = self._modes(moment, combination)
            refuse_lacking(wanted, there)
            asking = given if given is not None else _drawn(moment, combination, count, seed)

            def answer(mode: str, one: _Queries, depth: int) -> Answer:
                return self._find(moment, combination, one.rows, deeper(replace(asked, mode=mode), depth), cancel)

            worst = float(combination.of(np.array([[self._printed(name)] for name in combination.names]))[0])
            found = measured(Asked(asked.k, sampled, worst), wanted or there, asking, answer) if len(asking) else []
        return RecallReport(len(asking), asked.k, float(target_recall), sampled, tuple(found))

    def _printed(self, name: str) -> float:
        """What is printed of two vectors of a field that have nothing in common."""
        return float(cast(Any, self._spaces[name].printed(ALIKE)))

    def _modes(self, moment: Moment, combination: Combination) -> list[str]:
        """The modes that every field has the means for that weighs something."""
        parts = [moment.parts[name] for name in combination.searched]
        there = {
            "auto": True, "bands": all(part.field._space.hashes for part in parts),
            "links": all(part.view.links is not None for part in parts), "exact": True,
        }  # fmt: skip
        return [mode for mode in MODES if there.get(mode)]


def _drawn(moment: Moment, combination: Combination, count: int, seed: int) -> _Queries:
    """So many of the stored items, or all."""
    numbers: NDArray[np.uint64] = moment.known.numbers()
    chosen = numbers[np.random.default_rng(seed).permutation(len(numbers))[:count]]
    return _Queries({name: moment.rows(name, chosen) for name in combination.names})
