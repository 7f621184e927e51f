"""Using a damaged database in every way, and telling a right answer, a refusal and a silent mistake apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kinbin
from pooled import pools_at_once
from torture.forms import FORMS, Form
from torture.specimen import Specimen

__all__ = ["Verdict", "judge", "scrolled", "used"]


@dataclass
class Verdict:
    """What a damaged database does."""

    silent: list[str] = field(default_factory=list)
    """Answers that are wrong, or that leave something out, without a word: of `get`, `scroll`, counts, filters and exact searches, and
    scores and ids of any search."""
    missing: list[str] = field(default_factory=list)
    """Rows that a search which promises no more than some recall left out."""
    refused: list[str] = field(default_factory=list)
    """Kinbin's own errors."""
    untyped: list[str] = field(default_factory=list)
    """Other errors."""
    problems: list[str] | None = None
    """What `check` found; None: it was not reached."""

    @property
    def outcome(self) -> str:
        """The worst that happened."""
        if self.untyped:
            return "untyped error"
        if self.silent:
            return "silent" if self.problems else "silent, and check says ok"
        if (self.missing or self.refused) and not self.problems:
            return "check says ok of what is refused" if self.refused else "rows missing from approximate answers, and check says ok"
        if self.missing:
            return "rows missing from approximate answers"
        if self.refused:
            return "refused"
        return "found by check" if self.problems else "unharmed"


