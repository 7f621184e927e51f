"""Measure what is not measured yet, in several processes, until a deadline."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from papers.ledger import Finished, Ledger
from papers.measure import measured
from papers.plan import Cell

__all__ = ["ONE_THREAD", "run"]

ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
Told = Callable[[Cell, Finished], None]


def _end_with_the_parent() -> None:
    """A worker whose parent was killed ends itself, instead of waiting for work for ever."""

    def watch() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    from kinbin import set_threads

    set_threads(1)


def run(waiting: Iterable[Cell], ledger: Ledger, data: Path, limits: tuple[int, float], told: Told, commit: str) -> None:
    """Measure cells in their order and add each to the ledger when it is finished.

    limits: processes, and when to begin no more cells (`time.monotonic`). What was begun is finished. The first error
    ends the run; what was finished before stays.
    """
    processes, deadline = limits
    os.environ.update(ONE_THREAD)
    context = multiprocessing.get_context("spawn")
    todo: Iterator[Cell] = iter(waiting)
    with concurrent.futures.ProcessPoolExecutor(processes, mp_context=context, initializer=_end_with_the_parent) as pool:
        running: dict[concurrent.futures.Future[Finished], Cell] = {}
        try:
            while True:
                while len(running) < processes and time.monotonic() < deadline and (cell := next(todo, None)) is not None:
                    running[pool.submit(measured, cell, data, commit)] = cell
                if not running:
                    return
                done, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
                for future in done:
                    finished = future.result()
                    ledger.add(finished)
                    told(running.pop(future), finished)
        except BaseException:
            # Leaving the pool waits for what is being measured, which nobody will read.
            for worker in multiprocessing.active_children():
                worker.terminate()
            raise
