"""A gateway's kernels are loaded before it takes requests."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

import kinbin
from kinbin_cluster import joining
from kinbin_cluster.gateway import service
from kinbin_cluster.gateway.service import Gateway
from kinbin_cluster.gateway.warming import load_kernels
from kinbin_cluster.settings import ClusterSettings
from kinbin_service.metrics import Metrics
from kinbin_service.settings import Settings

FRESH = """
import sys
import numpy as np
import kinbin
from kinbin.native import machine_code
from kinbin_cluster.gateway.warming import load_kernels

{warming}
loaded = []
load = machine_code._Code.load_overload
machine_code._Code.load_overload = lambda self, *given: loaded.append(self.name) or load(self, *given)
kinbin.Schema(dim=3).check(["a", "b"], [[1, 2, 3], [0.5, 0, 0]])
kinbin.Schema(dim=3).check(["a", "b"], np.ones((2, 3), np.float32))
kinbin.Schema().check(["a"], [kinbin.Sparse([3, 9], [1.0, 2.0])])
print(len(loaded))
"""


def kernels_loaded_by_adds(warming: str) -> int:
    """In an interpreter of its own."""
    done = subprocess.run([sys.executable, "-c", FRESH.format(warming=warming)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_adds_find_their_kernels_loaded() -> None:
    """Lists, matrices and sparse vectors alike."""
    assert kernels_loaded_by_adds("") > 0, "without it they load some"
    assert kernels_loaded_by_adds("load_kernels()") == 0


def test_what_cannot_be_loaded_ends_nothing(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A gateway starts without them, and says so."""

    def broken(**_: object) -> None:
        raise OSError("no code")

    monkeypatch.setattr(kinbin, "Schema", broken)
    load_kernels()
    assert "the first add does it" in caplog.text


async def test_a_gateway_is_ready_once_they_are_loaded(settings: ClusterSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """It joins while they load, and takes requests behind both."""
    happened: list[str] = []
    joined, ready = threading.Event(), threading.Event()

    def slow() -> None:
        # A gateway that joins only behind it would join too late, and one that does not wait for it is ready by then.
        joined.wait(60.0)
        ready.wait(0.2)
        happened.append("loaded")

    def tell() -> None:
        happened.append("ready")
        ready.set()

    real = joining.see_that_key_is_theirs

    async def seen(*given: object) -> None:
        await real(*given)  # type: ignore[arg-type]
        happened.append("joined")
        joined.set()

    monkeypatch.setattr(service, "load_kernels", slow)
    monkeypatch.setattr(service, "see_that_key_is_theirs", seen)
    async with Gateway.running(Settings(), settings, Metrics(), tell):
        assert happened == ["joined", "loaded", "ready"]
