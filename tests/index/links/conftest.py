"""Collections that the tests of links read: the same items without links and with, in blocks so small that there are many."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import kinbin
import kinbin.upkeep.linking
from linked import KINDS, code_layout
from linked_pairs import ASKED, ROWS, Pair, grow


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kinbin.Database]:
    """A database for collections that several tests read."""
    with kinbin.open(tmp_path_factory.mktemp("links")) as database:
        yield database


@pytest.fixture(scope="module")
def pairs(shared: kinbin.Database) -> Callable[[str, str], Pair]:
    """A pair for a kernel and a kind of vector, made when it is first asked for."""
    known: dict[tuple[str, str], Pair] = {}

    def get(kernel: str, kind: str) -> Pair:
        if (kernel, kind) not in known:
            X, Q = KINDS[kind].rows(ROWS, seed=8), KINDS[kind].rows(ASKED, seed=9)
            made = [
                shared.create_collection(f"{kernel}-{kind.replace(' ', '-')}-{form}", kernel=kernel, dim=KINDS[kind].dim, seed=5)
                for form in ("plain", "linked")
            ]
            there = grow(made[0], X, link=False)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(kinbin.upkeep.linking, "_BLOCK_BYTES", 8_192)
                patch.setattr(kinbin.upkeep.linking, "_LINK_SHIFT", 6)
                grow(made[1], X, link=True)
            links = made[1].stats()["links"]
            assert (links["rows"], links["unlinked_rows"]) == (ROWS - 600, 500), "linked rows that stayed, and those that came since"
            assert links["code_layout"] == code_layout(kernel, kind)
            assert made[0].stats()["links"] is None
            known[kernel, kind] = Pair(made[0], made[1], X, Q, there)
        return known[kernel, kind]

    return get
