"""What values of payloads are: scalars, moments of RFC 3339, and places on the globe."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["ABSENT", "GEO", "SCALARS", "Box", "Instant", "Radius", "instant_of", "look_up", "point_of", "same"]

SCALARS = (str, int, float, bool, type(None))
ABSENT = object()
"""The value of a field that a payload does not have: it equals nothing."""

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_MOMENT = re.compile(r"(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}:\d{2})(\.\d+)?([Zz]|[+-]\d{2}:\d{2})")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EARTH_METERS = 6_371_008.8
"""The mean radius (IUGG)."""
_NEAR = 1e-7
"""Radians: what is so near the rim of a circle is judged one by one."""


def look_up(payload: Any, path: tuple[str, ...]) -> Any:
    """The value at a path of names into objects; ABSENT where there is none."""
    for name in path:
        if not isinstance(payload, dict) or name not in payload:
            return ABSENT
        payload = payload[name]
    return payload


def same(value: Any, wanted: Any) -> bool:
    """Whether a value equals another: 1 is 1.0 and is not true."""
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted
    return bool(value == wanted)


@dataclass(frozen=True, slots=True)
class Instant:
    """A moment that a filter names."""

    microseconds: int
    """Since 1970, of UTC."""


def instant_of(text: str) -> int | None:
    """The moment of an RFC 3339 date and time in microseconds since 1970; what is finer is cut off. A date alone is its midnight, UTC.

    None: the string is no such date. A second of 60 is none.
    """
    try:
        if _DATE.fullmatch(text) and text.isascii():
            day = date.fromisoformat(text)
            return (day.toordinal() - _EPOCH.toordinal()) * 86_400_000_000
        found = _MOMENT.fullmatch(text)
        if found is None or not text.isascii():
            return None
        day_text, clock, fraction, zone = found.groups()
        moment = datetime.fromisoformat(f"{day_text}T{clock}{'+00:00' if zone in 'Zz' else zone}")
    except ValueError:
        return None
    passed = moment - _EPOCH
    return (passed.days * 86_400 + passed.seconds) * 1_000_000 + int(((fraction or ".0")[1:] + "000000")[:6])


def _degrees(value: Any, most: float) -> float | None:
    """A number of degrees from -most to most."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -most <= value <= most:
        return None
    return float(value)


def point_of(value: Any) -> tuple[float, float] | None:
    """Latitude and longitude of {"lat": …, "lon": …}; None: it is no place."""
    if not isinstance(value, dict):
        return None
    lat, lon = _degrees(value.get("lat"), 90.0), _degrees(value.get("lon"), 180.0)
    return None if lat is None or lon is None else (lat, lon)


@dataclass(frozen=True, slots=True)
class Radius:
    """All places within a distance of one, on a sphere of the earth's mean radius."""

    says: ClassVar[str] = '{"lat": degrees, "lon": degrees, "meters": 0 or more}'
    lat: float
    lon: float
    meters: float

    @classmethod
    def of(cls, data: Any) -> Radius | None:
        """From JSON; None: it is malformed."""
        if not isinstance(data, Mapping) or data.keys() != {"lat", "lon", "meters"}:
            return None
        point, meters = point_of(dict(data)), data["meters"]
        if point is None or isinstance(meters, bool) or not isinstance(meters, int | float) or not 0 <= meters <= sys.float_info.max:
            return None
        return cls(*point, float(meters))

    def contains(self, value: Any) -> bool:
        """Whether a value of a payload is such a place."""
        point = point_of(value)
        return point is not None and self._angle(*point) * _EARTH_METERS <= self.meters

    def _angle(self, lat: float, lon: float) -> float:
        """Radians between the centre and a place, by the haversine."""
        one, other = math.radians(self.lat), math.radians(lat)
        half = math.sin((other - one) / 2) ** 2
        half += math.cos(one) * math.cos(other) * math.sin(math.radians(lon - self.lon) / 2) ** 2
        return 2 * math.asin(math.sqrt(min(1.0, half)))

    def band(self) -> tuple[float, float]:
        """The least and the greatest latitude that a place within may have."""
        reach = math.degrees(self.meters / _EARTH_METERS) + 1e-6
        return self.lat - reach, self.lat + reach

    def contain(self, lat: NDArray[np.float64], lon: NDArray[np.float64]) -> NDArray[np.bool_]:
        """The same of many places. Near the rim each is asked alone, so that the answer does not depend on how sines are computed."""
        one, other = math.radians(self.lat), np.radians(lat)
        half = np.sin((other - one) / 2) ** 2 + math.cos(one) * np.cos(other) * np.sin(np.radians(lon - self.lon) / 2) ** 2
        angles = 2 * np.arcsin(np.sqrt(np.minimum(1.0, half)))
        reach = self.meters / _EARTH_METERS
        inside: NDArray[np.bool_] = angles <= reach
        for place in np.flatnonzero(np.abs(angles - reach) <= _NEAR):
            inside[place] = self._angle(float(lat[place]), float(lon[place])) * _EARTH_METERS <= self.meters
        return inside


@dataclass(frozen=True, slots=True)
class Box:
    """All places between two latitudes and two longitudes, ends included; with west greater than east it crosses the 180th meridian."""

    says: ClassVar[str] = '{"south": degrees, "west": degrees, "north": degrees, "east": degrees}, south at most north'
    south: float
    west: float
    north: float
    east: float

    @classmethod
    def of(cls, data: Any) -> Box | None:
        """From JSON; None: it is malformed."""
        if not isinstance(data, Mapping) or data.keys() != {"south", "west", "north", "east"}:
            return None
        south, north = _degrees(data["south"], 90.0), _degrees(data["north"], 90.0)
        west, east = _degrees(data["west"], 180.0), _degrees(data["east"], 180.0)
        if south is None or north is None or west is None or east is None or south > north:
            return None
        return cls(south, west, north, east)

    def contains(self, value: Any) -> bool:
        """Whether a value of a payload is such a place."""
        point = point_of(value)
        if point is None:
            return False
        lat, lon = point
        beside = (lon >= self.west, lon <= self.east)
        return self.south <= lat <= self.north and (all(beside) if self.west <= self.east else any(beside))

    def band(self) -> tuple[float, float]:
        """The least and the greatest latitude."""
        return self.south, self.north

    def contain(self, lat: NDArray[np.float64], lon: NDArray[np.float64]) -> NDArray[np.bool_]:
        """The same of many places."""
        west, east = lon >= self.west, lon <= self.east
        inside: NDArray[np.bool_] = (lat >= self.south) & (lat <= self.north) & (west & east if self.west <= self.east else west | east)
        return inside


GEO: dict[str, type[Radius] | type[Box]] = {"$geo_radius": Radius, "$geo_box": Box}
"""Operators on places."""
