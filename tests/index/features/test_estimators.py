"""Feature maps and graphs as scikit-learn's estimators."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from kinbin import InvalidInput, set_threads
from kinbin.features import FourierFeatures, GCWSFeatures, KinbinTransformer, NystroemFeatures, ProductFeatures, SignFeatures, pairwise
from kinbin.query.threads import threads_set

MAPS = [
    GCWSFeatures(n_samples=40, bits=4, random_state=0),
    GCWSFeatures("gmm", n_samples=2100, bits=2, random_state=0),
    GCWSFeatures("minmax", n_samples=8, bits=3, sparse_output=False, random_state=0),
    GCWSFeatures(n_samples=40, bits=4, sampler="dart", random_state=0),
    SignFeatures(n_samples=40, random_state=0),
    SignFeatures("cauchy", n_samples=8, sparse_output=False, random_state=0),
    ProductFeatures(n_samples=40, bits=4, random_state=0),
    ProductFeatures("gmm", "cauchy", n_samples=8, bits=2, sparse_output=False, random_state=0),
    NystroemFeatures(n_components=8, random_state=0),
    NystroemFeatures("chi2", n_components=8, random_state=0),
    FourierFeatures(n_components=8, random_state=0),
    FourierFeatures(n_components=8, folded=True, normalised=True, random_state=0),
]
ESTIMATORS = [*MAPS, KinbinTransformer("gmm", n_neighbors=3, random_state=0)]
CHECKED = [*MAPS[:1], *MAPS[2:], KinbinTransformer(), KinbinTransformer("chi2", target_recall=0.9, mode="connectivity")]


def rows(rng: np.random.Generator, count: int = 30) -> Any:
    """Rows some of whose values are 0, and the third all of them."""
    X = rng.random((count, 12)) * (rng.random((count, 12)) < 0.6)
    X[2] = 0.0
    return X


def plain(features: Any) -> Any:
    """As an array."""
    return features.toarray() if sp.issparse(features) else np.asarray(features)


@pytest.mark.slow
@parametrize_with_checks(CHECKED)  # type: ignore[untyped-decorator]
def test_scikit_learn_takes_it(estimator: Any, check: Any) -> None:
    """Every check of scikit-learn's own passes; none is expected to fail."""
    check(estimator)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_sparse_rows_have_the_features_of_dense_ones(estimator: Any, rng: np.random.Generator) -> None:
    """Sparse input of any format, with explicit zeros or not, gives what dense input gives."""
    X = rows(rng)
    wanted = plain(clone(estimator).fit_transform(X))
    with_zeros = sp.csr_array((X.reshape(-1), np.tile(np.arange(12), 30), np.arange(0, 361, 12)), shape=X.shape)
    for given in (sp.csr_matrix(X), sp.csc_array(X), sp.coo_array(X), with_zeros):
        assert np.abs(plain(clone(estimator).fit_transform(given)) - wanted).max() < 1e-12
        assert np.abs(plain(clone(estimator).fit(X).transform(given)) - wanted).max() < 1e-12


@pytest.mark.parametrize("estimator", MAPS, ids=repr)
def test_rows_of_zeros_have_no_features(estimator: Any, rng: np.random.Generator) -> None:
    """A row of zeros is mapped to zeros, alone and among others, and all others are not."""
    X = rows(rng)
    fitted = clone(estimator).fit(X)
    features = plain(fitted.transform(X))
    assert not features[2].any()
    assert np.delete(features, 2, axis=0).any(axis=1).all()
    assert not plain(fitted.transform(np.zeros((2, 12)))).any()
    assert plain(fitted.transform(sp.csr_array((2, 12)))).shape == features[:2].shape


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_fitting_again_with_a_seed_gives_the_same(estimator: Any, rng: np.random.Generator) -> None:
    """The same seed gives the same features, whatever batch and threads; another seed gives others."""
    X = rows(rng, 200)
    wanted = plain(clone(estimator).fit_transform(X))
    before = threads_set()
    try:
        set_threads(3)
        assert np.abs(plain(clone(estimator).fit(X).transform(X)) - wanted).max() < 1e-12
    finally:
        set_threads(before)
    if not isinstance(estimator, KinbinTransformer):
        fitted = clone(estimator).fit(X)
        assert np.abs(plain(fitted.transform(X[50:60])) - wanted[50:60]).max() < 1e-12
        other = plain(clone(estimator).set_params(random_state=1).fit_transform(X))
        assert np.abs(other - wanted).max() > 0.01


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_pickled_estimators_go_on(estimator: Any, rng: np.random.Generator) -> None:
    """A fitted estimator that was pickled gives the same features; one that was not fitted can be fitted."""
    X = rows(rng)
    fitted = clone(estimator).fit(X)
    wanted = plain(fitted.transform(X))
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(plain(again.transform(X)), wanted)
    assert np.array_equal(plain(pickle.loads(pickle.dumps(clone(estimator))).fit_transform(X)), plain(clone(fitted).fit_transform(X)))


def test_tables_of_hashes_are_not_pickled(rng: np.random.Generator) -> None:
    """A pickled map of samples holds its seed, not what is made from it."""
    fitted = GCWSFeatures(n_samples=2000, random_state=0).fit(rows(rng))
    fitted.transform(rows(rng))
    assert len(pickle.dumps(fitted)) < 1000


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_features_have_names(estimator: Any, rng: np.random.Generator) -> None:
    """Names begin with the class in small letters, and are as many as features."""
    X = rows(rng)
    fitted = clone(estimator).fit(X)
    names = fitted.get_feature_names_out()
    assert names[0] == f"{type(estimator).__name__.lower()}0"
    assert len(set(names)) == len(names) == fitted.transform(X).shape[1]
    with pytest.raises(NotFittedError):
        clone(estimator).get_feature_names_out()


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_features_have_the_type_of_the_rows(estimator: Any, dtype: Any, rng: np.random.Generator) -> None:
    """float32 rows have float32 features, float64 ones float64; distances are float64."""
    features = clone(estimator).fit_transform(rows(rng).astype(dtype))
    assert features.dtype == (np.float64 if isinstance(estimator, KinbinTransformer) else dtype)


