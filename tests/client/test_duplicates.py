"""Near duplicates through the client, blocking and awaited."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinbin_client import AsyncClient, Client, Cluster, InvalidInput, Pair

VECTORS: list[list[float]] = [[1, 2, 0, 0], [1, 2.01, 0, 0], [0, 0, 2, 1], [0, 0, 2, 1]]


async def test_both_clients_tell_pairs_and_clusters(tmp_path: Path) -> None:
    """Pairs and clusters arrive as models, with what is promised of them; refusals are those of the service."""
    with Client(path=tmp_path) as client:
        photos = client.create_collection("photos", kernel="ngmm", dim=4)
        photos.add(list("abcd"), VECTORS)
        pairs = photos.duplicates(0.9, miss=0.001)
        assert sorted(pairs, key=lambda one: one.a) == [Pair(a="a", b="b", score=pairs.pairs[1].score), Pair(a="c", b="d", score=1.0)]
        assert pairs.complete
        assert pairs.miss_probability <= 0.001
        assert not photos.duplicates(0.9, limit=1).complete
        with pytest.raises(InvalidInput, match="give min_score"):
            photos.duplicates()
        clusters = photos.duplicates(0.9, "clusters")
        assert [one.ids for one in clusters.clusters] == [["a", "b"], ["c", "d"]]
    async with AsyncClient(path=tmp_path) as other:
        awaited = await other.collection("photos").duplicates(0.9, "clusters")
        assert list(awaited) == clusters.clusters
        assert isinstance(clusters.clusters[0], Cluster)
        assert len(awaited) == 2
