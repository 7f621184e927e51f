"""What a collection takes, without the collection: for programs that check items in one place and store them in another."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

from kinbin.chunks import chunks, distinct_ids
from kinbin.creating import (
    CollectionOptions,
    checked_options,
    configuration_of_fields,
    configuration_of_items,
    differing,
    exists_already,
    refuse_beside_fields,
)
from kinbin.errors import InvalidInput, Problem
from kinbin.fields.combining import all_fields
from kinbin.fields.vectors import taking
from kinbin.parameters import at_most, sequence_of
from kinbin.query.filters import compile_filter
from kinbin.records import CollectionConfig
from kinbin.rows.identity import check_ids, check_name, encode_payloads
from kinbin.rows.rows import Rows
from kinbin.skipping import good_items, some_of
from kinbin.storage.headers import Configuration
from kinbin.stored import what_is_stored
from kinbin.terms import Asked as TermsAsked
from kinbin.terms import Terms, check_versions
from kinbin.upkeep.indexing import checked_kinds

__all__ = ["Checked", "Schema"]

_WHOLE = ""
"""The name of the only field of items that have one vector, or are objects."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The n items of one add, as `Schema.check` found them good."""

    ids: list[bytes]
    """UTF-8."""
    rows: dict[str, Rows]
    """n of every field; under "" those of items without fields."""
    payloads: list[bytes]
    """Canonical JSON; empty where there is none."""
    positions: Sequence[int]
    """Of the items in the batch as it came."""
    problems: tuple[Problem, ...] = ()
    """Of items that were left out."""


@dataclass(frozen=True, slots=True)
class _Field:
    """One field, or the whole, as `differing` compares it."""

    config: CollectionConfig
    _space: Any
    _seed: int
    kind: Any
    form: Any

    def rows(self, X: Any) -> Rows:
        """A batch as canonical rows."""
        return X if isinstance(X, Rows) else self._space.rows_of(self.kind.rows(X, self.form))


