"""Calls that fail in background threads: some at each run of the suite; `make torture ARGS=background` has all of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nursery import Nursery
from torture import background
from torture.background import WORKS, background_campaign

pytestmark = pytest.mark.durability

_ONCE, _LASTING = background.FAULTS[:3], background.FAULTS[3:]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "calls"), [("seal", 20), ("merge", 20), ("link", 16), ("index", 8)])
def test_work_in_the_background_outlives_failing_calls(
    watched: Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, a_seed: Callable[[], int], name: str, calls: int
) -> None:
    """Sealing, merging, linking and saving whose calls fail, once or until cleared, are told, tried again and done; nothing is lost."""
    rng = random.Random(a_seed())
    monkeypatch.setattr(background, "FAULTS", (rng.choice(_ONCE), rng.choice(_LASTING)))
    found = background_campaign(watched, tmp_path, [name], every=0, first=rng.randrange(calls))
    assert found.wrong == []
    assert found.good == 2, "both faults are met"


def test_all_work_is_tried() -> None:
    """No work of the background is left out above."""
    marks = test_work_in_the_background_outlives_failing_calls.pytestmark  # type: ignore[attr-defined]
    (mark,) = (one for one in marks if one.name == "parametrize")
    assert {name for name, _ in mark.args[1]} == set(WORKS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "faults", "patience", "told"),
    [("ends", _ONCE[:1], 1.5, "not done"), ("nothing", _LASTING[:1], 1.5, "not told"), ("lost", _ONCE[:1], 60.0, "lost")],
)
def test_a_bug_in_the_background_is_told(
    watched: Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plant: str, faults: tuple[Any, ...], patience: float, told: str
) -> None:
    """A thread that an error ends, one whose failures nobody is told of, and a seal that loses rows: each is told as what it is."""
    monkeypatch.setattr(background, "FAULTS", faults)
    # The n-th call may be of another thread, whose end or silence does no harm.
    found = background_campaign(watched, tmp_path, ["seal"], every=4, first=4, plant=plant, patience=patience)
    assert [one for one in found.wrong if told in one], found.table()
