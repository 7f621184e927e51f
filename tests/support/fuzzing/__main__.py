"""The long run: `python -m fuzzing --count 200000`. Half of the requests are harmed ones, half are made of the document by schemathesis."""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from http.client import HTTPException
from pathlib import Path

from fuzzing.bodies import harmed
from fuzzing.contract import Contract
from fuzzing.service import Fuzzed

DOCUMENT = Path(__file__).resolve().parents[3] / "service" / "openapi.json"
_ROUND = 2_000
"""Requests after which the collections are as they were."""
_GROWTH = 16 << 20
"""Bytes that a server may hold more after the last quarter of the requests of a kind. What it holds grows at first: each kind of request
has its largest one, one alone may hold 32 MiB, and what was held once the allocator keeps."""


class Run:
    """What was asked and found so far."""

    def __init__(self, service: Fuzzed, count: int, log: Path | None, seconds: float) -> None:
        self.service = service
        self.count, self.log = count, log
        self.asked = 0
        self.statuses: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.parts: list[list[int]] = []
        """Of each kind of requests, what was held after each hundredth of all."""
        self._end = time.monotonic() + seconds

    @property
    def over(self) -> bool:
        """Whether nothing more is asked."""
        return self.asked >= self.count or not self.service.alive() or time.monotonic() > self._end

    def add(self, what: str, faults: list[str]) -> None:
        """Count a request, and note what was wrong with its answer."""
        self.asked += 1
        for fault in faults:
            self.faults[fault.splitlines()[0][:120]] += 1
            if self.log is not None:
                with self.log.open("a") as file:
                    file.write(json.dumps({"fault": fault, "request": what}) + "\n")
        if self.asked % max(1, self.count // 100) == 0:
            self.parts[-1].append(self.service.memory())
        if self.asked % max(1, self.count // 10) == 0:
            print(f"{self.asked:,} requests: the server holds {self.service.memory() / 2**20:.0f} MiB", flush=True)  # noqa: T201

    def growth(self) -> int:
        """Bytes that the server held more after the last quarter of the requests of a kind, at most."""
        return max((held[-1] - held[-1 - len(held) // 4] for held in self.parts if held), default=0)


def _harmed(run: Run, contract: Contract, rng: random.Random, upto: int) -> None:
    snapshots: list[str] = []
    run.parts.append([])
    while run.asked < upto and not run.over:
        if run.asked % _ROUND == 0:
            run.service.refill()
            snapshots = run.service.snapshots()
        asked = harmed(contract, rng, snapshots)
        try:
            status, media_type, body = run.service.ask(asked)
        except (HTTPException, OSError) as error:
            run.add(f"{asked}"[:4_000], [f"no answer: {error!r}"])
            continue
        run.statuses[str(status)] += 1
        run.add(f"{asked}"[:4_000], contract.faults(asked.operation, status, media_type, body))


def _generated(run: Run, document: dict[str, object], seed: int) -> None:
    from fuzzing.generated import generated

    def told(what: str, faults: list[str]) -> bool:
        run.add(what, faults)
        return run.over

    run.parts.append([])
    while not run.over:
        run.service.refill()
        generated(document, f"http://127.0.0.1:{run.service.server.port}", seed, 10, told)
        seed += 1_000_000


def main() -> int:
    """Ask, print what was found; 1 if anything was not as documented."""
    parser = argparse.ArgumentParser(prog="fuzzing", description=__doc__)
    parser.add_argument("--count", type=int, default=20_000, help="requests in all")
    parser.add_argument("--share", type=float, default=0.5, help="of them, those that are harmed (1: schemathesis is not needed)")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--seconds", type=float, default=1e9, help="at most")
    parser.add_argument("--log", type=Path, default=None, help="where faults are written, one a line")
    given = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)  # noqa: T201
    document = json.loads(DOCUMENT.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as work:
        service = Fuzzed(Path(work))
        try:
            run = Run(service, given.count, given.log, given.seconds)
            _harmed(run, Contract(document), random.Random(seed), int(given.count * given.share))
            if given.share < 1:
                _generated(run, document, seed)
            alive = service.alive()
            if alive:
                service.refill()
        finally:
            service.close()
        tail = service.server.logged()[-2_000:]
    return _told(run, alive, tail)


def _told(run: Run, alive: bool, tail: str) -> int:
    grown = run.growth()
    lines = [f"{run.asked:,} requests; statuses of the harmed ones: {dict(sorted(run.statuses.items()))}"]
    lines += [f"  {number:,} times: {fault}" for fault, number in run.faults.most_common()]
    lines.append(f"the server {'lives' if alive else 'DIED'}")
    lines.append(f"after the last quarter of a kind it held {grown / 2**20:.0f} MiB more (allowed: {_GROWTH >> 20})")
    if not alive:
        lines.append(tail)
    print("\n".join(lines), flush=True)  # noqa: T201
    return 0 if alive and not run.faults and grown <= _GROWTH else 1


if __name__ == "__main__":
    sys.exit(main())
