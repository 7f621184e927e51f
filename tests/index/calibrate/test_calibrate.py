"""Measuring costs: the fits, what is left out, and that every cost has its experiment. No test looks at how long anything takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields

import numpy as np
import pytest

import kinbin
import kinbin.calibrate
from kinbin.calibrate import fit as fit_module
from kinbin.calibrate.fit import Measured, coefficients

NAMES = [one.name for one in fields(kinbin.Costs)]
COUNTS = np.array([[1.0, 10.0], [1.0, 100.0], [1.0, 1000.0]])
POINTS: list[Callable[[], object]] = [list, list, list]


def timed(monkeypatch: pytest.MonkeyPatch, *tries: np.ndarray) -> list[int]:
    """Let points take these times (rounds, points), one after the other; a list that grows with each."""
    asked: list[int] = []

    def times(points: Sequence[object], rounds: int) -> np.ndarray:
        asked.append(len(points))
        return tries[min(len(asked), len(tries)) - 1]

    monkeypatch.setattr(fit_module, "times_of", times)
    return asked


def test_a_fit_finds_what_things_take() -> None:
    """Of times that are sums of what things take the fit gives that, with no spread; one slow round in five changes nothing."""
    times = np.tile(COUNTS @ [500.0, 3.0], (5, 1))
    values, spreads = coefficients(times, COUNTS)
    assert values == pytest.approx([500.0, 3.0])
    assert spreads == pytest.approx([0.0, 0.0], abs=1e-9)
    times[2] *= 9.0
    assert coefficients(times, COUNTS)[0] == pytest.approx([500.0, 3.0])


def test_a_spread_is_that_of_the_rounds() -> None:
    """Rounds in which a thing takes 1 to 5 ns have quartiles of 2 and 4 around a median of 3."""
    times = np.array([COUNTS @ [500.0, ns] for ns in (1.0, 2.0, 3.0, 4.0, 5.0)])
    assert coefficients(times, COUNTS)[1][1] == pytest.approx(2.0 / 3.0)


def test_times_of_calls_every_point_in_every_round() -> None:
    """Points are called in turn, once before anything is counted; every time is above 0."""
    called: list[int] = []
    times = fit_module.times_of([lambda: called.append(0), lambda: called.append(1)], 3)
    assert called == [0, 1] * 4
    assert times.shape == (3, 2)
    assert (times > 0).all()


def test_what_is_measured_well_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Named columns are kept, less what is known of them; the others are not; one try is enough."""
    measured = Measured(1.0)
    measured.costs["line"] = 1.0
    asked = timed(monkeypatch, np.tile(COUNTS @ [500.0, 3.0], (5, 1)))
    measured.fit(("", "node"), POINTS, COUNTS.tolist(), less=lambda known: (0.0, known["line"]))
    assert measured.costs == {"line": 1.0, "node": pytest.approx(2.0)}
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("each", "known"),
    [
        ([-3.0] * 5, 0.0),
        ([-1.0, -2.0, -3.0, -4.0, -5.0], 0.0),
        ([2.0, 2.5, 3.0, 3.5, 4.0], 0.0),
        ([2.9, 2.9, 3.0, 3.1, 3.1], 2.5),
        ([3.0] * 5, 3.5),
    ],
    ids=["negative", "negative, and spread", "spread", "spread of what is left", "less than its known part"],
)
def test_what_is_not_measured_well_is_left_out(monkeypatch: pytest.MonkeyPatch, each: list[float], known: float) -> None:
    """A cost that is not positive, or whose quartiles are more than 30 % of it apart, is tried again and then left out."""
    measured = Measured(1.0)
    asked = timed(monkeypatch, np.array([COUNTS @ [50_000.0, ns] for ns in each]))
    measured.fit(("walk", "node"), POINTS, COUNTS.tolist(), less=lambda _: (0.0, known))
    assert set(measured.costs) == {"walk"}
    assert len(asked) == 4


def test_a_better_try_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was disturbed at first is kept when it is measured well; what was measured well before stays."""
    measured = Measured(1.0)
    disturbed = np.array([COUNTS @ [50_000.0, ns] for ns in (1.0, 2.0, 3.0, 4.0, 5.0)])
    asked = timed(monkeypatch, disturbed, np.tile(COUNTS @ [60_000.0, 7.0], (5, 1)))
    measured.fit(("walk", "node"), POINTS, COUNTS.tolist())
    assert measured.costs == {"walk": pytest.approx(50_000.0), "node": pytest.approx(7.0)}
    assert len(asked) == 2


def test_what_rests_on_an_unknown_cost_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the cost that is to be subtracted nothing is measured."""
    measured = Measured(1.0)
    asked = timed(monkeypatch, np.tile(COUNTS @ [500.0, 3.0], (5, 1)))
    measured.fit(("", "node"), POINTS, COUNTS.tolist(), less=lambda known: (0.0, known["line"]))
    assert (measured.costs, asked) == ({}, [])


def test_every_cost_has_its_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The experiments name every cost once and nothing else; their counts tell all columns apart; what rests on others comes after them."""
    named: list[str] = []

    def fit(
        measured: Measured, names: Sequence[str], points: Sequence[Callable[[], object]], counts: Sequence[Sequence[float]],
        less: Callable[[dict[str, float]], Sequence[float]] | None = None,
    ) -> None:  # fmt: skip
        assert np.linalg.matrix_rank(np.array(counts, float)) == len(names)
        assert np.array(counts).min() > 0
        assert len(points) == len(counts)
        if less is not None:
            assert len(less(dict.fromkeys(named, 1.0))) == len(names)
        for point in points:
            point()
        named.extend(name for name in names if name)

    monkeypatch.setattr(Measured, "fit", fit)
    kinbin.measure_costs(scale=0.01)
    assert sorted(named) == sorted(NAMES)


def test_measuring_in_small() -> None:
    """What comes out is named as costs are, in their order, and positive; progress tells every experiment, and the end."""
    told: list[tuple[int, int]] = []
    found = kinbin.measure_costs(lambda done, total: told.append((done, total)), scale=0.01)
    assert list(found) == [name for name in NAMES if name in found]
    assert found
    assert all(ns > 0.0 for ns in found.values())
    assert told == [(done, told[-1][1]) for done in range(told[-1][1] + 1)]


def test_progress_may_end_it() -> None:
    """What progress raises comes out."""

    def stop(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kinbin.measure_costs(stop, scale=0.01)
