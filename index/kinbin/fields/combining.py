"""How the exact scores of several fields become one, and what one score says of its parts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.errors import InvalidInput, suggestion
from kinbin.parameters import arrived, is_number, one_of
from kinbin.rows.topk import NOTHING
from kinbin.spaces.space import Space

__all__ = ["COMBINE", "Combination", "best_of", "combination_of"]

COMBINE = ("sum", "product")
"""How scores of fields are combined."""
_MOST_WEIGHT = 1e15


@dataclass(frozen=True, slots=True)
class Combination:
    """Σ w K over fields, or Π K."""

    names: tuple[str, ...]
    """The fields that are asked for, in the order of the collection."""
    weights: tuple[float, ...]
    """Of each; 1 in a product."""
    product: bool

    @property
    def searched(self) -> tuple[str, ...]:
        """The fields whose nearest rows are candidates: those that weigh something."""
        return tuple(name for name, weight in zip(self.names, self.weights, strict=True) if weight > 0.0)

    def of(self, parts: NDArray[np.float64]) -> NDArray[np.float64]:
        """(n,) the combined scores of parts (F, n). Element by element, in one order: an item scores the same on every path."""
        total: NDArray[np.float64] = parts[0] * self.weights[0]
        for part, weight in zip(parts[1:], self.weights[1:], strict=True):
            total = total * part if self.product else total + weight * part
        return total

    def share(self, score: float) -> float:
        """What one part at least reaches of an item whose combined score is `score` or more.

        The weighted mean of the parts of a sum is score / Σ w, the geometric mean of F factors the F-th root; not all parts are below it.
        It rises with the score. A hair less is returned, for sums round.
        """
        if not self.product:
            share = score / math.fsum(self.weights)
            return share - 1e-12 * max(1.0, abs(share))
        return float(max(score, 0.0) ** (1.0 / len(self.names))) * (1.0 - 1e-12)


def combination_of(spaces: Mapping[str, Space], asked: Mapping[str, Any], weights: Any, combine: str) -> Combination:
    """What a query asks for. spaces: of all fields; asked: by name what came for it.

    Raises:
        InvalidInput: code "bad_parameter": see the text.
    """
    one_of("combine", combine, COMBINE)
    check_names(spaces, asked, "vectors")
    names = tuple(name for name in spaces if name in asked)
    if combine == "product":
        if weights is not None:
            raise _bad("weights", "a product has no weights: leave them out, or combine by sum")
        for name in names:
            if spaces[name].printed_range[0] < 0.0:
                raise _bad(
                    "combine", f"field {name!r}: {spaces[name].name} scores below 0 as well, which no product orders; combine by sum"
                )
        return Combination(names, (1.0,) * len(names), True)
    if weights is None:
        return Combination(names, (1.0 / len(names),) * len(names), False)
    if not isinstance(weights, Mapping):
        raise _bad("weights", f"weights are a mapping of field to number, not {arrived(weights)}")
    if extra := [name for name in weights if name in spaces and name not in names]:
        raise _bad("weights", f"{extra[0]} has a weight, and no vector in this query: leave the weight out, or give the vector")
    check_names(dict.fromkeys(names), weights, "weights")
    if missing := [name for name in names if name not in weights]:
        raise _bad("weights", f"weights lack {', '.join(missing)}: give each field that has a vector a weight from 0 on")
    for name, weight in weights.items():
        if not is_number(weight) or not 0.0 <= weight <= _MOST_WEIGHT:
            raise _bad("weights", f"the weight of {name!r} is not a number from 0 to {_MOST_WEIGHT:g}")
    if not any(weights.values()):
        raise _bad("weights", "at least one weight is above 0")
    return Combination(names, tuple(float(weights[name]) for name in names), False)


def check_names(known: Mapping[str, Any], given: Any, what: str) -> None:
    """Refuse what is no mapping of names of fields, or an empty one."""
    if not isinstance(given, Mapping) or not given:
        raise _bad(what, f"{what} are a mapping of field to value, with at least one of {', '.join(known)}")
    for name in given:
        if name not in known:
            raise _bad(what, f"{what}: there is no field {arrived(name)} here, but {', '.join(known)}{suggestion(name, known)}")


def _bad(field: str, detail: str) -> InvalidInput:
    return InvalidInput.of("bad_parameter", detail, field=field)


def best_of(combined: NDArray[np.float64], numbers: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """Places of the k best of n, best first; ties go to the smaller number. numbers (n,) ascend."""
    if len(combined) > k:
        worst = np.partition(combined, len(combined) - k)[len(combined) - k]
        better = np.flatnonzero(combined > worst)
        kept = np.concatenate([better, np.flatnonzero(combined == worst)[: k - len(better)]])
    else:
        kept = np.arange(len(combined))
    kept = kept[combined[kept] > NOTHING]
    best: NDArray[np.int64] = kept[np.lexsort((numbers[kept], -combined[kept]))]
    return best


def all_fields(spaces: Mapping[str, Space], given: Any, what: str) -> Sequence[str]:
    """Refuse vectors that are not just one for each field. Returns the names."""
    check_names(spaces, given, what)
    if missing := [name for name in spaces if name not in given]:
        raise _bad(what, f"{what} lack {', '.join(missing)}: every item has a vector in every field")
    return tuple(spaces)