class Schema:
    """The options of a collection, and what it takes: its validation, without a store. Never changes; any thread may use it."""

    def __init__(
        self, *, kernel: str | None = None, dim: int | None = None, items: str = "vectors", distance: str | None = None,
        fields: Mapping[str, Mapping[str, Any]] | None = None, indexes: Mapping[str, str] | None = None,
        **options: Unpack[CollectionOptions],
    ) -> None:  # fmt: skip
        """See `Database.create_collection`; distances that are functions are none of a schema.

        Raises:
            InvalidInput.
        """
        asked = checked_options(kernel, dim, options)
        if asked["seed"] is None:
            asked["seed"] = secrets.randbits(64)
        kinds = None if indexes is None else checked_kinds(indexes)
        if callable(distance) or options.get("encoder") is not None or options.get("decoder") is not None:
            raise InvalidInput.of("bad_parameter", "a schema is data: a function cannot be part of it", field="distance")
        if fields is not None:
            refuse_beside_fields(items, distance)
            self._configs = configuration_of_fields(fields, asked)
        else:
            self._configs = {_WHOLE: configuration_of_items(items, distance, asked)}
        self._given = None if fields is None else {name: dict(one) for name, one in fields.items()}
        self._fields = {name: _field(config) for name, config in self._configs.items()}
        self.options: dict[str, Any] = {"items": items, "distance": distance, "indexes": kinds, **asked}
        """What creates the same collection anywhere, as JSON holds it. The seed, which is drawn if none was given, is secret."""
        if self._given is not None:
            self.options["fields"] = self._given

    @property
    def has_fields(self) -> bool:
        """Whether items have several vectors, by name."""
        return self._given is not None

    @property
    def config(self) -> dict[str, CollectionConfig]:
        """The configuration of each field; under "" that of items without fields."""
        return {name: one.config for name, one in self._fields.items()}

    def refuse_other(self, wanted: Schema, asked: Mapping[str, Any]) -> None:
        """See that what is wanted is what this is. asked: the options, as they were given; what is None there need not be alike.

        Raises:
            CollectionExists: it tells what differs.
        """
        if list(self._fields) != list(wanted._fields) or self.has_fields != wanted.has_fields:
            have = f"the fields {', '.join(self._fields)}" if self.has_fields else "no fields"
            raise exists_already([have])
        apart: list[str] = []
        for name, config in wanted._configs.items():
            own = {**(wanted._given[name] if wanted._given else asked), "seed": asked.get("seed")}
            apart += differing(config, self._fields[name], own, name or None)
        if apart:
            raise exists_already(apart)

    def check(
        self, ids: Sequence[str | int], X: Any, payloads: Sequence[Any] | None = None, mode: str = "upsert", **terms: Unpack[TermsAsked]
    ) -> Checked:
        """The items of an add, validated as a collection of this schema does before its transaction; one transaction's worth.

        X: as `Collection.add` takes it; with fields, of each by its name. `Collection.add` takes the rows in its place, and does not
        look at them again. terms: see there; with on_error="skip" bad items are left out.

        Raises:
            InvalidInput: as `add`, for all that needs no stored item.

        Cost: what reading the vectors costs.
        """
        on = Terms.of(ids, mode, terms)
        listed = sequence_of("ids", ids)
        at_most("batch_items", len(listed), "ids")
        try:
            return self._checked(listed, X, payloads, range(len(listed)))
        except InvalidInput as error:
            if not on.skip or error.problems[0].position is None:
                raise
        good, bad = good_items(listed, X, payloads, self._rows)
        some = None if payloads is None else [payloads[i] for i in good]
        return replace(self._checked([listed[i] for i in good], some_of(X, good), some, good), problems=tuple(bad))

    def _checked(self, ids: Sequence[Any], X: Any, payloads: Sequence[Any] | None, positions: Sequence[int]) -> Checked:
        if self.has_fields:
            all_fields({name: one._space for name, one in self._fields.items()}, X, "vectors")
        keys = distinct_ids(ids)
        rows = {}
        for name, one in self._fields.items():
            source, rows_of = (X[name], taking(name, one.rows)) if self.has_fields else (X, one.rows)
            rows[name] = next(chunks(source, len(keys), rows_of, atomic=True, what=one.kind.name))
            assert len(rows[name]) == len(keys), "a single part is whole"
        return Checked(keys, rows, encode_payloads(payloads, len(keys)), positions)

    def _rows(self, X: Any) -> object:
        """See that vectors can be taken."""
        if not self.has_fields:
            return self._fields[_WHOLE].rows(X)
        return [taking(name, one.rows)(X[name]) for name, one in self._fields.items()]

    @staticmethod
    def check_name(name: object) -> str:
        """The name of a collection, or of an alias.

        Raises:
            InvalidInput: code "bad_name".
        """
        return check_name(name)

    @staticmethod
    def check_ids(ids: Sequence[str | int], versions: Sequence[int | None] | None = None) -> list[bytes]:
        """Ids as `Collection.delete` takes them, with versions or without.

        Raises:
            InvalidInput.
        """
        keys = check_ids(sequence_of("ids", ids), unique=False) if versions is None else distinct_ids(ids)
        at_most("batch_items", len(keys), "ids")
        check_versions(versions, len(keys))
        return keys

    @staticmethod
    def check_filter(filter: Any) -> None:
        """See that this is a filter.

        Raises:
            InvalidInput.
        """
        compile_filter(filter)

    @staticmethod
    def check_payloads(ids: Sequence[str | int], payloads: Sequence[Any]) -> tuple[list[bytes], list[bytes]]:
        """Ids and payloads, or patches of these, as `Collection.set_payload` takes them.

        Raises:
            InvalidInput.
        """
        keys = distinct_ids(ids)
        at_most("batch_items", len(keys), "ids")
        return keys, encode_payloads(payloads, len(keys))


def _field(data: Configuration) -> _Field:
    kind, space, form = what_is_stored(data)
    parameters = dict(form.parameters)
    config = CollectionConfig(data.kernel, form.dim, data.sampler, data.bands, data.r, parameters, data.items, data.feature_names)
    return _Field(config, space, data.seed, kind, form)