@pytest.mark.parametrize(("n_samples", "bits", "kind"), [(64, 8, np.int32), (2048, 24, np.int64)])
def test_columns_have_room(n_samples: int, bits: int, kind: Any, rng: np.random.Generator) -> None:
    """Columns past 2**31 are counted with 64 bits, others with 32; each sample has one column of its own in each row."""
    features = GCWSFeatures(n_samples=n_samples, bits=bits, sampler="dart", random_state=0).fit_transform(rows(rng))
    assert features.indices.dtype == kind
    assert features.shape[1] == n_samples << bits
    kept = np.delete(np.arange(30), 2)
    columns = features[kept].indices.reshape(29, n_samples)
    assert (columns >> bits == np.arange(n_samples)).all()


def test_maps_go_into_pipelines(rng: np.random.Generator) -> None:
    """A pipeline takes names of parameters, and a linear model learns from the features."""
    X, y = rows(rng, 120), np.arange(120) % 2
    X[y == 1, :4] += 1.0
    model = make_pipeline(GCWSFeatures(bits=4), LogisticRegression())
    model.set_params(gcwsfeatures__n_samples=128, gcwsfeatures__random_state=0).fit(X[:80], y[:80])
    assert model.score(X[80:], y[80:]) > 0.9


def in_a_process(program: str) -> str:
    """What a program prints in a new interpreter."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_library_does_not_load_scikit_learn() -> None:
    """`import kinbin` and all of its names load no scikit-learn."""
    program = "import sys, kinbin\n[getattr(kinbin, name) for name in kinbin.__all__]\nprint('sklearn' in sys.modules)"
    assert in_a_process(program) == "False"


def test_without_scikit_learn_the_extra_is_named() -> None:
    """Where scikit-learn is absent, importing says which extra brings it."""
    program = "import sys\nsys.modules['sklearn'] = None\ntry:\n import kinbin.features\nexcept ImportError as e:\n print(e)"
    assert in_a_process(program) == "kinbin.features needs scikit-learn: install kinbin with its extra, kinbin[features]"


_BROKEN = [("indices", 1, 4), ("indices", 0, -1), ("indices", 2, 10**9), ("indptr", 1, 99)]


@pytest.mark.parametrize(("part", "place", "value"), _BROKEN)
@pytest.mark.parametrize("form", [sp.csr_matrix, sp.csc_matrix])
def test_broken_sparse_matrices_are_refused(form: Any, part: str, place: int, value: int) -> None:
    """A column, or row, that is not there is never looked up, by no map and no matrix of kernels."""
    broken = form(np.ones((4, 4)))
    getattr(broken, part)[place] = value
    maps = [GCWSFeatures(), SignFeatures(), FourierFeatures(), NystroemFeatures(n_components=2), ProductFeatures()]
    for one in [*maps, KinbinTransformer()]:
        with pytest.raises(InvalidInput, match="matrix"):
            clone(one).fit(broken)
    for kernel in ("gmm", "chi2", "cosine"):
        for given in ((broken,), (np.ones((2, 4)), broken)):
            with pytest.raises(InvalidInput, match="matrix"):
                pairwise(*given, kernel=kernel)


def test_what_is_no_matrix_of_numbers_is_refused() -> None:
    """Masked values are not used, complex ones not cast, and the type of the result is one of two."""
    masked = np.ma.masked_array([[1.0, 2.0], [3.0, 4.0]], [[False, True], [False, False]])
    for refuse in (lambda: pairwise(masked), lambda: GCWSFeatures().fit(masked)):
        with pytest.raises(InvalidInput, match="masked arrays are not taken"):
            refuse()
    with pytest.raises(ValueError, match=r"rows are numbers|Complex data"):
        pairwise([[1j, 2.0]])
    with pytest.raises(InvalidInput, match="dtype is float64 or float32, not"):
        pairwise([[1.0, 2.0]], dtype="foo")


def test_a_seed_of_the_graph_is_any_that_other_maps_take(rng: np.random.Generator) -> None:
    """Whole numbers of NumPy are seeds, equal random states give equal graphs, and words are refused."""
    X = rng.gamma(0.3, 1.0, (200, 8))
    seeds = []
    for state in (5, np.int64(5), np.random.RandomState(3), np.random.RandomState(3)):
        made = KinbinTransformer(random_state=state).fit(X)
        seeds.append(made._stored._made["seed"])
    assert (seeds[0], seeds[1], seeds[2]) == (5, 5, seeds[3])
    with pytest.raises(InvalidInput, match="random_state is a whole number, a RandomState or None"):
        KinbinTransformer(random_state="x").fit(X)


@pytest.mark.parametrize("scale", [1e-10, 1e-16, 1e-29])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_short_rows_are_divided_by_their_lengths(scale: float, dtype: Any) -> None:
    """As collections do, down to 1e-30; shorter ones are rows of zeros."""
    X = (np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 0.0], [1e-35, 0.0, 0.0]]) * scale).astype(dtype)
    for given in (X, sp.csr_array(X)):
        features = FourierFeatures(n_components=64, random_state=0).fit_transform(given)
        whole = FourierFeatures(n_components=64, random_state=0).fit_transform((X.astype(np.float64) / scale)[:2])
        np.testing.assert_allclose(features[:2], whole, rtol=1e-5, atol=1e-6)
        assert not features[2].any()
