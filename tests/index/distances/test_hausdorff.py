from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.spatial.distance import directed_hausdorff

import naive_objects as naive
from kinbin.distances.hausdorff import hausdorff_matrix, hausdorff_to
from kinbin.distances.ragged import Ragged, ragged

SIZES = (1, 2, 3, 7, 8, 9, 16, 17, 31)
TWINS: list[tuple[bool, Callable[..., float]]] = [(False, naive.hausdorff), (True, naive.modified_hausdorff)]


def _sets(rng: np.random.Generator, dims: int) -> Ragged:
    return ragged([rng.normal(size=(size, dims)) for size in SIZES])


def _all(sets: Ragged, twin: Callable[..., float]) -> np.ndarray:
    one = [sets.one(i) for i in range(len(sets))]
    return np.array([[twin(x, y) for y in one] for x in one])


@pytest.mark.parametrize(("modified", "twin"), TWINS, ids=["hausdorff", "modified"])
@pytest.mark.parametrize("dims", [1, 2, 3, 20])
def test_the_distance_is_that_of_the_definition(rng: np.random.Generator, dims: int, modified: bool, twin: Callable[..., float]) -> None:
    """Sets of any size and dimension are as far apart as the distances of all their points say."""
    sets = _sets(rng, dims)
    np.testing.assert_allclose(hausdorff_matrix(sets, sets, modified=modified), _all(sets, twin), rtol=1e-12, atol=0)


def test_the_distance_is_that_of_scipy(rng: np.random.Generator) -> None:
    """The Hausdorff distance is the greater of SciPy's directed ones."""
    sets = _sets(rng, 3)
    points = [sets.one(i).astype(np.float64) for i in range(len(sets))]
    expected = [[max(directed_hausdorff(x, y)[0], directed_hausdorff(y, x)[0]) for y in points] for x in points]
    np.testing.assert_allclose(hausdorff_matrix(sets, sets), expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize(("modified", "twin"), TWINS, ids=["hausdorff", "modified"])
def test_a_cutoff_changes_no_distance_within_it(rng: np.random.Generator, modified: bool, twin: Callable[..., float]) -> None:
    """Up to the cutoff, itself included, distances are exact; beyond it, whatever is returned is beyond it."""
    sets = _sets(rng, 2)
    for i, row in enumerate(_all(sets, twin)):
        for cutoff in row:
            found = hausdorff_to(sets.one(i), sets, modified=modified, cutoff=cutoff)
            within = row <= cutoff
            np.testing.assert_allclose(found[within], row[within], rtol=1e-12, atol=0)
            assert (found[~within] > cutoff).all()


@pytest.mark.parametrize("modified", [False, True])
def test_far_sets_are_left_before_all_points_are_seen(rng: np.random.Generator, modified: bool) -> None:
    """What is returned of a set beyond the cutoff is not always its distance: the rest of its points was not asked for."""
    sets = ragged([rng.normal(size=(400, 2)) * (1 + 9 * (i > 0)) for i in range(6)])
    found = hausdorff_to(sets.one(0), sets, modified=modified, cutoff=0.1)[1:]
    assert (found != hausdorff_to(sets.one(0), sets, modified=modified)[1:]).all()


@pytest.mark.parametrize("modified", [False, True])
def test_repeated_points_count_once_for_hausdorff_and_each_for_the_mean(modified: bool) -> None:
    """Repeating a point changes a mean over the points, and no greatest distance."""
    sets = ragged([[[0.0, 0.0]], [[0.0, 3.0], [0.0, 1.0]], [[0.0, 3.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]]])
    np.testing.assert_allclose(hausdorff_to(sets.one(0), sets, modified=modified), [0.0, 2.0, 1.5] if modified else [0.0, 3.0, 3.0])
