"""The rules on who may import whom catch each import that they forbid."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "kinbin": ROOT / "index",
    "kinbin_service": ROOT / "service",
    "kinbin_client": ROOT / "clients/python",
    "kinbin_cluster": ROOT / "cluster",
}
CONTRACTS = [
    contract
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    if contract["type"] == "layers"
]
LAYERS = {
    contract["containers"][0]: [[name.strip() for name in layer.split("|")] for layer in contract["layers"]] for contract in CONTRACTS
}

FORBIDDEN = [
    *((f"{package}.{low[0]}", f"{package}.{high[0]}") for package, layers in LAYERS.items() for high, low in pairwise(layers)),
    ("kinbin_service.openapi", "kinbin_service.app"),
    ("kinbin.hashing", "kinbin.storage"),
    ("kinbin.storage", "kinbin.hashing"),
    ("kinbin.database", "lmdb"),
    ("kinbin.query", "numba"),
    ("kinbin.hashing", "llvmlite"),
    ("kinbin.records", "pydantic"),
    ("kinbin.database", "kinbin_service.settings"),
    ("kinbin.database", "kinbin_client"),
    ("kinbin_service.app", "kinbin.collection"),
    ("kinbin_service.app", "kinbin.storage"),
    ("kinbin_service.app", "lmdb"),
    ("kinbin_service.app", "numba"),
    ("kinbin_service.app", "kinbin_client"),
    ("kinbin_service.importing.targets", "kinbin_client"),
    ("kinbin_client", "kinbin"),
    ("kinbin_client", "kinbin_service"),
    ("kinbin_service.app", "kinbin_cluster"),
    ("kinbin_service.app", "nats"),
    ("kinbin.database", "nats"),
    ("kinbin_cluster.control", "nats"),
    ("kinbin_cluster.control", "kinbin.collection"),
]
ALLOWED = [
    ("kinbin.database", "kinbin.errors"),
    ("kinbin.storage", "lmdb"),
    ("kinbin.native.jit", "numba"),
    ("kinbin_service.app", "kinbin"),
    ("kinbin_service.app", "kinbin.errors"),
    ("kinbin_service.app", "kinbin.limits"),
    ("kinbin_service.cli.service_target", "kinbin_client"),
    ("kinbin_service.demo", "kinbin_client"),
    ("kinbin_cluster.log", "nats.js"),
    ("kinbin_cluster.control", "kinbin_service.settings"),
    ("kinbin_cluster.control", "kinbin.errors"),
]


@pytest.fixture(scope="module")
def empty_modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages as they are, every module empty: only the import under test is left."""
    copy = tmp_path_factory.mktemp("packages")
    for package, source in PACKAGES.items():
        for path in (source / package).rglob("*.py"):
            target = copy / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.touch()
    (copy / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text(encoding="utf-8"), encoding="utf-8")
    return copy


def file_of(copy: Path, module: str) -> Path:
    """The file of a module or package."""
    path = copy / Path(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


class Linter:
    """import-linter in a process of its own, which is started once: what it takes to start is ten times what a check takes."""

    SERVE = """
import contextlib, io, json, sys
from importlinter.cli import lint_imports
for _ in sys.stdin:
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = lint_imports(no_cache=True, no_logo=True)
    print(json.dumps([code, said.getvalue()]), flush=True)
"""

    def __init__(self, copy: Path) -> None:
        self.copy = copy
        self._process = subprocess.Popen(
            [sys.executable, "-c", self.SERVE], cwd=copy, env=os.environ | {"PYTHONPATH": str(copy)}, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def lint(self) -> tuple[int, str]:
        """The exit code and the output of a check of the copy as it is."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        code, said = json.loads(self._process.stdout.readline())
        return code, said

    def lint_with(self, importer: str, imported: str) -> tuple[int, str]:
        """The same with one import in place."""
        path = file_of(self.copy, importer)
        assert path.exists(), f"{importer} is no module any more: choose another for this test"
        path.write_text(f"import {imported}\n", encoding="utf-8")
        try:
            return self.lint()
        finally:
            path.write_text("", encoding="utf-8")

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


@pytest.fixture(scope="module")
def linter(empty_modules: Path) -> Iterator[Linter]:
    """A linter of the empty packages."""
    linter = Linter(empty_modules)
    yield linter
    linter.close()


@pytest.mark.parametrize(("importer", "imported"), FORBIDDEN)
def test_forbidden_import_breaks_a_contract(linter: Linter, importer: str, imported: str) -> None:
    """An import against the rules fails the check, which names it."""
    code, said = linter.lint_with(importer, imported)
    assert code == 1
    assert "BROKEN" in said
    assert importer in said


@pytest.mark.parametrize(("importer", "imported"), ALLOWED)
def test_allowed_import_keeps_every_contract(linter: Linter, importer: str, imported: str) -> None:
    """The rules leave the imports alone that the design calls for."""
    code, said = linter.lint_with(importer, imported)
    assert code == 0, said


@pytest.mark.parametrize("package", PACKAGES)
def test_module_without_a_layer_breaks_the_check(linter: Linter, package: str) -> None:
    """A new module of any of them has to be given its layer."""
    path = linter.copy / package / "newcomer.py"
    path.touch()
    try:
        code, said = linter.lint()
    finally:
        path.unlink()
    assert code == 1
    assert "newcomer" in said
