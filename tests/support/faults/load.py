"""Load on a cluster, and the memory of what it acknowledged.

Each writer has ids of its own and does one thing after the other, so that it knows what its items have to be. A write that is not
acknowledged is sent again until it is: an add with the same key, which makes it one write however often it arrives. Other writes have no
key, and one that was not acknowledged may arrive later; its items are not touched again.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import httpx

__all__ = ["DIM", "Load", "Reader", "State", "Writer", "vector_of"]

DIM = 8
State = dict[str, Any] | None
"""The payload of an item, whose vector follows from its id and `v`; None: it is not there."""
_NAME = "faults"
_WRITE_SECONDS = 5.0
_READ_SECONDS = 2.0
"""After so long a request is given up. A writer goes on at the next gateway then; a reader stays where it is, and others are elsewhere."""
_GIVE_UP_SECONDS = 120.0
_IDS = 40
_PAUSE_SECONDS = 0.02
"""Between two requests of one thread: the machine has other work than the load."""
_TICK_SECONDS, _MOST_TICK_SECONDS = 0.02, 0.2


def vector_of(identifier: str, version: int) -> list[float]:
    """The vector of an item in a version."""
    rng = random.Random(f"{identifier}/{version}")
    return [rng.randrange(1, 1_000) / 8 for _ in range(DIM)]


class Stopped(Exception):
    """The load ends; what was under way may be done or not."""


class Clock(threading.Thread):
    """Seconds that this process ran: what it was stopped for, or got no processor for, is nobody's gap."""

    def __init__(self) -> None:
        super().__init__(name="clock", daemon=True)
        self.now = 0.0
        self.ending = threading.Event()

    def run(self) -> None:
        """Count until it is to end."""
        last = time.monotonic()
        while not self.ending.wait(_TICK_SECONDS):
            now = time.monotonic()
            self.now += min(now - last, _MOST_TICK_SECONDS)
            last = now


@dataclass
class Times:
    """When something succeeded, by a clock."""

    at: list[float] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, now: float) -> None:
        """It succeeded now."""
        with self.lock:
            self.at.append(now)

    def longest_gap(self, since: float, until: float) -> float:
        """The longest time without a success between two moments."""
        with self.lock:
            inner = sorted(one for one in self.at if since < one < until)
        places = [since, *inner, until]
        return max(later - sooner for sooner, later in itertools.pairwise(places))


