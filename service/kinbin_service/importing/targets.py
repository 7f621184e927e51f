"""Where imported items go: a collection, in the database itself or behind a running service."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import kinbin
from kinbin_service.importing.batches import Batch
from kinbin_service.importing.fields import FIELDS, by_field, refusal_of_fields, refuse_fields

__all__ = [
    "Added",
    "DatabaseTarget",
    "Refused",
    "Target",
    "TargetDiffers",
    "Wanted",
    "check_alike",
    "check_fields",
    "told",
    "told_parameters",
    "try_out",
    "vectors_by_field",
]


@dataclass(frozen=True, slots=True)
class Added:
    """What one add did, or several; `count` is the number of items in the collection after it, where it is known."""

    indexed: int = 0
    updated: int = 0
    unchanged: int = 0
    count: int | None = None

    def plus(self, later: Added) -> Added:
        """The sum of two adds, this one first."""
        count = self.count if later.count is None else later.count
        return Added(self.indexed + later.indexed, self.updated + later.updated, self.unchanged + later.unchanged, count)


class Refused(Exception):
    """Nothing of a batch was written, for what is in it: at most 8 problems as (position in the batch or None, what is wrong)."""

    def __init__(
        self, problems: Sequence[tuple[int | None, str]], *, conflict: bool = False, partly: bool = False, code: str | None = None
    ) -> None:
        super().__init__(problems[0][1])
        self.code = "over_limit" if code == "over_limit" else None
        """What programs may want to tell from other refusals."""
        self.problems = tuple(problems)
        self.partly = partly
        """The head of the batch was written all the same: it travelled in a request of its own."""
        self.conflict = conflict
        """An id is there that must not be (mode insert), or is not there and must be (mode update)."""


class TargetDiffers(Exception):
    """The collection that is there has another kernel or dimension than was asked for."""


def check_fields(name: str, fields: Collection[str] | None, first: Batch, wanted: Wanted) -> bool:
    """Whether items of several fields go into a collection that has them. fields: None: it has none, or is not there.

    Raises TargetDiffers where only one of both has several.
    """
    asked = Wanted(items=wanted.items) != wanted
    if fields is not None and (refused := refuse_fields(name, first.items)):
        raise TargetDiffers(refused)
    if first.items == FIELDS and (fields is None or asked):
        raise TargetDiffers(refusal_of_fields(name, options=asked))
    return fields is not None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a collection is to be, where something is asked for."""

    kernel: str | None = None
    dim: int | None = None
    parameters: Mapping[str, Any] | None = None
    """Of the kernel."""
    items: str = "vectors"
    indexes: Mapping[str, str] | None = None
    """Payload indexes, by field; a collection that is there gets those that it lacks."""
    feature_names: Sequence[str] | Mapping[int, str] | None = None
    """As the file names them: a new collection gets them. Of one that is there, its own."""


def told_parameters(values: Mapping[str, Any], between: str = ", ") -> str:
    """Parameters of a kernel for people, as they are written on the command line."""
    return between.join(f"{key}={_told_value(one)}" for key, one in values.items())


def _told_value(value: Any) -> str:
    if isinstance(value, str):
        return value
    return ",".join(f"{one:g}" for one in value) if isinstance(value, list | tuple) else f"{value:g}"


def _same(one: Any, other: Any) -> bool:
    """Whether two values of a parameter are the same; lists of numbers are, as tuples."""
    listed = [tuple(value) if isinstance(value, list) else value for value in (one, other)]
    return bool(listed[0] == listed[1])


def check_alike(name: str, there: Wanted, asked: Wanted) -> None:
    """Compare a collection with what was asked for. Raises TargetDiffers."""
    kernel, dim, numbers = there.kernel or "", there.dim, dict(there.parameters or {})
    if asked.items != there.items:
        raise TargetDiffers(f'collection "{name}" is there and holds {there.items}, not {asked.items}: choose another name')
    # A product may be named in any order.
    if asked.kernel is not None and sorted(asked.kernel.split("*")) != sorted(kernel.split("*")):
        raise TargetDiffers(
            f'collection "{name}" is there with kernel {kernel}, not {asked.kernel}: leave --kernel out, or choose another name'
        )
    if any(key not in numbers or not _same(value, numbers[key]) for key, value in (asked.parameters or {}).items()):
        has, wanted = (told_parameters(one) or "none" for one in (numbers, asked.parameters or {}))
        raise TargetDiffers(
            f'collection "{name}" is there with parameters {has}, not {wanted}: leave --parameter out, or choose another name'
        )
    if asked.dim not in {None, dim}:
        has = "sparse, without a dimension" if dim is None else f"of dimension {dim}"
        raise TargetDiffers(f'collection "{name}" is there and is {has}, not {asked.dim}: leave --dim out, or choose another name')
    _check_order(name, list(there.feature_names.values()) if isinstance(there.feature_names, Mapping) else [], asked.feature_names)


def _check_order(name: str, there: list[str], asked: Sequence[str] | Mapping[int, str] | None) -> None:
    """Refuse columns in another order than the features: every score would be wrong without a word. Raises TargetDiffers."""
    names = list(asked or ())
    if there != names and sorted(there) == sorted(names, key=str):
        place = next(at for at, (one, other) in enumerate(zip(there, names, strict=True)) if one != other)
        raise TargetDiffers(
            f'collection "{name}" is there with the same features in another order: feature {place} is {there[place]}, and in this file '
            f"{names[place]}: put the columns in its order, or choose another name"
        )


