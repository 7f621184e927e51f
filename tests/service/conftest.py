"""Fixtures of the service's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import kinbin
from service_app import App, running_app, warm_up_once


@pytest.fixture(autouse=True)
def _warm_up_once_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Applications of one test process warm up the first time only: compiled kernels stay."""
    monkeypatch.setattr(kinbin, "warm_up", warm_up_once)


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    """A ready application with default settings on an empty data directory."""
    async with running_app(tmp_path / "data") as running:
        yield running