class _User:
    """One use of one database, against what it has to hold."""

    def __init__(self, specimen: Specimen, kernel: NDArray[np.float64]) -> None:
        self.verdict = Verdict()
        self._vectors = np.concatenate([specimen.vectors, specimen.later])
        self._kernel = kernel
        # Place of its vector in the kernel, and payload.
        self.known: dict[str, tuple[int, Any]] = {
            name: (i, payload) for i, (name, payload) in enumerate(zip(specimen.names, specimen.payloads, strict=True))
        }
        self.open: set[str] = set()
        """Ids whose last edit failed with an unknown outcome."""

    def attempt(self, what: str, act: Callable[[], Any]) -> Any:
        """What a use gives, or None if it is refused."""
        try:
            return act()
        except kinbin.KinbinError as error:
            self.verdict.refused.append(f"{what}: {type(error).__name__}: {str(error)[:120]}")
        except Exception as error:  # noqa: BLE001 - it is what is looked for
            self.verdict.untyped.append(f"{what}: {type(error).__name__}: {str(error)[:120]}")
        return None

    def reads(self, collection: Form, when: str) -> None:
        """Every way of reading."""
        self._gets(collection, when)
        wanted = sorted(set(self.known) - self.open)
        found = self.attempt(f"{when}scroll", lambda: scrolled(collection))
        if found is not None and [name for name in found if name not in self.open] != wanted:
            self._silent(f"{when}scroll", [*found], wanted)
        count = self.attempt(f"{when}count", collection.count)
        if count is not None and count != len(self.known) and not self.open:
            self.verdict.silent.append(f"{when}count: {count}, not {len(self.known)}")
        even = self.attempt(f"{when}filter", lambda: collection.count({"even": True}))
        right = sum(payload.get("even", False) for _, payload in self.known.values())
        if even is not None and even != right and not self.open:
            self.verdict.silent.append(f"{when}filter: {even}, not {right}")
        for mode in collection.modes:
            self._searches(collection, mode, when)
        if collection.examples:
            self._by_examples(collection.collection, when)

    def _silent(self, what: str, found: list[str], wanted: list[str]) -> None:
        lost, extra = sorted(set(wanted) - set(found)), sorted(set(found) - set(wanted))
        self.verdict.silent.append(f"{what}: {len(lost)} left out {lost[:2]}, {len(extra)} too many {extra[:2]}, {len(found)} in all")

    def _gets(self, collection: Form, when: str) -> None:
        names = sorted(set(self.known) - self.open)
        for name, item in self._got(collection, names, when):
            place, payload = self.known[name]
            if item is None:
                self.verdict.silent.append(f"{when}get: {name} is not there")
            elif not collection.holds(item, self._vectors[place]) or item.payload != payload:
                self.verdict.silent.append(f"{when}get: {name} is another one")

    def _got(self, collection: Form, names: list[str], when: str) -> Iterator[tuple[str, Any]]:
        """Ids and items; of what is refused each half is asked for anew, down to the single ones that are refused."""
        waiting = [names]
        while waiting:
            some = waiting.pop()
            try:
                yield from zip(some, collection.get(some), strict=True)
            except kinbin.KinbinError as error:
                if len(some) == 1:
                    self.verdict.refused.append(f"{when}get: {type(error).__name__}: {str(error)[:120]}")
                else:
                    waiting += [some[: len(some) // 2], some[len(some) // 2 :]]
            except Exception as error:  # noqa: BLE001 - it is what is looked for
                self.verdict.untyped.append(f"{when}get: {type(error).__name__}: {str(error)[:120]}")
                return

    def _searches(self, collection: Any, mode: str, when: str) -> None:
        """Queries with the vectors of items: exact ones with all of them, others with every third."""
        names = sorted(set(self.known) - self.open)[:: 1 if mode == "exact" else 3]
        places = [self.known[name][0] for name in names]
        queries = self._vectors[places]
        try:
            batch = collection.query_batch(queries, k=3, mode=mode)
            if not self.open and self._is_right(batch, places):
                return
            answers: Any = list(batch)
        except kinbin.KinbinError:
            answers = [self.attempt(f"{when}{mode}", partial(collection.query, q, k=3, mode=mode)) for q in queries[:80]]
        except Exception as error:  # noqa: BLE001 - it is what is looked for
            self.verdict.untyped.append(f"{when}{mode}: {type(error).__name__}: {str(error)[:120]}")
            return
        everything = [place for place, _ in self.known.values()]
        for name, place, answer in zip(names, places, answers, strict=False):
            if answer is not None:
                self._search(f"{when}{mode}", name, self._kernel[place], answer, everything)

    def _by_examples(self, collection: Any, when: str) -> None:
        """Exact searches by two examples, which are scored by a way of their own."""
        names = sorted(set(self.known) - self.open)
        for pair in list(pairwise(names))[::9]:
            answer = self.attempt(f"{when}examples", partial(collection.query_examples, pair, k=3, mode="exact"))
            if answer is None or self.open:
                continue
            mean = self._kernel[[self.known[name][0] for name in pair]].mean(axis=0)
            best = np.sort(mean[[place for name, (place, _) in self.known.items() if name not in pair]])[::-1][:3]
            if len(answer.scores) != 3 or not np.allclose(answer.scores, best, rtol=0, atol=1e-5):
                self.verdict.silent.append(f"{when}examples: a neighbour of {pair[0]} and {pair[1]} is left out")

    def _is_right(self, batch: Any, places: list[int]) -> bool:
        """Whether all answers are just what they should be; what is not is looked at one by one."""
        ids = batch.ids.ravel().tolist()
        if any(name not in self.known for name in ids):
            return False
        found = np.array([self.known[name][0] for name in ids]).reshape(batch.ids.shape)
        rows = self._kernel[places]
        everything = [place for place, _ in self.known.values()]
        best = -np.partition(-rows[:, everything], 2, axis=1)[:, :3]
        best.sort(axis=1)
        scores = np.take_along_axis(rows, found, axis=1)
        complete = batch.recall_lower_bounds == 1.0
        return bool(
            np.allclose(batch.scores, scores, rtol=0, atol=1e-5)
            and np.allclose(batch.scores[:, 0], best[:, 2], rtol=0, atol=1e-5)
            and np.allclose(batch.scores[complete], best[complete, ::-1], rtol=0, atol=1e-5)
        )

    def _search(self, what: str, name: str, scores: NDArray[np.float64], answer: Any, everything: list[int]) -> None:
        """One answer, to the query with the vector of an item."""
        if any(found not in self.known for found in answer.ids if found not in self.open):
            self.verdict.silent.append(f"{what}: unknown ids {answer.ids}")
            return
        right = [scores[self.known[found][0]] for found in answer.ids if found in self.known]
        if len(right) == len(answer.ids) and not self.open and not np.allclose(answer.scores, right, rtol=0, atol=1e-5):
            self.verdict.silent.append(f"{what}: {name}: wrong scores")
        elif not self.open:
            best = np.sort(scores[everything])[::-1][:3]
            if len(answer.scores) != len(best) or answer.scores[0] < best[0] - 1e-5:
                (self.verdict.silent if answer.recall_lower_bound == 1.0 else self.verdict.missing).append(f"{what}: {name} is left out")
            elif answer.recall_lower_bound == 1.0 and not np.allclose(answer.scores, best, rtol=0, atol=1e-5):
                self.verdict.silent.append(f"{what}: of {name} a neighbour is left out")

    def edits(self, collection: Any, *, link: bool) -> None:
        """Writes of every kind; what is acknowledged has to be there afterwards. link: link as well, which takes longer than all else."""
        names = sorted(self.known)
        fresh = len(self._vectors) - 8
        for what, chosen, place in (("update", names[10:13], fresh), ("insert", ["new-1", "new-2"], fresh + 3)):
            vectors = self._vectors[place : place + len(chosen)]
            told = [{"later": what}] * len(chosen)
            if self._edit(f"add ({what})", chosen, partial(collection.add, chosen, vectors, told)):
                self.known.update({name: (place + i, told[i]) for i, name in enumerate(chosen)})
        gone = names[40:44]
        result = self._edit("delete", gone, lambda: collection.delete(gone))
        if result:
            if result.deleted != len(gone):
                self.verdict.silent.append(f"delete: {result.deleted} of {len(gone)}")
            for name in gone:
                del self.known[name]
        self.attempt("link" if link else "seal and merge", collection.link if link else collection.compact)

    def _edit(self, what: str, ids: list[str], act: Callable[[], Any]) -> Any:
        try:
            return act()
        except kinbin.StorageBusy as error:
            self.open.update(ids)
            self.verdict.refused.append(f"{what}: StorageBusy: {error}")
        except kinbin.KinbinError as error:
            # Nothing was written.
            self.verdict.refused.append(f"{what}: {type(error).__name__}: {str(error)[:120]}")
        except Exception as error:  # noqa: BLE001 - it is what is looked for
            self.open.update(ids)
            self.verdict.untyped.append(f"{what}: {type(error).__name__}: {str(error)[:120]}")
        return None


def scrolled(collection: Any) -> list[str]:
    """All ids; an endless scroll is cut."""
    out: list[str] = []
    after = None
    while len(out) < 5_000:
        page = collection.scroll(after, limit=250)
        out += [item.id for item in page.items]
        after = page.next
        if after is None:
            return out
    return out


def used(path: str, specimen: Specimen, kernel: NDArray[np.float64], *, link: bool = False) -> Verdict:
    """What comes of using a database in every way, twice. kernel: exact scores, (n + 8, n + 8)."""
    user = _User(specimen, kernel)
    verdict = user.verdict

    def check(when: str, collection: Any) -> None:
        report = user.attempt(f"{when}check", collection.check)
        if report is not None:
            verdict.problems = [*(verdict.problems or []), *report.problems]
            if report.ok and report.items != len(user.known) and not user.open:
                verdict.silent.append(f"{when}check: ok with {report.items} items, not {len(user.known)}")

    def session(when: str, *, edit: bool) -> None:
        with kinbin.open(path) as database:
            collection = FORMS[specimen.form](database.collection("c"))
            user.reads(collection, when)
            check(when, collection)
            if edit:
                user.edits(collection, link=link)
                user.reads(collection, "edited: ")

    with pools_at_once():
        for when, edit in (("", True), ("opened again: ", False)):
            before = len(verdict.refused)
            user.attempt(f"{when}open", partial(session, when, edit=edit))
            if any(one.startswith(f"{when}open") for one in verdict.refused[before:]):
                # A collection that does not open tells of its damage by that.
                verdict.problems = [*(verdict.problems or []), verdict.refused[-1]]
    return verdict


def judge(connection: Connection, specimen: Specimen) -> None:
    """For each path: use the database there in every way and send the verdict. One in eight is linked."""
    kernel = specimen.kernel
    number = 0
    while True:
        try:
            path = connection.recv()
        except EOFError:
            return
        number += 1
        connection.send(used(path, specimen, kernel, link=number % 8 == 0))
