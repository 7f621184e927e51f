"""The terms of a write: which items must be there, and in which version; what becomes of bad ones; and the key that it may come again by.

They are judged inside of the transaction, on what the edits before it have left.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any, Protocol, Self, TypedDict, TypeVar

from kinbin.errors import InvalidInput, ItemConflict, KeyReused, Problem, VersionConflict, suggestion
from kinbin.parameters import one_of, sequence_of
from kinbin.records import AddResult
from kinbin.rows.identity import NewIds
from kinbin.storage.answered import KEPT_SECONDS, Answered, digest_of
from kinbin.storage.versions import LARGEST, version_of

__all__ = [
    "ON_ERROR",
    "TOLD",
    "WRITE_MODES",
    "Asked",
    "Known",
    "Terms",
    "add_on_terms",
    "check_versions",
    "following",
    "refuse_conflicts",
    "refuse_versions",
]

WRITE_MODES = ("upsert", "insert", "update")
ON_ERROR = ("reject", "skip")
TOLD = 100
"""Items that were skipped are told one by one up to so many."""
_LONGEST_KEY = 255
_NAMED = 8
"""Ids that an error has for programs; three are enough to read."""
_MOST_FIRST = 2**47
"""Half of the numbers that rows may have."""
_SHOWN = 60
"""Characters of an id that a message shows."""

Known = tuple[int, bytes] | None
"""Row and payload of an item; None: there is none."""
Versions = Sequence[int | None] | None


class Batch(Protocol):
    """Validated items of an add."""

    ids: list[bytes]

    def only(self, which: Sequence[int]) -> Self:
        """Some of them."""

    def digest(self, *, named: bool = True) -> str:
        """Of their contents. named: with their ids."""


Items_contra = TypeVar("Items_contra", bound=Batch, contravariant=True)


Items = TypeVar("Items", bound=Batch)


class Adding(Protocol[Items_contra]):
    """A transaction, as far as adds go."""

    def known(self, ids: list[bytes]) -> list[Known]:
        """Row and payload of each id, as the edits so far leave them."""

    @property
    def next_row(self) -> int:
        """A number beyond those of all rows that there ever were."""

    def add(self, items: Items_contra, mode: str, versions: Versions = None, numbers: Sequence[int] | None = None) -> AddResult:
        """Insert, update or upsert a batch. numbers: see `following`."""

    def answered(self, key: bytes, now: float) -> Answered | None:
        """The answer that is kept for a key; refuses where no more can be kept."""

    def answer(self, key: bytes, kept: Answered, now: float) -> None:
        """Keep an answer."""


class Asked(TypedDict, total=False):
    """What an add may ask for besides its mode: see `Collection.add`."""

    on_error: str
    if_versions: Sequence[int | None] | None
    idempotency_key: str | None


@dataclass(frozen=True, slots=True)
class Terms:
    """Of one add. versions and positions are those of its items."""

    mode: str = "upsert"
    skip: bool = False
    versions: tuple[int | None, ...] | None = None
    key: bytes | None = None
    positions: tuple[int, ...] = ()
    """Of the items in the batch as it came; empty: all of it is there."""
    made: tuple[str, int] | None = None
    """Beginning and number of ids that came with none."""
    problems: tuple[Problem, ...] = ()
    """Of items of that batch that were left out before."""
    first: int | None = None
    """The number that the row of that batch's first item has, if it is new; None: they have the next ones."""

    @classmethod
    def of(cls, ids: Any, mode: str, asked: Asked) -> Terms:
        """Checked terms of the items of these ids.

        Raises:
            InvalidInput; TypeError: an add takes no such thing.
        """
        if not asked.keys() <= Asked.__annotations__.keys():
            unknown = next(name for name in asked if name not in Asked.__annotations__)
            raise TypeError(f"an add takes no {unknown!r}{suggestion(unknown, Asked.__annotations__)}")
        one_of("mode", mode, WRITE_MODES)
        on_error, key = asked.get("on_error", "reject"), asked.get("idempotency_key")
        one_of("on_error", on_error, ON_ERROR)
        wanted = asked.get("if_versions")
        versions = None if wanted is None else check_versions(wanted, len(sequence_of("ids", ids)))
        made = ids.made if isinstance(ids, NewIds) else None
        return cls(mode, on_error == "skip", versions, None if key is None else _key(key), made=made)

    def at(self, positions: Sequence[int] | None, first: int | None) -> Terms:
        """The same for items that have these places in the batch as it came (None: all are there), whose rows are numbered from `first`.

        Raises:
            InvalidInput: code "bad_parameter": they do not ascend, or numbers would be too large.
        """
        if first is None:
            return self if positions is None else replace(self, positions=tuple(positions))
        places = tuple(positions or ())
        if any(after <= before for before, after in pairwise(places)) or not 0 <= first < _MOST_FIRST or (places and places[-1] >= 2**32):
            text = f"rows are numbered by ascending positions, from a number below {_MOST_FIRST} on"
            raise InvalidInput.of("bad_parameter", text, field="first")
        return replace(self, positions=places, first=first)

    def numbers(self, count: int) -> Sequence[int] | None:
        """Those that rows of `count` items have, if they are new."""
        if self.first is None:
            return None
        first = self.first
        return [first + place for place in self.positions] if self.positions else range(first, first + count)

    @property
    def plain(self) -> bool:
        """Whether they ask for nothing but a mode."""
        return not self.skip and self.versions is None and self.key is None and self.made is None

    def only(self, which: Sequence[int], problems: Sequence[Problem]) -> Terms:
        """The terms of some of the items, where others were left out for these problems."""
        versions = None if self.versions is None else tuple(self.versions[i] for i in which)
        positions = tuple(self.positions[i] for i in which) if self.positions else tuple(which)
        return replace(self, versions=versions, positions=positions, problems=(*self.problems, *problems))


