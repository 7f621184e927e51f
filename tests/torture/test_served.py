"""A service whose workers and parent are killed under load: some kills of the campaign of `torture.served`.

Its planted bug takes a minute or two: `make torture ARGS="served --kills 3"` looks for it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from torture.served import served_campaign

pytestmark = [pytest.mark.slow, pytest.mark.server, pytest.mark.durability, pytest.mark.timeout(300)]


def test_workers_and_the_parent_are_killed(tmp_path: Path) -> None:
    """Two workers and the parent: nothing acknowledged is lost, nobody waits, and linking completes afterwards."""
    found = served_campaign(tmp_path, seed=1, kills=3)
    assert not found.wrong
    assert found.kinds == {"worker": 2, "parent": 1}
