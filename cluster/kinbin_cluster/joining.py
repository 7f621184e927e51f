"""What a process sees to before it joins those that live: that they have its key, and that nobody has its name or its files.

It listens for as long as two beats take. Two that begin in the same moment may miss each other; then each says in its log that another one
tells as it does.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

from kinbin_cluster.errors import OtherKey, Taken
from kinbin_cluster.picture import Picture
from kinbin_cluster.registry import Registry
from kinbin_cluster.settings import ClusterSettings

__all__ = ["NO_KEY", "held", "key_print", "see_that_key_is_theirs", "see_that_name_is_free"]

FILE = "node-lock"
NO_KEY = "a {kind} needs the key between gateways and nodes: KINBIN_CLUSTER_KEY or KINBIN_CLUSTER_KEY_FILE, the same for all"
_BEATS = 2.4
"""So many of its own beats a process listens for those of others."""


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """The files of a node are this process's for the block; a kill lets go of them. Raises Taken."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / FILE).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Taken(f"another node runs on the files in {folder}: each needs a directory of its own") from None
        yield


def key_print(settings: ClusterSettings, cluster: str) -> str | None:
    """What nodes tell of their key, so that another one is noticed: 64 bits of a hash, salted with the cluster's id."""
    key = settings.internal_key
    return None if key is None else blake2b(key.encode(), key=cluster.encode()[:64], digest_size=8).hexdigest()


async def see_that_name_is_free(registry: Registry, settings: ClusterSettings) -> None:
    """Listen whether a node of this name lives. Raises Taken, once it is heard. Where none does it takes 2.4 beats."""
    if await registry.wait_for(lambda picture: picture.is_live(settings.node), _BEATS * settings.beat_seconds):
        node = registry.picture.nodes.get(settings.node)
        where = "" if node is None else f" at {node.address}"
        raise Taken(f"a node named {settings.node} lives{where}: each needs a name of its own")


async def see_that_key_is_theirs(registry: Registry, settings: ClusterSettings) -> None:
    """Compare the key with that of the nodes that live, once one has told. Raises OtherKey. Without nodes it takes 2.4 beats."""
    mine = key_print(settings, registry.picture.cluster)
    await registry.wait_for(lambda picture: bool(_told(picture)), _BEATS * settings.beat_seconds)
    others = sorted(name for name, theirs in _told(registry.picture).items() if theirs != mine)
    if others:
        raise OtherKey(
            f"the key between gateways and nodes is not that of {', '.join(others[:8])}: KINBIN_CLUSTER_KEY, or the contents of"
            f" KINBIN_CLUSTER_KEY_FILE, have to be the same"
        )


def _told(picture: Picture) -> dict[str, str]:
    """By name, what the nodes that live tell of their keys."""
    return {node.name: str(told) for node in picture.live() if (told := picture.told(node.name).get("key_print")) is not None}