def _key(key: object) -> bytes:
    if not isinstance(key, str) or not 0 < len(key) <= _LONGEST_KEY or not (key.isascii() and key.isprintable()):
        text = f"an idempotency key is a string of 1 to {_LONGEST_KEY} printable ASCII characters"
        raise InvalidInput.of("bad_parameter", text, field="idempotency_key")
    return digest_of(key)


def check_versions(versions: Any, n: int) -> tuple[int | None, ...] | None:
    """Versions that n items are to have.

    Raises:
        InvalidInput: code "bad_parameter".
    """
    if versions is None:
        return None
    listed = tuple(versions) if isinstance(versions, list | tuple) else ()
    whole = all(one is None or (isinstance(one, int) and not isinstance(one, bool) and 0 <= one <= LARGEST) for one in listed)
    if len(listed) != n or not whole:
        text = "if_versions is a list with a version, 0 (not there) or null (any) for each id"
        raise InvalidInput.of("bad_parameter", text, field="if_versions")
    return None if all(one is None for one in listed) else listed


def following(numbers: Sequence[int] | None, least: int) -> Sequence[int] | None:
    """Ascending numbers of rows, all of them greater by the least that makes the first of them `least` at least; None stays None."""
    if numbers is None or not len(numbers) or numbers[0] >= least:
        return numbers
    more = least - numbers[0]
    return [number + more for number in numbers]


