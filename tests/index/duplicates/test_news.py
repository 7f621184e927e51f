"""Near duplicates among real messages, against all pairs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

import kinbin

SHINGLER = kinbin.Shingler(words=2)
Near = dict[tuple[int, int], float]


@pytest.fixture(scope="module")
def messages(data_set: Callable[[str], dict[str, NDArray[Any]]]) -> list[str]:
    """The first 3,000 of a collection of newsgroup messages."""
    news = data_set("news20_text")
    whole, ends = news["train_text"].tobytes(), news["train_offsets"]
    return [whole[ends[n] : ends[n + 1]].decode() for n in range(3_000)]


def all_pairs(texts: list[str], least: float) -> Near:
    """Pairs of texts whose sets of shingles are so similar, by counting what each pair shares."""
    rows = SHINGLER.rows(texts)
    features, places = np.unique(rows.features, return_inverse=True)
    sets = sp.csr_array((np.ones(len(places), np.int32), places, rows.indptr), shape=(len(texts), len(features)))
    shared = sp.triu(sets @ sets.T, 1).tocoo()
    scores = shared.data / (rows.norms[shared.row] + rows.norms[shared.col] - shared.data)
    near = scores >= least
    return dict(zip(zip(shared.row[near].tolist(), shared.col[near].tolist(), strict=True), scores[near].tolist(), strict=True))


@pytest.mark.slow
@pytest.mark.recall
def test_messages_are_put_together_as_all_pairs_say(messages: list[str], tmp_path: Path) -> None:
    """With a tiny miss clusters are those of all pairs; with a larger one as many are found as stated, and none is wrong."""
    for least in (0.3, 0.5, 0.8):
        first = np.arange(len(messages))
        for a, b in sorted(all_pairs(messages, least)):
            one, other = sorted((first[a], first[b]))
            first[first == other] = one
        for miss in (1e-6, 0.2):
            folder = tmp_path / f"{least}-{miss}"
            with kinbin.TextDuplicates(folder, shingler=SHINGLER, min_score=least, miss=miss) as job:
                job.add(messages)
                found = np.array(job.finish().cluster)
            np.testing.assert_array_equal(first[found], first)
            joined, wanted = (found != np.arange(len(first))).sum(), (first != np.arange(len(first))).sum()
            assert wanted > 5
            assert joined >= (wanted if miss < 0.1 else 0.8 * wanted - 4 * np.sqrt(0.16 * wanted))


@pytest.mark.slow
@pytest.mark.usefixtures("quiet")
@pytest.mark.recall
def test_a_collection_of_messages_tells_all_near_pairs(messages: list[str], db: kinbin.Database) -> None:
    """Pairs of a collection of their sets are those of all pairs, with their very scores."""
    some = messages[:1_000]
    rows = SHINGLER.rows(some)
    vectors = [dict(zip(rows.row(n)[0].tolist(), rows.row(n)[1].tolist(), strict=True)) for n in range(len(some))]
    collection = db.create_collection("news", kernel="minmax", seed=1)
    collection.add([f"{n:04}" for n in range(len(some))], vectors)
    for least in (0.5, 0.65, 0.8):
        wanted = all_pairs(some, least)
        found = {(int(pair.a), int(pair.b)): pair.score for pair in collection.duplicates(least, miss=1e-6)}
        assert found.keys() == wanted.keys()
        assert found == pytest.approx(wanted, abs=1e-6)
        assert wanted
