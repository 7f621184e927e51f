"""How far a long call is: bars and functions, of adds and of batches of queries."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kinbin_client import AsyncClient, Chunking, Client, InvalidArgument, InvalidInput, Query

ROWS = np.eye(5, dtype=np.float32) + 1
IDS = list("abcde")
TWO = Chunking(max_items=2)


@pytest.fixture
def client(local_path: Path) -> Iterator[Client]:
    """A client in local mode."""
    with Client(path=local_path) as client:
        yield client


CALLS: dict[str, Callable[..., Any]] = {
    "add": lambda client, **how: client.add(IDS, ROWS, **how),
    "query_batch": lambda client, **how: client.query_batch(ROWS, k=1, **how),
    "query_each": lambda client, **how: client.query_each([Query(row) for row in ROWS], **how),
}


@pytest.mark.parametrize("name", CALLS)
def test_function_is_told(name: str, client: Client) -> None:
    """A function is told after every request how many items or queries are done, and of how many."""
    client.add(IDS, ROWS)
    told: list[tuple[int, int]] = []
    CALLS[name](client, chunking=TWO, progress=lambda done, total: told.append((done, total)))
    assert told == [(2, 5), (4, 5), (5, 5)]


@pytest.mark.parametrize("name", CALLS)
def test_bar_is_shown(name: str, client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    """With True a bar reaches the whole and is closed; with False and None nothing is shown."""
    client.add(IDS, ROWS)
    CALLS[name](client, chunking=TWO, progress=True)
    shown = capsys.readouterr().err
    assert "5.00/5.00" in shown
    assert shown.endswith("\n")
    assert ("items/s" if name == "add" else "queries/s") in shown
    for nothing in (False, None):
        CALLS[name](client, chunking=TWO, progress=nothing)
    assert capsys.readouterr().err == ""


async def test_bar_of_a_call_that_fails_is_closed(client: Client, local_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a request is refused the bar stays where it was, and is closed, with both clients."""
    bars: list[Any] = []

    class Bar:
        def __init__(self, **options: Any) -> None:
            self.n, self.total, self.closed = 0, options["total"], False
            bars.append(self)

        def update(self, more: int) -> None:
            self.n += more

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: object) -> None:
            self.closed = True

    monkeypatch.setitem(sys.modules, "tqdm.auto", SimpleNamespace(tqdm=Bar))
    vectors = [[1.0, 2.0], [2.0, 1.0], [1.0, 1.0], [0.0, 0.0], [3.0, 1.0]]
    with pytest.raises(InvalidInput):
        client.add(IDS, vectors, chunking=TWO, progress=True)
    async with AsyncClient(path=local_path) as awaited:
        with pytest.raises(InvalidInput):
            await awaited.add(IDS, vectors, chunking=TWO, progress=True)
    assert [(bar.n, bar.total, bar.closed) for bar in bars] == [(2, 5, True), (2, 5, True)]


def test_missing_tqdm_is_told(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where tqdm is not installed, True is refused before anything is sent, and the error says what to install."""
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(InvalidArgument, match=r"pip install './clients/python\[progress\]'"):
        client.add(IDS, ROWS, progress=True)
    assert client.collections() == []


def test_what_is_no_progress_is_refused(client: Client) -> None:
    """Anything but a function, True, False and None is refused before anything is sent."""
    with pytest.raises(InvalidArgument, match="progress is True, for a bar, or a function of done and total"):
        client.add(IDS, ROWS, progress="yes")  # type: ignore[arg-type]
    assert client.collections() == []
