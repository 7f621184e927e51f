"""Fixtures for every test: seeded random numbers, real data sets, free ports, processes that are forks, a clean environment."""

from __future__ import annotations

import gc
import os
import ssl
import zlib
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import certifi
import hypothesis
import numpy as np
import pytest
from numpy.typing import NDArray

import service_process
from bundled import BUNDLED
from nursery import Nursery

ROOT = Path(__file__).resolve().parent.parent

# KINBIN_DATA names the folder of data sets for the tests. It is read once, before the environment is
# cleaned, because KINBIN_* variables are also the server's settings.
DATA_SETS = Path(os.environ.get("KINBIN_DATA") or ROOT / "data")

hypothesis.settings.register_profile("kinbin", deadline=None, print_blob=True, max_examples=60)
hypothesis.settings.register_profile("thorough", deadline=None, print_blob=True, max_examples=1_000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "kinbin"))


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """No KINBIN_* variable of the shell reaches a test or a server that it starts."""
    for name in [name for name in os.environ if name.startswith("KINBIN_")]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="session", autouse=True)
def _authorities_read_once() -> Iterator[None]:
    """Each client of httpx reads all certificates of authorities when it is made, for 30 ms of a processor: those of tests share them."""
    made, kept = ssl.create_default_context, dict[Any, ssl.SSLContext]()

    def context(*purpose: Any, **options: Any) -> ssl.SSLContext:
        if purpose or options != {"cafile": certifi.where()}:
            return made(*purpose, **options)
        if not kept:
            kept[None] = made(**options)
        return kept[None]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", context)
        yield


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A random generator whose seed is the test's own name: the same in any order and on any machine."""
    return np.random.default_rng(zlib.crc32(request.node.nodeid.encode()))


@pytest.fixture(scope="session")
def data_set() -> Callable[[str], dict[str, NDArray[Any]]]:
    """Load a real data set by name: one of `bundled`, or of KINBIN_DATA ("cifar10_rgbhist512"), or skip the test with the reason."""
    loaded: dict[str, dict[str, NDArray[Any]]] = {}

    def load(name: str) -> dict[str, NDArray[Any]]:
        if name not in loaded:
            made = BUNDLED[name]() if name in BUNDLED else _stored(name)
            loaded[name] = {key: _read_only(array) for key, array in made.items()}
        return loaded[name]

    return load


def _stored(name: str) -> dict[str, NDArray[Any]]:
    path = DATA_SETS / f"{name}.npz"
    if not path.is_file():
        pytest.skip(f"data set {name}.npz is not in {DATA_SETS} (set KINBIN_DATA to a folder that holds it)")
    with np.load(path, allow_pickle=False) as arrays:
        return {key: arrays[key] for key in arrays.files}


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array


@pytest.fixture
def free_port() -> int:
    """A port of 127.0.0.1 that nothing listens on."""
    return service_process.free_port()


@pytest.fixture(scope="session")
def nursery_of_session() -> Iterator[Nursery]:
    """One nursery for all tests; kernels are compiled here first, so that the nursery only loads them."""
    import kinbin

    kinbin.warm_up()
    with Nursery() as nursery:
        yield nursery


@pytest.fixture
def nursery(nursery_of_session: Nursery) -> Iterator[Nursery]:
    """A nursery whose children end with the test."""
    yield nursery_of_session
    nursery_of_session.end_children()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--part 2/6`: of the tests those of the second of six parts; numbers beyond the last begin again, as days of a year do."""
    parser.addoption("--part", default="1/1", help="K/N: of all test functions those of one of N parts")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Files with slow tests come first (in random order like all), so that no process is left alone with one at the end."""
    part, parts = map(int, config.getoption("--part").split("/"))
    others = [item for item in items if (zlib.crc32(item.nodeid.partition("[")[0].encode()) - part) % parts]
    if others:
        config.hook.pytest_deselected(items=others)
        left = {item.nodeid for item in others}
        items[:] = [item for item in items if item.nodeid not in left]
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_collection_finish() -> None:
    """Thousands of tests stay until the end: collections of garbage need not look through them again and again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Reports reach the process that prints them as UTF-8: lone surrogates, which tests of bad text put into logs, are written out."""
    return _escaped((yield))


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_escaped(key): _escaped(part) for key, part in value.items()}
    return type(value)(map(_escaped, value)) if isinstance(value, (list, tuple)) else value
