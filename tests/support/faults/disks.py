"""What happens to disks: full, damaged, or an old copy of themselves.

A small disk is a file system in memory of its own, so that "no space left" is the kernel's word and not a simulation. Only root can mount
one; elsewhere the limit of a file's size stands in for it, and what grows a file fails.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kinbin_cluster.servers import Process

if TYPE_CHECKING:
    from faults.running import Cluster, Program

__all__ = ["SmallDisk", "damage", "full", "full_node", "full_server", "may_mount", "old_disk", "take_no_limit"]

FULL_SECONDS = 6.0
OLD_SECONDS = 4.0
"""So much is written at least before the old copy comes back."""
_SIZE = 1 << 30
_PAGE = 4_096
_MOUNT = shutil.which("mount") or "/bin/mount"
_UMOUNT = shutil.which("umount") or "/bin/umount"


def may_mount() -> bool:
    """Whether this process may give its children disks of their own, which nobody else sees and which go when it ends."""
    return os.environ.get("KINBIN_FAULTS_MOUNTS") == "1"


class SmallDisk:
    """A file system at a folder, which can be made full."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        _ran([_MOUNT, "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", str(folder)])

    def fill(self) -> None:
        """Leave no room from now on."""
        for _ in range(50):
            system = os.statvfs(self.folder)
            used = (system.f_blocks - system.f_bfree) * system.f_frsize
            if _ran([_MOUNT, "-o", f"remount,size={max(used, _PAGE)}", str(self.folder)], fails=True):
                return
        raise OSError(f"{self.folder} grows faster than it can be made full")

    def empty(self) -> None:
        """Give all the room back."""
        _ran([_MOUNT, "-o", f"remount,size={_SIZE}", str(self.folder)])

    def close(self) -> None:
        """Take it away, with all that is on it."""
        _ran([_UMOUNT, "-l", str(self.folder)], fails=True)


def _ran(command: list[str], *, fails: bool = False) -> bool:
    """Run a program. Returns whether it did what it was asked. fails: it may fail."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode and not fails:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
    return not done.returncode


# ------------------------------------------------------------------------------------------- full


def take_no_limit(process: Process) -> None:
    """Let a process write files of any size again."""
    if process.running:
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def full(process: Process, disk: SmallDisk | None, largest: int) -> None:
    """Leave a process no room: on its own disk, or else for files that are larger than the largest is."""
    if disk is not None:
        disk.fill()
    else:
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (largest, resource.RLIM_INFINITY))


def full_node(cluster: Cluster, rng: random.Random) -> str:
    """No room for a node; it goes on by itself when there is some."""
    node = cluster.nodes[-1] if cluster.nodes[-1].name in cluster.disks else rng.choice(cluster.nodes)
    files = (file for file in cluster.data(node).rglob("*") if file.is_file())
    full(node.process, cluster.disks.get(node.name), max((file.stat().st_size for file in files), default=_PAGE))
    time.sleep(FULL_SECONDS)
    return ""


def full_server(cluster: Cluster, rng: random.Random) -> str:
    """No room for a NATS server, which stays out of the log until it is started again."""
    number = len(cluster.nats.processes) - 1 if cluster.disks else rng.randrange(len(cluster.nats.processes))
    full(cluster.nats.processes[number], cluster.disks.get(f"nats-{number}"), 65_536)
    time.sleep(FULL_SECONDS)
    cluster.nats.processes[number].kill()
    return ""


# ------------------------------------------------------------------------------------------- damaged, old


def damage(cluster: Cluster, node: Program, rng: random.Random) -> str:
    """A node is killed, and one page in four of every replica that it holds is other bytes when it starts again."""
    node.process.kill()
    harmed = 0
    for file in sorted(cluster.data(node).glob("collections/c*/data.mdb")):
        size = file.stat().st_size
        pages = size // _PAGE
        with file.open("r+b") as opened:
            for page in rng.sample(range(pages), max(1, pages // 4)):
                opened.seek(page * _PAGE)
                opened.write(rng.randbytes(_PAGE))
        harmed += 1
    return "" if harmed > 1 else f"missed: {harmed} replicas were there"


def old_disk(cluster: Cluster, node: Program, rng: random.Random) -> str:
    """A node is killed, and starts on files as they were some time ago."""
    kept = cluster.folder / f"{node.name}-as-it-was"
    data = cluster.data(node)
    if not kept.exists():
        node.process.kill()
        shutil.copytree(data, kept)
        node.process.start()
        cluster.wait_for(node)
        time.sleep(OLD_SECONDS)
    node.process.kill()
    for one in list(data.iterdir()):
        shutil.rmtree(one) if one.is_dir() else one.unlink()
    shutil.copytree(kept, data, dirs_exist_ok=True)
    if rng.random() < 0.5:
        # Else the next time it is older still, and the log may be cut behind it.
        shutil.rmtree(kept)
    return ""
