"""Random payloads and filters over all kinds of values that payload indexes hold, and do not hold."""

from __future__ import annotations

import random
from typing import Any

KINDS = {"n": "number", "t": "keyword", "o.d": "datetime", "g": "geo"}
"""Fields of the payloads, with a kind of index for each."""

_NUMBERS: list[Any] = [0, 1, -2.5, 3, 2020, 2020.5, 2**53, 2**53 + 1, 2**63]
_TEXTS: list[Any] = ["", "a", "ab", "abc", "b", "ü", "1"]
_DATES: list[Any] = [
    "2026-01-31",
    "2026-01-31T12:00:00Z",
    "2026-01-31T13:00:00+01:00",
    "2026-01-31T12:00:00.25Z",
    "1969-07-20T20:17:40Z",
    "2026-02-30",
]
_PLACES: list[Any] = [{"lat": lat, "lon": lon} for lat, lon in [(0, 0), (0, 179), (10, -179), (52.5, 13.4), (-33.9, 151.2), (90, 0)]]
_STRANGE: list[Any] = [None, True, False, [], {}, {"x": 1}, [[1]], {"lat": 91, "lon": 0}]


def some_value(rng: random.Random) -> Any:
    """A value of a field, mostly of its usual kind, sometimes of any."""
    pick: list[Any] = rng.choice([_NUMBERS, _TEXTS, _DATES, _PLACES, _STRANGE])
    return rng.choice(pick)


def some_payload(rng: random.Random) -> dict[str, Any] | None:
    """A payload in which fields may be absent, lists, or of another kind than is usual."""
    if rng.random() < 0.05:
        return None
    out: dict[str, Any] = {}
    for name, usual in (("n", _NUMBERS), ("t", _TEXTS), ("d", _DATES), ("g", _PLACES)):
        if rng.random() < 0.2:
            continue
        values = [rng.choice(usual) if rng.random() < 0.85 else some_value(rng) for _ in range(rng.choice([1, 1, 1, 2, 3]))]
        value = values if len(values) > 1 else values[0]
        if name == "d":
            out["o"] = {"d": value}
        else:
            out[name] = value
    if rng.random() < 0.5:
        out["free"] = rng.randrange(4)
    return out


def some_condition(rng: random.Random) -> Any:
    """What a filter may ask of a field."""
    one = rng.choice([rng.choice(_NUMBERS), rng.choice(_TEXTS), {"$date": rng.choice(_DATES[:5])}, None, True])
    kind = rng.randrange(8)
    if kind == 0:
        return rng.choice([*_NUMBERS, *_TEXTS, *_DATES, None, True])
    if kind == 1:
        return {rng.choice(["$in", "$nin"]): [one, rng.choice(_NUMBERS), rng.choice(_TEXTS)][: rng.randrange(4)]}
    if kind == 2:
        return {"$exists": rng.random() < 0.5}
    if kind == 3:
        return {"$prefix": rng.choice(_TEXTS)}
    if kind == 4:
        place = rng.choice(_PLACES)
        return {"$geo_radius": {**place, "meters": rng.choice([0, 1_000, 300_000, 5_000_000, 21_000_000])}}
    if kind == 5:
        west, east = rng.choice([(-10, 20), (170, -170), (-180, 180)])
        return {"$geo_box": {"south": rng.choice([-90, -5]), "west": west, "north": rng.choice([5, 90]), "east": east}}
    return dict.fromkeys(rng.sample(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"], rng.choice([1, 2])), one)


def some_filter(rng: random.Random, depth: int = 3) -> dict[str, Any]:
    """A filter over indexed fields and one that is not indexed."""
    kind = rng.randrange(6) if depth > 1 else 0
    if kind == 1:
        return {"$not": some_filter(rng, depth - 1)}
    if kind in (2, 3):
        return {rng.choice(["$and", "$or"]): [some_filter(rng, depth - 1) for _ in range(rng.choice([1, 2, 3]))]}
    out: dict[str, Any] = {rng.choice([*KINDS, "n", "t"]): some_condition(rng) for _ in range(rng.choice([1, 1, 2]))}
    if rng.random() < 0.2:
        out["free"] = rng.choice([0, {"$gt": 1}, {"$exists": False}])
    return out
