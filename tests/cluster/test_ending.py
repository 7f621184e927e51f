"""Tasks that are ended: they are cancelled again and again, and what they clean up is cleaned up all the same."""

from __future__ import annotations

import asyncio

import pytest

from kinbin_cluster import resharding
from kinbin_cluster.connecting import ended, wholly
from kinbin_cluster.errors import ClusterError


@pytest.mark.parametrize("through", [True, False])
async def test_cleaning_goes_on_however_often_it_is_cancelled(through: bool) -> None:
    """What takes longer than the pause between two cancellations is done before the task has ended; without `wholly` it is not."""
    done: list[str] = []

    async def clean() -> None:
        await asyncio.sleep(0.35)
        done.append("cleaned")

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await (wholly(clean()) if through else clean())

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    await ended(task)
    assert task.cancelled()
    assert done == (["cleaned"] if through else [])


async def test_what_fails_in_cleaning_is_told() -> None:
    """An error of the cleaning is that of the task."""

    async def clean() -> None:
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        await wholly(clean())


async def test_nothing_goes_on_behind_an_error_of_one() -> None:
    """Of several logs that are closed at once one fails: the others are waited for before anything is opened again."""
    over: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.sleep(3_600)
        finally:
            await asyncio.sleep(0.01)
            over.append("slow")

    async def failing() -> None:
        raise ClusterError("no")

    with pytest.raises(ClusterError, match="no"):
        await resharding._all([slow(), failing()])
    assert over == ["slow"]
