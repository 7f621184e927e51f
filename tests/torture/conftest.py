"""Processes for the tests of torture, and seeds that are printed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

import kinbin
from nursery import Nursery
from torture.disk import compile_disk


@pytest.fixture(scope="session")
def watched_of_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    """Children that the shim watches, or the reason why there are none."""
    try:
        shim = compile_disk(tmp_path_factory.mktemp("shim"))
    except NotImplementedError as reason:
        pytest.skip(str(reason))
    kinbin.warm_up()
    with Nursery({"LD_PRELOAD": str(shim)}) as nursery:
        yield nursery


@pytest.fixture
def watched(watched_of_session: Nursery) -> Iterator[Nursery]:
    """The same, whose children end with the test."""
    yield watched_of_session
    watched_of_session.end_children()


@pytest.fixture
def a_seed() -> Callable[[], int]:
    """A new one, printed."""

    def make() -> int:
        seed = random.SystemRandom().randrange(10**6)
        print(f"seed {seed}")  # noqa: T201 - shown when the test fails
        return seed

    return make
