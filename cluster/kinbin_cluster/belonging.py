"""Which cluster a node's files belong to. A node drops what the registry does not know; so it has to be the registry that it knew."""

from __future__ import annotations

import os
from pathlib import Path

from kinbin_cluster.errors import OtherCluster

__all__ = ["belong"]

FILE = "cluster-id"


def belong(folder: Path, cluster: str) -> None:
    """Note in a node's directory which cluster it is of, the first time; afterwards see that it is the same.

    Raises OtherCluster: NATS lost its registry, or the node reached other servers. Nothing is changed then.
    """
    path = folder / FILE
    if path.exists():
        held = path.read_text(encoding="utf-8").strip()
        if held != cluster:
            raise OtherCluster(
                f"the files in {folder} are of cluster {held}, and NATS holds cluster {cluster}: see that KINBIN_CLUSTER_NATS names the"
                " right servers. Where their data are lost for good, `kinbin export` reads this directory;"
                " a node begins anew in an empty one"
            )
        return
    folder.mkdir(parents=True, exist_ok=True)
    beside = folder / f"{FILE}.new"
    with beside.open("w", encoding="utf-8") as file:
        file.write(cluster + "\n")
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
