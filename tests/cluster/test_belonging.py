from __future__ import annotations

from pathlib import Path

import pytest

from kinbin_cluster.belonging import belong
from kinbin_cluster.connecting import Connection
from kinbin_cluster.errors import OtherCluster
from kinbin_cluster.registry import Registry
from kinbin_cluster.settings import ClusterSettings


async def test_all_know_the_same_cluster(registry: Registry, settings: ClusterSettings) -> None:
    """Whoever starts first names the cluster, and everybody reads the same name."""
    async with await Connection.open(settings, "second") as connection:
        second = Registry(connection)
        await second.start()
        assert second.picture.cluster == registry.picture.cluster != ""
        await second.stop()


def test_files_belong_to_one_cluster(tmp_path: Path) -> None:
    """A directory takes the cluster that it meets first, and no other, whose node would drop all that it does not know."""
    folder = tmp_path / "node"
    belong(folder, "one")
    belong(folder, "one")
    with pytest.raises(OtherCluster, match=r"of cluster one, and NATS holds cluster other"):
        belong(folder, "other")
    belong(folder, "one")
