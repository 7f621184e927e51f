"""Maps of collections with several fields: by the kernel of one of them."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from kinbin.collection import Collection
from kinbin.fields.moment import Moments
from kinbin.layouts.mapping import SAMPLE, asked_of, map_of
from kinbin.layouts.told import Map
from kinbin.parameters import one_of

__all__ = ["MappedFields"]


class MappedFields:
    """The part of a `FieldsCollection` that lays items out."""

    _fields: dict[str, Collection]
    _moments: Moments

    def map(
        self, sample: int = SAMPLE, *, field: str, method: str = "kernel_pca", fields: Iterable[str] = (), seed: int = 0,
        filter: Any = None, cancel: threading.Event | None = None,
    ) -> Map:  # fmt: skip
        """A sample of the items in the plane, by the kernel of one field: `field`. All else: see `Collection.map`."""
        one_of("field", field, self._fields)
        asked = asked_of(sample, method, fields, seed, cancel)
        with self._moments.open() as moment:
            passing = None if filter is None else moment.known.matching(moment.reader, filter)
            view = moment.parts[field].view
            return map_of(self._fields[field], (moment.reader, view), moment.masks(field, passing), None, asked)