class Writer(threading.Thread):
    """One writer."""

    def __init__(self, load: Load, number: str, seed: int) -> None:
        super().__init__(name=f"writer-{number}", daemon=True)
        self._load = load
        self._rng = random.Random(seed)
        self._client = httpx.Client(timeout=_WRITE_SECONDS)
        self._number = number
        self._usable = [f"w{number}-{i}" for i in range(_IDS)]
        self._made = 0
        self._at = seed
        """The gateway that it writes to, counted on at each failure."""
        self.states: dict[str, list[State]] = {one: [None] for one in self._usable}
        """What each id may be: the last of it that was acknowledged, or what was under way."""
        self.violations: list[str] = []
        self.acknowledged = 0

    def run(self) -> None:
        """Write until the load ends."""
        with self._client:
            self._write()

    def _write(self) -> None:
        steps = [self._upsert, self._upsert, self._upsert, self._remove, self._payload, self._filtered]
        if self._load.inserts:
            steps.append(self._insert)
        while not self._load.ending.is_set():
            try:
                self._rng.choice(steps)()
                time.sleep(_PAUSE_SECONDS)
            except Stopped:
                return
            except Exception as error:  # noqa: BLE001 - a writer that ends for another reason is a finding
                self.violations.append(f"writer {self._number}: {type(error).__name__}: {error}")
                return

    def _some(self, most: int) -> list[str]:
        return self._rng.sample(self._usable, min(len(self._usable), self._rng.randint(1, most)))

    def _upsert(self) -> None:
        ids = self._some(8)
        version = self._load.next_version()
        self._add(dict.fromkeys(ids, version), "upsert")

    def _insert(self) -> None:
        """New ids: refused, they would have been there before."""
        ids = [f"w{self._number}-new-{self._made + i}" for i in range(self._rng.randint(1, 4))]
        self._made += len(ids)
        self.states |= {one: [None] for one in ids}
        version = self._load.next_version()
        self._add(dict.fromkeys(ids, version), "insert")
        self._usable += self._rng.sample(ids, 1)

    def _add(self, versions: dict[str, int], mode: str) -> None:
        wanted: dict[str, State] = {one: {"v": version, "w": self._number} for one, version in versions.items()}
        items = [{"id": one, "vector": vector_of(one, versions[one]), "payload": wanted[one]} for one in versions]
        key = f"{self._number}-{self._rng.getrandbits(64):016x}"
        answer, _ = self._until_done("/index", {"items": items, "mode": mode}, wanted, {"Idempotency-Key": key})
        if answer["indexed"] + answer["updated"] + answer["unchanged"] != len(items):
            self.violations.append(f"an add of {len(items)} items says {answer}")
        self._settle(wanted, answer)

    def _remove(self) -> None:
        ids = self._some(4)
        wanted: dict[str, State] = dict.fromkeys(ids)
        answer, tries = self._until_done("/delete", {"ids": ids}, wanted, {})
        self._settle(wanted, answer, retire=tries > 1)

    def _payload(self) -> None:
        there = [one for one in self._usable if self.states[one][-1] is not None][:3]
        if not there:
            return
        wanted: dict[str, State] = {one: {**(self.states[one][-1] or {}), "p": self._load.next_version()} for one in there}
        items = [{"id": one, "payload": payload} for one, payload in wanted.items()]
        answer, tries = self._until_done("/payload", {"items": items}, wanted, {})
        self._settle(wanted, answer, retire=tries > 1)

    def _filtered(self) -> None:
        """All of one version of its own."""
        versions = {state["v"] for one in self._usable if (state := self.states[one][-1]) is not None}
        if not versions:
            return
        version = self._rng.choice(sorted(versions))
        matching = {one for one, states in self.states.items() if states[-1] is not None and states[-1]["v"] == version}
        wanted: dict[str, State] = dict.fromkeys(matching)
        asked = {"filter": {"w": self._number, "v": version}}
        answer, tries = self._until_done("/delete", asked, wanted, {})
        self._settle(wanted, answer, retire=tries > 1)

    def _until_done(self, path: str, body: Any, wanted: dict[str, State], headers: dict[str, str]) -> tuple[dict[str, Any], int]:
        """Send until it is acknowledged: the answer, and how often it was sent."""
        for one, state in wanted.items():
            self.states[one].append(state)
        tries, started = 0, time.monotonic()
        while True:
            tries += 1
            gateways = self._load.gateways
            try:
                response = self._client.post(
                    f"{gateways[self._at % len(gateways)]}/v1/collections/{_NAME}{path}", json=body, headers=headers
                )
            except httpx.HTTPError as error:
                self._load.count(type(error).__name__)
            else:
                if response.status_code == 200:
                    self._load.wrote.note(self._load.clock.now)
                    self.acknowledged += 1
                    return response.json(), tries
                code = response.json()["code"]
                self._load.count(code)
                if response.status_code < 429:
                    self.violations.append(f"{path} {body} was refused at try {tries}: {response.text[:300]}")
                    raise Stopped
            self._at += 1
            if self._load.ending.is_set() or time.monotonic() - started > _GIVE_UP_SECONDS:
                if not self._load.ending.is_set():
                    self.violations.append(f"{path} was not done in {_GIVE_UP_SECONDS:g} s: {self._load.counted()}")
                raise Stopped
            time.sleep(0.05)

    def _settle(self, wanted: dict[str, State], answer: dict[str, Any], *, retire: bool = False) -> None:
        """It was acknowledged. retire: it may be done once more, later: nothing else happens to its items."""
        for one, state in wanted.items():
            self.states[one] = [state]
            if retire and one in self._usable:
                self._usable.remove(one)
        while len(self._usable) < _IDS // 2:
            name = f"w{self._number}-more-{self._made}"
            self._made += 1
            self._usable.append(name)
            self.states[name] = [None]
        if self._rng.random() < 0.3:
            self._look(wanted, answer["token"])

    def _look(self, wanted: dict[str, State], token: str) -> None:
        """Read with the token what was written just now. Refusals are counted; an answer that is older is wrong."""
        asked = {"ids": list(wanted), "include": ["payload"]}
        if not wanted:
            return
        try:
            response = self._client.post(
                f"{self._load.gateway(self._rng)}/v1/collections/{_NAME}/get", json=asked, headers={"X-Kinbin-After": token}, timeout=10
            )
        except httpx.HTTPError as error:
            self._load.count(f"look {type(error).__name__}")
            return
        if response.status_code != 200:
            self._load.count(f"look {response.json()['code']}")
            return
        found: dict[str, State] = {one["id"]: one["payload"] for one in response.json()["items"]}
        for one, state in wanted.items():
            if found.get(one) != state:
                self.violations.append(f"after its own write {one} is {found.get(one)}, not {state}")


