"""Many harms, each done to a copy of a sound database and judged in a process that may die of it, under a limit of time."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nursery import Child, Nursery
from torture.forms import FORMS
from torture.harm import Harm, flips, page_harms, plain_cuts, plain_flips
from torture.pages import PageMap
from torture.specimen import Specimen, given_up_of
from torture.verdict import Verdict

__all__ = ["BAD", "GRAVE", "REPAIRS", "USES", "Case", "Tally", "cases", "damage_campaign"]

GRAVE = (
    "dead process", "loop", "untyped error", "silent, and check says ok", "silent",
    "rows missing from approximate answers, and check says ok", "check says ok of what is refused",
)  # fmt: skip
BAD = (*GRAVE, "rows missing from approximate answers")
"""Outcomes that nobody should see; `GRAVE` ones are broken promises."""
_TWIN = 3_000_017
"""Added to a seed for a collection that is made alike, of other items."""
USES, REPAIRS = "torture.verdict:judge", "torture.mended:judge"
"""What is done with a damaged database."""
LONGEST = 20.0
"""Seconds of processor time after which a use is a loop."""


@dataclass(frozen=True)
class Case:
    """What came of one harm."""

    harm: Harm
    outcome: str
    detail: str
    file: str = ""
    """Which one was harmed, where there are several."""

    def line(self) -> str:
        """For people."""
        return f"{self.outcome} <- {self.harm.name}, {self.file}{self.file and ', '}{self.harm.where}: {self.detail}"


@dataclass
class Tally:
    """Outcomes, counted, and the cases that are bad."""

    outcomes: Counter[str] = field(default_factory=Counter)
    by_class: dict[str, Counter[str]] = field(default_factory=dict)
    bad: list[Case] = field(default_factory=list)

    def add(self, case: Case) -> None:
        """Count one."""
        self.outcomes[case.outcome] += 1
        kind = case.harm.where.split(",")[0].split(":")[0] if case.harm.name == "flip" else case.harm.name
        self.by_class.setdefault(kind, Counter())[case.outcome] += 1
        if case.outcome in BAD:
            self.bad.append(case)

    def of(self, outcomes: Sequence[str]) -> list[Case]:
        """The cases with one of these outcomes."""
        return [case for case in self.bad if case.outcome in outcomes]

    def table(self) -> str:
        """For people: outcomes by class."""
        lines = [f"{sum(self.outcomes.values())} cases: " + ", ".join(f"{n} {what}" for what, n in self.outcomes.most_common())]
        lines += [
            f"  {kind}: " + ", ".join(f"{n} {what}" for what, n in found.most_common()) for kind, found in sorted(self.by_class.items())
        ]
        return "\n".join(lines)


def _told(found: Counter[str]) -> str:
    return ", ".join(f"{count} {what}" for what, count in found.most_common())


class Judge:
    """A child that uses damaged databases; it is replaced when it dies of one, or does not come back."""

    def __init__(self, nursery: Nursery, specimen: Specimen, function: str = USES) -> None:
        self._nursery = nursery
        self._specimen = specimen
        self._function = function
        self._child: Child | None = None

    def outcome(self, path: Path, *more: Any) -> tuple[str, str]:
        """Outcome and detail of using a database. more: what else the child is sent."""
        if self._child is None:
            self._child = self._nursery.start(self._function, self._specimen)
        child = self._child
        used = _processor_seconds(child.pid)
        try:
            for one in (str(path), *more):
                child.connection.send(one)
            while not child.connection.poll(0.5):
                if _processor_seconds(child.pid) - used > LONGEST:
                    child.kill()
                    self._child = None
                    return "loop", f"{LONGEST:g} s of processor time and no end"
            verdict: Verdict = child.connection.recv()
        except (EOFError, ConnectionResetError, BrokenPipeError):
            status = child.wait()
            self._child = None
            return "dead process", f"exit status {status} (minus the signal)"
        return verdict.outcome, "; ".join([*verdict.untyped[:2], *verdict.silent[:3], *verdict.missing[:1], *verdict.refused[:2]])


def _processor_seconds(pid: int) -> float:
    """Of a process, its own: time that it stands still, or that others take, is no loop of it."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cases(judge: Judge, whole: Mapping[str, bytes], harms: Sequence[tuple[str, Harm]], work: Path) -> Iterator[Case]:
    """Do each harm to a copy of a collection "c" and judge it. whole: its files, by their paths within its directory."""
    for number, (harmed, harm) in enumerate(harms):
        place = work / f"case{number % 8}"
        shutil.rmtree(place, ignore_errors=True)
        for name, data in whole.items():
            path = place / "collections" / "c" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(harm.done_to(data) if name == harmed else data)
        yield Case(harm, *judge.outcome(place), "" if len(whole) == 1 else harmed)
        shutil.rmtree(place, ignore_errors=True)


def harms_to(
    name: str, data: bytes, rng: random.Random, counts: Sequence[int], others: tuple[bytes, ...], earlier: Sequence[bytes]
) -> list[Harm]:
    """Flips and page harms to one file, a store or another one.

    others, earlier: stores whose pages may stand in the place of its own: strange ones, and what it was before.
    """
    if not name.endswith("data.mdb"):
        return [*plain_flips(data, rng, counts[0]), *plain_cuts(data, rng, counts[1])]
    pages = PageMap.of(data, others, tuple(earlier))
    return [*flips(pages, rng, counts[0]), *page_harms(pages, rng, counts[1])]


def damage_campaign(
    nursery: Nursery,
    work: Path,
    seed: int,
    counts: tuple[int, int],
    told: Callable[[Case], None] | None = None,
    seconds: float = 1e9,
    judge: str = USES,
    *,
    lost_writes: bool = False,
) -> Tally:
    """Flips and page harms (counts of each) on a specimen made from a seed; ends early after so many seconds.

    The seed says of which form it is, too, and whether a commit was given up. Each of its files gets as many of the harms. lost_writes:
    pages that are what they were before, at their own place, are among them; no format of Kinbin tells of those.
    """
    rng = random.Random(seed)
    sound = work / f"sound{seed}"
    form = list(FORMS)[seed % len(FORMS)]
    specimen: Specimen = nursery.start("torture.specimen:built_apart", str(sound), seed, form, given_up_of(seed)).receive(120)
    whole = {name: (sound / "collections" / "c" / name).read_bytes() for name in specimen.files}
    twin = work / f"twin{seed}"
    nursery.start("torture.specimen:built_apart", str(twin), seed + _TWIN, specimen.form).receive(120)
    there = {name: twin / "collections" / "c" / name for name in specimen.files}
    twins = {name: (path.read_bytes(),) for name, path in there.items() if path.exists()}
    stores = {name: data for name, data in whole.items() if name.endswith("data.mdb")}
    harms: list[tuple[str, Harm]] = []
    for at, (name, data) in enumerate(whole.items()):
        share = [(count + at) // len(whole) for count in counts]
        # Of the other stores of the collection, and of one that was made alike.
        others = (*(other for store, other in stores.items() if store != name), *twins.get(name, ()))
        harms += [(name, harm) for harm in harms_to(name, data, rng, share, others, specimen.earlier.get(name, []) if lost_writes else [])]
    rng.shuffle(harms)
    tally, began = Tally(), time.monotonic()
    for case in cases(Judge(nursery, replace(specimen, earlier={}), judge), whole, harms, work):
        tally.add(case)
        if told is not None:
            told(case)
        if time.monotonic() - began > seconds:
            break
    shutil.rmtree(sound)
    shutil.rmtree(twin)
    return tally
