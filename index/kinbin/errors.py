"""Every error that Kinbin raises on purpose. Imports nothing of Kinbin.

    KinbinError
    ├── InvalidInput (ValueError)       what arrived cannot be stored or searched; nothing was written
    ├── CollectionNotFound (LookupError)
    │   └── AliasNotFound
    ├── SnapshotNotFound (LookupError)
    ├── CollectionExists                create_collection of a name that is there with another configuration
    ├── ItemConflict                    mode="insert" of an id that is there, mode="update" of one that is not
    │   └── VersionConflict             an item has another version than `if_versions` says
    ├── KeyReused                       an idempotency key came again with another add
    ├── AliasConflict                   a name is an alias and a collection is wanted, or the other way round
    ├── CursorExpired                   the collection has changed since the page before
    ├── Closed                          use after close()
    └── StorageError
        ├── StorageFull                 the disk or the map is full; nothing was written
        ├── StorageBusy                 no reader slot, or the writer is gone: try again later
        ├── CorruptData                 a checksum or a bound does not hold; the data is not used
        └── FormatMismatch              written by another format or hash version

`code` is for programs and never changes; the text is for people.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

__all__ = [
    "AliasConflict",
    "AliasNotFound",
    "Closed",
    "CollectionExists",
    "CollectionNotFound",
    "CorruptData",
    "CursorExpired",
    "FormatMismatch",
    "InvalidInput",
    "ItemConflict",
    "KeyReused",
    "KinbinError",
    "Problem",
    "SearchCancelled",
    "SnapshotNotFound",
    "StorageBusy",
    "StorageError",
    "StorageFull",
    "VersionConflict",
]


LONGEST_WORD = 40
"""Characters of a word that are compared and shown."""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that is most likely meant, capitals aside; None if none is near.

    `known` may have `aliases`: other names by which its words go elsewhere, in small letters and with underscores.
    """
    alias = getattr(known, "aliases", {}).get(word[:LONGEST_WORD].casefold().replace("-", "_").replace(" ", "_"))
    if alias is not None:
        return str(alias)
    plain = {name.casefold(): name for name in known}
    found = get_close_matches(word[:LONGEST_WORD].casefold(), plain, 1, 0.65)
    return plain[found[0]] if found else None


def suggestion(word: object, known: Iterable[str]) -> str:
    """The end of a message: what was meant, if that can be guessed."""
    near = nearest(word, known) if isinstance(word, str) else None
    return "" if near is None else f"; did you mean {near!r}?"


def install(extra: str) -> str:
    """The advice to install an extra: from the folder of wheels, since no public index has this package."""
    return f"pip install --find-links dist 'kinbin[{extra}]'"


