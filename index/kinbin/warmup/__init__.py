"""Compiling (or loading) kernels before the first request has to wait for them."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence

from kinbin.database import Database
from kinbin.errors import InvalidInput
from kinbin.warmup.pool import Compiling, Progress, compile_missing
from kinbin.warmup.workload import STAGES, silenced

__all__ = ["Compiling", "warm_up"]

_loaded: set[str] = set()
"""Groups whose kernels this process, or the one that it was forked from, has used once."""


def warm_up(progress: Progress | None = None, groups: Sequence[str] | None = None) -> None:
    """Compile all kernels that have no code on disk, in as many processes as there are cores, and load them into this one.

    groups: "small" (add, read, and search what a scan searches, under the kernels and samplers that are proposed first), "bands" (the
    same of others, and of several fields; runs, and searching by bands), "links" (building links, and walking), in this order; a group
    takes those before it along. None: all. progress: called several times a second while something is compiled, and every half second
    while code is loaded; what it raises ends the warm-up. A kernel is compiled when it is first called, if no warm-up came before: the
    caller then waits for it, and for nobody else.

    Cost: from disk a second, and nothing in a process that has done it, or is a fork of one that has; compiling, some 95 s of one
    core (the small ones 18), shared by the cores. Several processes that warm up at once share the work.

    Raises:
        InvalidInput: there is no such group.
    """
    wanted = list(STAGES) if groups is None else list(groups)
    if not set(wanted) <= set(STAGES):
        raise InvalidInput.of("bad_parameter", f"groups are {', '.join(STAGES)}, not {', '.join(map(str, wanted))}", field="groups")
    names = list(STAGES)[: max((list(STAGES).index(name) for name in wanted), default=-1) + 1]
    told: list[Compiling] = []

    def tell(state: Compiling) -> None:
        told[:] = [state]
        if progress is not None:
            progress(state)

    compile_missing(names, tell)
    if _loaded >= set(names):
        return
    with tempfile.TemporaryDirectory(prefix="kinbin-") as folder, Database(folder) as database, silenced():
        for name in names:
            STAGES[name](database, lambda: tell(told[0]))
    _loaded.update(names)