class Reader(threading.Thread):
    """One reader: exact queries, at one gateway."""

    def __init__(self, load: Load, number: int, seed: int) -> None:
        super().__init__(name=f"reader-{number}", daemon=True)
        self._load = load
        self._rng = random.Random(seed)
        self._at = number
        self._client = httpx.Client(timeout=_READ_SECONDS)
        self.violations: list[str] = []

    def run(self) -> None:
        """Read until the load ends."""
        with self._client:
            self._read()

    def _read(self) -> None:
        while not self._load.ending.is_set():
            gateways = self._load.gateways
            asked = {"vector": vector_of("query", self._rng.randrange(1_000)), "k": 3, "mode": "exact"}
            try:
                response = self._client.post(f"{gateways[self._at % len(gateways)]}/v1/collections/{_NAME}/query", json=asked)
            except httpx.HTTPError as error:
                self._load.count(f"read {type(error).__name__}")
                time.sleep(_PAUSE_SECONDS)
                continue
            if response.status_code == 200:
                if response.json().get("partial"):
                    self.violations.append("an answer was partial, and nobody asked for that")
                self._load.read.note(self._load.clock.now)
                time.sleep(_PAUSE_SECONDS)
            else:
                self._load.count(f"read {response.json()['code']}")
                time.sleep(0.02)


class Load:
    """Writers and readers on the gateways at these addresses."""

    def __init__(self, gateways: list[str], seed: int, name: str = "", *, writers: int = 4, readers: int = 2, inserts: bool = True) -> None:
        """name: of what is written, which no other load wrote. inserts: whether items are added that must not be there before."""
        self.gateways = gateways
        self.inserts = inserts
        self.ending = threading.Event()
        self.wrote, self.read = Times(), Times()
        self.clock = Clock()
        self._lock = threading.Lock()
        self._version = 0
        self._counts: Counter[str] = Counter()
        self.writers = [Writer(self, f"{name}-{number}", seed * 100 + number) for number in range(writers)]
        self.readers = [Reader(self, number, seed * 100 + 50 + number) for number in range(readers)]

    def next_version(self) -> int:
        """A number that none was before."""
        with self._lock:
            self._version += 1
            return self._version

    def gateway(self, rng: random.Random) -> str:
        """One of the gateways."""
        return rng.choice(self.gateways)

    def count(self, what: str) -> None:
        """Something failed, as it may."""
        with self._lock:
            self._counts[what] += 1

    def failed_reads(self) -> int:
        """Reads that were refused, or not answered in time."""
        with self._lock:
            return sum(count for name, count in self._counts.items() if name.startswith("read "))

    def counted(self) -> str:
        """What failed, and how often."""
        with self._lock:
            return ", ".join(f"{name} {count}" for name, count in sorted(self._counts.items()))

    def start(self) -> None:
        """Begin."""
        self.clock.start()
        for one in (*self.writers, *self.readers):
            one.start()

    def stop(self, seconds: float = 90.0) -> None:
        """End; what is under way is waited for."""
        self.ending.set()
        for one in (*self.writers, *self.readers):
            one.join(seconds)
        self.clock.ending.set()

    @property
    def violations(self) -> list[str]:
        """What must not have been."""
        return [text for one in self.writers for text in one.violations] + [text for one in self.readers for text in one.violations]

    @property
    def acknowledged(self) -> int:
        """Writes."""
        return sum(one.acknowledged for one in self.writers)

    def states(self) -> dict[str, list[State]]:
        """What each id may be."""
        return {one: states for writer in self.writers for one, states in writer.states.items()}
