"""The site that all files of this folder look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from browser import Looked
from dashboard_site import Servers, Site, looking, running_servers, running_site


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Both servers, started once for a process: each test has collections of its own where it changes them."""
    with running_servers(tmp_path_factory.mktemp("dashboard")) as running:
        yield running


@pytest.fixture(scope="module")
def site(servers: Servers) -> Iterator[Site]:
    """Both servers, and a browser for one file."""
    with running_site(servers) as running:
        yield running


@pytest.fixture
def look(site: Site) -> Iterator[Callable[..., Looked]]:
    """A function that opens a window on the open server; at the end nothing may have gone wrong in any of them."""
    with looking(site.browser, site.open) as opened:
        yield opened
