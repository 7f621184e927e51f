"""Links under many threads: queries while rows are added, deleted, merged and linked."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

import kinbin
from linked import KINDS, link_sets, names, still

ROWS, BATCH, ROUNDS = 900, 60, 5


@pytest.mark.slow
def test_queries_while_another_thread_edits_and_links(tmp_path: Path) -> None:
    """While four threads query and another edits and links, nothing deleted is answered and everything added is found, without an error."""
    X = KINDS["dense"].rows(ROWS, seed=8)
    gone: set[str] = set()
    there: set[str] = set()
    failures: list[BaseException] = []
    asked = [0]
    done = threading.Event()

    def ask(number: int, collection: kinbin.Collection) -> None:
        rng = np.random.default_rng(number)
        while not done.is_set():
            mode = ("links", "auto", "links", "exact")[int(rng.integers(4))]
            picks = rng.integers(0, ROWS, 8)
            gone_before, there_before = gone.copy(), there.copy()
            # At the default target walks of one of these graphs miss one row of 600, whoever asks.
            answers = collection.query_batch(X[picks], k=5, mode=mode, target_recall=0.99)
            there_after = there.copy()
            for pick, answer in zip(names(picks), answers, strict=True):
                assert not gone_before & set(answer.ids), "a deleted item was answered"
                if pick in there_before and pick in there_after:
                    assert answer.ids[0] == pick, f"{mode}: an item that is there is not its own nearest"
            asked[0] += 1

    def watched(number: int, collection: kinbin.Collection) -> None:
        try:
            ask(number, collection)
        except BaseException as error:  # noqa: BLE001 - it is raised again in the test's own thread
            failures.append(error)
            done.set()

    with still(), kinbin.open(tmp_path) as database:
        collection = database.create_collection("c", dim=KINDS["dense"].dim, seed=5)
        collection.add(names(range(ROWS - ROUNDS * BATCH)), X[: ROWS - ROUNDS * BATCH])
        there.update(names(range(ROWS - ROUNDS * BATCH)))
        collection.link()
        threads = [threading.Thread(target=watched, args=(number, collection)) for number in range(4)]
        for thread in threads:
            thread.start()
        seen = set(link_sets(collection))
        try:
            for round_ in range(ROUNDS):
                start = ROWS - (ROUNDS - round_) * BATCH
                collection.add(names(range(start, start + BATCH)), X[start : start + BATCH])
                there.update(names(range(start, start + BATCH)))
                doomed = names(range(round_, ROWS - ROUNDS * BATCH, 2 * ROUNDS))
                # First nobody expects them any more, then they go, then nobody may meet them.
                there.difference_update(doomed)
                collection.delete(doomed)
                gone.update(doomed)
                collection.link()
                seen.update(link_sets(collection))
                if done.is_set():
                    break
        finally:
            done.set()
            for thread in threads:
                thread.join()
        if failures:
            raise failures[0]
        assert len(seen) == ROUNDS + 1, "every round made a link set"
        assert asked[0] > 4 * ROUNDS, "the threads asked too little to prove anything"
        links = collection.stats()["links"]
        assert (links["rows"], links["unlinked_rows"]) == (len(there), 0)
        assert collection.check().ok


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["links", "auto"])
def test_threads_get_what_one_gets(tmp_path: Path, mode: str) -> None:
    """Answers of many threads at once, batches and single queries of other sizes among them, are those of one alone."""
    X, Q = KINDS["sparse"].rows(1_200, seed=8), KINDS["sparse"].rows(40, seed=9)
    with still(), kinbin.open(tmp_path) as database:
        collection = database.create_collection("c", dim=None, seed=5)
        collection.add(names(range(1_200)), X)
        collection.link()
        collection.delete(names(range(0, 1_200, 7)))
        wanted = [answer.ids for answer in collection.query_batch(Q, mode=mode)]
        failures: list[str] = []

        def ask(number: int) -> None:
            for round_ in range(3):
                size = (1, 7, 40)[(number + round_) % 3]
                for start in range(0, 40, size):
                    got = [answer.ids for answer in collection.query_batch(Q[start : start + size], mode=mode)]
                    if got != wanted[start : start + size]:
                        failures.append(f"thread {number}, queries {start} to {start + size}")

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
