"""Which queries go to nodes the short way (`quick_message`): one vector of numbers, with options that are sound beyond doubt.

Whatever else comes goes as it is and is judged by the nodes' own route, so that it is refused in the words of one server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import kinbin
from kinbin_cluster.picture import Collection
from kinbin_cluster.quick_message import QuickQuery, numbers_of

__all__ = ["Quick", "quick_of"]

_MOST_K = int(kinbin.LIMITS["k"].value)
_MOST_EXCLUDED = int(kinbin.LIMITS["exclude"].value)
_MODES = frozenset(kinbin.OPTIONS["mode"].known)
_CONTENTS = frozenset(kinbin.OPTIONS["include"].known)
_LARGEST_FEATURE = int(kinbin.LIMITS["feature_id"].value)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 1e300


def _is_flag(value: Any) -> bool:
    return value is True or value is False


def _are_ids(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= _MOST_EXCLUDED and all(isinstance(one, str) and one for one in value)


_SOUND: Mapping[str, Callable[[Any], bool]] = {
    "k": lambda value: type(value) is int and 1 <= value <= _MOST_K,
    "target_recall": lambda value: _is_number(value) and 0 < value <= 1,
    "min_score": lambda value: value is None or _is_number(value),
    "filter": lambda value: value is None or isinstance(value, dict),
    "mode": lambda value: isinstance(value, str) and value in _MODES,
    "certify": _is_flag,
    "debug": _is_flag,
    "include": lambda value: isinstance(value, list) and all(isinstance(one, str) and one in _CONTENTS for one in value),
    "exclude": _are_ids,
}
"""By the option's name, what the models of the service take without a word."""


@dataclass(frozen=True, slots=True)
class Quick:
    """A query, packed for each shard."""

    query: QuickQuery

    def pack(self, shard: int) -> bytes:
        """The bytes for a shard."""
        return replace(self.query, shard=shard).pack()


def quick_of(collection: Collection, content: Mapping[str, Any]) -> Quick | None:
    """The short form of a body; None: it has none."""
    configuration = collection.configuration
    if configuration.get("items", "vectors") != "vectors" or configuration.get("fields"):
        return None
    options = {name: value for name, value in content.items() if name != "vector"}
    if not options.keys() <= _SOUND.keys() or not all(_SOUND[name](value) for name, value in options.items()):
        return None
    raw = content.get("vector")
    if not isinstance(raw, dict):
        values = numbers_of(raw)
        return None if values is None else Quick(QuickQuery(collection.uid, 0, options, values))
    if raw.keys() != {"indices", "values"} or not isinstance(raw["indices"], list):
        return None
    indices, values = raw["indices"], numbers_of(raw["values"])
    whole = bool(indices) and set(map(type, indices)) == {int} and min(indices) >= 0 and max(indices) <= _LARGEST_FEATURE
    if values is None or not whole or len(indices) != len(values):
        return None
    return Quick(QuickQuery(collection.uid, 0, options, values, np.array(indices, np.int64)))
