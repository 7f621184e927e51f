"""The wheels hold the packages, all of them and nothing else, and work away from the source tree."""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import numpy
import pytest

import kinbin

ROOT = Path(__file__).resolve().parents[2]
BUILD_INPUTS = ["pyproject.toml", "README.md", "LICENSE", "index", "service", "cluster", "clients"]
CACHES = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", ".*")
WITHOUT_SERVER_PACKAGES = "import sys; sys.modules.update(dict.fromkeys(('kinbin', 'kinbin_service', 'numba', 'lmdb', 'fastapi')))"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Both wheels, built offline from a copy of the sources."""
    copy = tmp_path_factory.mktemp("sources")
    for name in BUILD_INPUTS:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=CACHES)
        else:
            shutil.copy(source, copy / name)
    out = tmp_path_factory.mktemp("wheels")
    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", str(out)]
    sources = [str(copy), str(copy / "clients/python")]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, *sources], check=True, capture_output=True, timeout=100)
    return {path.name.split("-")[0]: path for path in out.glob("*.whl")}


def modules_in(folder: Path) -> set[str]:
    """The files of a source root that belong into its wheel."""
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.suffix == ".py" or path.name == "py.typed"}


def names_in(wheel: Path) -> set[str]:
    """The files of a wheel, without its metadata."""
    return {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}


def test_library_wheel_holds_every_module(wheels: dict[str, Path]) -> None:
    """Every module of the library, the service and the cluster is in the wheel, with the marks that they are typed."""
    expected = modules_in(ROOT / "index") | modules_in(ROOT / "service") | modules_in(ROOT / "cluster")
    held = names_in(wheels["kinbin"])
    assert {name for name in held if name.endswith((".py", "py.typed"))} == expected
    assert {name.split("/")[0] for name in held} == {"kinbin", "kinbin_service", "kinbin_cluster"}


def test_client_wheel_holds_the_client_alone(wheels: dict[str, Path]) -> None:
    """The client's wheel has all of the client and nothing of the server."""
    assert names_in(wheels["kinbin_client"]) == modules_in(ROOT / "clients/python")


@pytest.mark.parametrize("distribution", ["kinbin", "kinbin_client"])
def test_wheel_carries_its_licence(wheels: dict[str, Path], distribution: str) -> None:
    """The licence is named in the metadata."""
    archive = zipfile.ZipFile(wheels[distribution])
    (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    assert "License-Expression: Apache-2.0" in archive.read(metadata).decode()


@pytest.mark.slow
def test_library_works_from_its_wheel(wheels: dict[str, Path], tmp_path: Path) -> None:
    """Unpacked anywhere, the wheel's library and service can be imported, and come from there."""
    zipfile.ZipFile(wheels["kinbin"]).extractall(tmp_path)
    script = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport kinbin, kinbin_service.app\nprint(kinbin.__file__)"
    answer = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=100)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.strip().startswith(str(tmp_path))


def test_client_works_without_the_server(wheels: dict[str, Path], tmp_path: Path) -> None:
    """The client can be imported where neither the library nor what it needs is installed."""
    zipfile.ZipFile(wheels["kinbin_client"]).extractall(tmp_path)
    script = f"{WITHOUT_SERVER_PACKAGES}; sys.path.insert(0, {str(tmp_path)!r})\nimport kinbin_client\nprint(kinbin_client.__file__)"
    answer = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.strip().startswith(str(tmp_path))


def test_library_needs_no_server_packages() -> None:
    """Without the extra `service` the library still imports: no web framework is pulled in."""
    missing = ("fastapi", "pydantic", "uvicorn", "httpx", "scipy", "sklearn")
    script = f"import sys; sys.modules.update(dict.fromkeys({missing})); from kinbin import *"
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=100)
    assert answer.returncode == 0, answer.stderr


def test_the_library_is_found_beside_a_folder_of_its_name(tmp_path: Path) -> None:
    """A working copy in a folder named kinbin does not hide the library from a Python that is started next to it."""
    for name in ("kinbin", "kinbin_client", "kinbin_service"):
        (tmp_path / name).mkdir()
    script = "import kinbin, kinbin_client, kinbin_service.cli; print(kinbin.__version__)"
    answer = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert (answer.returncode, answer.stdout.strip()) == (0, kinbin.__version__), answer.stderr


def test_command_is_installed() -> None:
    """The command `kinbin` leads to an application that can be called."""
    (command,) = importlib.metadata.entry_points(group="console_scripts", name="kinbin")
    assert callable(command.load())


@pytest.mark.parametrize("distribution", ["kinbin", "kinbin-client"])
def test_installed_version_is_that_of_the_sources(distribution: str) -> None:
    """Library, service and client are installed in the version that pyproject.toml names."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert importlib.metadata.version(distribution) == declared


USE = """
import sys
import numpy as np
from numba.core import event
compiled = event.RecordingListener()
import kinbin
event.register("numba:compile", compiled)
X = np.random.default_rng(0).random((300, 8))
rows = [{i: 1.0, 2**40 + i % 7: 2.0} for i in range(300)]
with kinbin.open(sys.argv[1]) as database:
    for name, dim, vectors in (("dense", 8, X), ("sparse", None, rows)):
        collection = database.create_collection(name, dim=dim)
        collection.add([str(i) for i in range(300)], vectors)
        assert collection.query(vectors[7]).ids[0] == "7"
        collection.compact()
        collection.link()
        for mode in ("bands", "links", "exact"):
            assert collection.query(vectors[7], mode=mode).ids[0] == "7"
told = []
kinbin.warm_up(progress=told.append)
assert {one.pending for one in told} == {()}, told
print(len(compiled.buffer), kinbin.__file__)
"""


@pytest.mark.slow
def test_who_installs_the_wheel_compiles_nothing(tmp_path: Path) -> None:
    """`make wheel` makes a wheel for this platform whose library adds, links and answers in a new environment without the compiler."""
    build = [sys.executable, str(ROOT / "deploy/build_wheel.py"), str(tmp_path), "native"]
    subprocess.run(build, check=True, capture_output=True, timeout=100)
    (wheel,) = tmp_path.glob("kinbin-*.whl")
    assert not wheel.name.endswith("none-any.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True, timeout=60)
    python = tmp_path / "venv/bin/python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-index", "--no-deps", str(wheel)]
    subprocess.run(install, check=True, capture_output=True, timeout=60)
    (packages,) = (tmp_path / "venv/lib").glob("python*/site-packages")
    # What kinbin needs comes from this environment; a path in a .pth file brings no .pth files of its own, and so not the working copy.
    (packages / "dependencies.pth").write_text(f"{Path(numpy.__file__).parents[1]}\n", encoding="utf-8")
    environment = {"HOME": str(tmp_path / "home"), "PATH": ""}
    command = [str(python), "-c", USE, str(tmp_path / "data")]
    answer = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True, timeout=60)
    count, place = answer.stdout.split()
    assert (count, Path(place).parents[1]) == ("0", packages)
    assert list(packages.glob("kinbin/**/__pycache__/*.nbi")) == []