def add_on_terms(edit: Adding[Items], items: Items, terms: Terms, now: float | None = None) -> AddResult:
    """Add a batch inside of a transaction, or repeat the answer of the add that came with the same key.

    now: seconds since 1970; None: by the clock.

    Raises:
        KeyReused; ItemConflict, VersionConflict, unless bad items are skipped.
    """
    now = time.time() if now is None else now
    wanted = "" if terms.key is None else _digest(items, terms)
    if terms.key is not None:
        kept = edit.answered(terms.key, now)
        if kept is not None:
            return replace(_again(kept, wanted), next_row=edit.next_row)
    if terms.skip:
        bad = _conflicts(items.ids, edit.known(items.ids), terms)
        if bad:
            which = [i for i in range(len(items.ids)) if i not in bad]
            terms = terms.only(which, [replace(one, position=terms.positions[i] if terms.positions else i) for i, one in bad.items()])
            items = items.only(which)
    done = edit.add(items, terms.mode, terms.versions, terms.numbers(len(items.ids)))
    problems = sorted(terms.problems, key=lambda one: one.position or 0)
    done = replace(done, skipped=len(problems), problems=tuple(problems[:TOLD]), made=terms.made)
    if terms.key is not None:
        kept_of = {name: value for name, value in asdict(done).items() if name != "next_row"}
        edit.answer(terms.key, Answered(wanted, now + KEPT_SECONDS, kept_of), now)
    return replace(done, next_row=edit.next_row)


def _digest(items: Batch, terms: Terms) -> str:
    left_out = [(one.position, one.code) for one in terms.problems]
    return (
        f"{items.digest(named=terms.made is None)} {terms.mode} {terms.skip} {_hash_of(repr((terms.versions, terms.positions, left_out)))}"
    )


def _hash_of(text: str) -> str:
    """A digest of a text."""
    return digest_of(text).hex()


def _again(kept: Answered, wanted: str) -> AddResult:
    if kept.of != wanted:
        raise KeyReused("the idempotency key came before with an add of other content; take a new key for each add; nothing was written")
    told = dict(kept.answer)
    problems = tuple(Problem(**one) for one in told.pop("problems", ()))
    made = told.pop("made", None)
    return AddResult(**{**told, "problems": problems, "made": None if made is None else tuple(made), "replayed": True})


def _conflicts(ids: list[bytes], known: list[Known], terms: Terms) -> dict[int, Problem]:
    """By place, items that mode or version keep from being written."""
    found: dict[int, Problem] = {}
    for i, (key, old) in enumerate(zip(ids, known, strict=True)):
        if terms.mode != "upsert" and (old is None) == (terms.mode == "update"):
            there = "not in the collection" if old is None else "in the collection already"
            found[i] = Problem("item_conflict", f"the id is {there}", i, "id")
        elif terms.versions is not None and not _has(key, old, terms.versions[i]):
            found[i] = Problem("version_conflict", "the item has another version", i, "if_version")
    return found


def _has(key: bytes, old: Known, version: int | None) -> bool:
    return version is None or version == (0 if old is None else version_of(key, *old))


def refuse_versions(ids: list[bytes], known: list[Known], versions: Versions) -> None:
    """Raise for items that have other versions than these."""
    if versions is not None:
        differ = [key.decode() for key, old, one in zip(ids, known, versions, strict=True) if not _has(key, old, one)]
        if differ:
            text = f"{len(differ)} of {len(ids)} items have another version ({_few(differ)}); get them and decide anew; nothing was written"
            raise VersionConflict(text, tuple(differ[:_NAMED]))


def refuse_conflicts(ids: list[bytes], known: list[Known], mode: str, advice: str | None = None) -> None:
    """Raise for insert of what is there and update of what is not. advice: what to do; None: take another mode."""
    if mode == "upsert":
        return
    wrong = [key.decode() for key, old in zip(ids, known, strict=True) if (old is None) == (mode == "update")]
    if wrong:
        where, other = ("not in the collection", "insert") if mode == "update" else ("in the collection already", "update")
        raise ItemConflict(
            f"{len(wrong)} of {len(ids)} ids are {where} ({_few(wrong)}); {advice or f'use mode {other} or upsert'}; nothing was written",
            tuple(wrong[:_NAMED]),
        )


def _few(ids: list[str]) -> str:
    """The first three ids, for people."""
    named = ", ".join(repr(name if len(name) <= _SHOWN else name[:_SHOWN] + "…") for name in ids[:3])
    return f"{named} and {len(ids) - 3} more" if len(ids) > 3 else named