class Target(Protocol):
    """A collection that takes batches. An add is all or nothing, and durable when it returns."""

    place: str
    """What tells one database from another: the path or the address."""
    name: str

    def prepare(self, wanted: Wanted, first: Batch) -> None:
        """Make the collection, of the dimension that is wanted, else that of the first batch; or compare the one that is there.

        Raises Refused when the first batch does not fit a collection that would be made, and TargetDiffers.
        """
        ...

    def add(self, batch: Batch, mode: str) -> Added:
        """Add a batch. Raises Refused."""
        ...

    def present(self, ids: Sequence[str]) -> list[bool]:
        """Which of these items are in the collection; none when there is no collection."""
        ...

    def kind(self) -> Wanted | None:
        """What the collection is; None when there is none."""
        ...


class DatabaseTarget:
    """A collection of an open database of this machine."""

    def __init__(self, database: kinbin.Database, name: str) -> None:
        self.place = str(database.path.resolve())
        self.name = name
        self._database = database
        self._collection = database.collection(name) if name in database.collections() else None

    def prepare(self, wanted: Wanted, first: Batch) -> None:
        """Make the collection, or compare the one that is there."""
        several = self._collection if isinstance(self._collection, kinbin.FieldsCollection) else None
        if check_fields(self.name, None if several is None else several.config.fields, first, wanted):
            return
        if self._collection is None:
            made = try_out(first, wanted)
            self._collection = self._database.create_collection(self.name, **made)
        else:
            config = self._collection.config
            have = Wanted(config.kernel, config.dim, config.parameters, config.items, feature_names=config.feature_names)
            check_alike(self.name, have, replace(wanted, items=first.items))
            if wanted.indexes:
                self._collection.change_indexes(wanted.indexes)

    def add(self, batch: Batch, mode: str) -> Added:
        """Add a batch in one transaction."""
        assert self._collection is not None, "prepare() comes first"
        try:
            vectors: Any = batch.vectors
            if isinstance(self._collection, kinbin.FieldsCollection):
                vectors = vectors_by_field(batch, tuple(self._collection.config.fields))
            done = self._collection.add(batch.ids, vectors, payloads=batch.payloads, mode=mode, atomic=True)
        except kinbin.InvalidInput as error:
            raise _refused(batch, error) from None
        except kinbin.ItemConflict as error:
            positions = [batch.ids.index(identifier) for identifier in error.ids if identifier in batch.ids]
            raise Refused([(positions[0] if positions else None, str(error))], conflict=True) from None
        return Added(done.indexed, done.updated, done.unchanged, done.count)

    def present(self, ids: Sequence[str]) -> list[bool]:
        """Which of these items are in the collection."""
        if self._collection is None:
            return [False] * len(ids)
        return [item is not None for item in self._collection.get(list(ids), include=())]

    def kind(self) -> Wanted | None:
        """What the collection is; None when there is none."""
        if self._collection is None:
            return None
        if isinstance(self._collection, kinbin.FieldsCollection):
            return Wanted(items=FIELDS)
        config = self._collection.config
        return Wanted(config.kernel, config.dim, config.parameters, config.items)

    def compact(self) -> bool:
        """Merge the collection into one run, if there is one; whether there is."""
        if self._collection is None:
            return False
        self._collection.compact()
        return True


def try_out(batch: Batch, wanted: Wanted) -> dict[str, Any]:
    """See that a new collection would take a batch, on a database of its own: a refused import leaves no collection behind.

    The dimension of what was left behind would bind the next try. Returns the new one's configuration. Raises Refused.
    """
    config: dict[str, Any] = {"kernel": wanted.kernel or "ngmm", "dim": batch.dim if wanted.dim is None else wanted.dim}
    if batch.items != "vectors":
        config = {"items": batch.items, "kernel": wanted.kernel, "dim": batch.dim if wanted.dim is None else wanted.dim}
    if wanted.parameters:
        config["parameters"] = dict(wanted.parameters)
    if wanted.indexes:
        config["indexes"] = dict(wanted.indexes)
    if wanted.feature_names and len(wanted.feature_names) == config["dim"] and batch.items == "vectors" and config["kernel"] != "nested":
        config["feature_names"] = list(wanted.feature_names)
    with tempfile.TemporaryDirectory(prefix="kinbin-import-") as scratch, kinbin.open(scratch) as trial:
        try:
            trial.create_collection("trial", **config).add(batch.ids, batch.vectors, payloads=batch.payloads)
        except kinbin.InvalidInput as error:
            raise _refused(batch, error) from None
    return config


def vectors_by_field(batch: Batch, fields: Sequence[str] | None) -> dict[str, list[Any]]:
    """The vectors of a batch by field. Raises Refused."""
    try:
        return by_field(batch, fields)
    except ValueError as error:
        position, text = error.args
        raise Refused([(position, text)]) from None


def _refused(batch: Batch, error: kinbin.InvalidInput) -> Refused:
    problems = [(problem.position, told(batch, problem.code, problem.position, problem.detail)) for problem in error.problems]
    return Refused(problems, code=error.code)


def told(batch: Batch, code: str | None, position: int | None, detail: str) -> str:
    """What is wrong with an item, in words of the file: positions in a batch are nobody's."""
    return batch.twice(position) if code == "duplicate_id" and position is not None else detail
