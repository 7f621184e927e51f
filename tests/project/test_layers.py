"""The rules on who may import whom catch each import that they forbid."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"kinbin": ROOT / "index", "kinbin_service": ROOT / "service", "kinbin_client": ROOT / "clients/python"}
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


def lint(copy: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter on the copy."""
    program = Path(sys.executable).with_name("lint-imports")
    environment = os.environ | {"PYTHONPATH": str(copy)}
    return subprocess.run([program, "--no-cache", "--no-logo"], cwd=copy, env=environment, capture_output=True, text=True, check=False)


def lint_with(copy: Path, importer: str, imported: str) -> subprocess.CompletedProcess[str]:
    """Run import-linter with one import in place."""
    path = file_of(copy, importer)
    assert path.exists(), f"{importer} is no module any more: choose another for this test"
    path.write_text(f"import {imported}\n", encoding="utf-8")
    try:
        return lint(copy)
    finally:
        path.write_text("", encoding="utf-8")


@pytest.mark.parametrize(("importer", "imported"), FORBIDDEN)
def test_forbidden_import_breaks_a_contract(empty_modules: Path, importer: str, imported: str) -> None:
    """An import against the rules fails the check, which names it."""
    answer = lint_with(empty_modules, importer, imported)
    assert answer.returncode == 1
    assert "BROKEN" in answer.stdout
    assert importer in answer.stdout


@pytest.mark.parametrize(("importer", "imported"), ALLOWED)
def test_allowed_import_keeps_every_contract(empty_modules: Path, importer: str, imported: str) -> None:
    """The rules leave the imports alone that the design calls for."""
    answer = lint_with(empty_modules, importer, imported)
    assert answer.returncode == 0, answer.stdout


@pytest.mark.parametrize("package", PACKAGES)
def test_module_without_a_layer_breaks_the_check(empty_modules: Path, package: str) -> None:
    """A new module of any of the three has to be given its layer."""
    path = empty_modules / package / "newcomer.py"
    path.touch()
    try:
        answer = lint(empty_modules)
    finally:
        path.unlink()
    assert answer.returncode == 1
    assert "newcomer" in answer.stdout