class KinbinError(Exception):
    """Root of the tree; `code` names the kind of error for programs.

    `acknowledged`: of an add that was cut into several transactions, how many items were stored, for good, before the one that failed.
    """

    code = "error"
    acknowledged = 0

    def __str__(self) -> str:
        text = super().__str__()
        return f"{text} ({self.acknowledged} items of this add were stored before)" if self.acknowledged else text


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with the input, and where.

    `position` is the index in the batch (None: not about one item), `field` is "id",
    "vector" ("vectors/NAME" where there are several; "string" and the like where items are objects), "payload" or the name of a
    parameter (of a filter with the place in it, "filter/year/$near"), `code` the kind ("non_finite",
    "zero_vector", "negative_value", "dimension_mismatch", "duplicate_feature",
    "duplicate_id", "bad_id", "bad_payload", "bad_vector", "bad_object", "out_of_range",
    "over_limit", "bad_parameter", "bad_filter", "bad_name").
    """

    code: str
    detail: str
    position: int | None = None
    field: str | None = None
    limit: str | None = None
    """The name in `kinbin.LIMITS` of the limit that was passed, for code "over_limit"."""


class InvalidInput(KinbinError, ValueError):
    """The input cannot be taken; `problems` says what, where and what to do (at most 8)."""

    code = "invalid_input"

    def __init__(self, problems: list[Problem] | tuple[Problem, ...]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        first = self.problems[0]
        self.code = first.code
        where = "" if first.position is None else f"item {first.position}: "
        super().__init__(where + first.detail)

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.problems,), self.__dict__)

    @classmethod
    def of(cls, code: str, detail: str, *, position: int | None = None, field: str | None = None, limit: str | None = None) -> InvalidInput:
        """An error with one problem."""
        return cls([Problem(code, detail, position, field, limit)])


class CollectionNotFound(KinbinError, LookupError):
    """No collection has this name; `near` is the most similar name that there is, or None."""

    code = "collection_not_found"

    def __init__(self, message: str, near: str | None = None) -> None:
        super().__init__(message)
        self.near = near

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (*self.args, self.near), self.__dict__)


class AliasNotFound(CollectionNotFound):
    """No alias has this name."""

    code = "alias_not_found"


class SnapshotNotFound(KinbinError, LookupError):
    """A collection has no snapshot of this id."""

    code = "snapshot_not_found"


class CollectionExists(KinbinError):
    """A collection of this name is there, with another configuration."""

    code = "collection_exists"


class ItemConflict(KinbinError):
    """An id is there and must not be, or is not there and must be; nothing was written.

    `ids` names the first of them (at most 8).
    """

    code = "item_conflict"

    def __init__(self, message: str, ids: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.ids = ids

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (*self.args, self.ids), self.__dict__)


class VersionConflict(ItemConflict):
    """An item has another version than the one that a write was to replace; nothing was written."""

    code = "version_conflict"


class KeyReused(KinbinError):
    """An idempotency key was used within a day for an add of other content; nothing was written."""

    code = "key_reused"


class AliasConflict(KinbinError):
    """A name belongs to an alias where a collection is meant, or the other way round; or aliases lead to what was to be dropped.

    leading: the first of these aliases.
    """

    code = "alias_conflict"
    leading: tuple[str, ...] = ()


class CursorExpired(KinbinError):
    """The collection has changed since the page that a cursor continues: its pages would be of two answers. Begin again."""

    code = "cursor_expired"


class Closed(KinbinError):
    """The database was closed, or belongs to another process (open it after the fork)."""

    code = "closed"


class SearchCancelled(KinbinError):
    """The caller set the event `cancel` while the search ran; there is no answer."""

    code = "cancelled"


class StorageError(KinbinError):
    """The store could not do what was asked; nothing was acknowledged."""

    code = "storage_error"
    collection = ""
    """Whose files these are, where that is told; of the store of a field NAME/FIELD."""

    def __str__(self) -> str:
        whose = f"collection {self.collection!r}: " if self.collection else ""
        return f"{whose}{super().__str__()}"


class StorageFull(StorageError):
    """The disk or the map is full; nothing was written, queries go on (a delete needs space as well)."""

    code = "storage_full"


class StorageBusy(StorageError):
    """No reader slot is free, or the writer had to be restarted: try again."""

    code = "storage_busy"


class CorruptData(StorageError):
    """Stored bytes fail their checksum or their bounds; they are not used. The text names the collection, and says what to do.

    what: what is damaged, alone. advice: what to do about it; "": nothing but what `what` says.
    """

    code = "corrupt_data"
    advice = "`kinbin check` lists the damage, `kinbin repair` saves what is whole; or restore a snapshot"

    def __init__(self, what: str = "what is stored is damaged", advice: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        if advice is not None:
            self.advice = advice

    def __str__(self) -> str:
        return f"{super().__str__()}{f' ({self.advice})' if self.advice else ''}"

    @property
    def own_advice(self) -> str:
        """What to do about this damage, where that is not what is done about most."""
        return self.advice if "advice" in vars(self) else ""


class FormatMismatch(StorageError):
    """The files were written by another format or hash version; both are named."""

    code = "format_mismatch"
