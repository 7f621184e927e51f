"""The front door: its names, the likeness of both clients, and that the client stands alone."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import kinbin_client
from kinbin_client import AsyncClient, AsyncCollection, AsyncFieldsCollection, Client, Collection, FieldsCollection

PACKAGE = Path(kinbin_client.__file__).parent
PROJECT = Path(__file__).resolve().parents[2] / "clients" / "python"
MODULES = sorted(f"kinbin_client.{module.name}" for module in pkgutil.iter_modules([str(PACKAGE)]))
NAMES = [
    "AddResult",
    "Answer",
    "AnswerBatch",
    "ApiError",
    "AsyncClient",
    "AsyncCollection",
    "AsyncDuplicateStream",
    "AsyncFieldsCollection",
    "AsyncSnapshots",
    "BadRequest",
    "BandsForecast",
    "ByField",
    "Cell",
    "Chunking",
    "Client",
    "ClientClosed",
    "Cluster",
    "Collection",
    "CollectionInfo",
    "CompactReport",
    "Conflict",
    "ConnectTimeout",
    "ConnectionFailed",
    "ConnectionLost",
    "Constant",
    "Counted",
    "CurrentSetting",
    "DeleteResult",
    "DuplicateStream",
    "Duplicates",
    "DuplicatesSummary",
    "Explanation",
    "FacetValue",
    "Facets",
    "Factor",
    "FieldsCollection",
    "Forbidden",
    "GetResult",
    "Group",
    "Health",
    "Hit",
    "Holds",
    "InvalidArgument",
    "InvalidInput",
    "Item",
    "KinbinClientError",
    "Limit",
    "Map",
    "MapPoint",
    "ModeRecall",
    "NotFound",
    "Page",
    "Pair",
    "PayloadResult",
    "Problem",
    "Query",
    "QueryOptions",
    "RateLimited",
    "Rebuilt",
    "RecallReport",
    "Rest",
    "Retry",
    "ServerError",
    "SharedBands",
    "SimilarityHistogram",
    "SkippedItem",
    "Snapshot",
    "SnapshotReport",
    "Snapshots",
    "Sparse",
    "StorageFull",
    "Suggestion",
    "Term",
    "Timeout",
    "Tokens",
    "TooLarge",
    "TransportError",
    "Tuning",
    "Unauthorized",
    "Unavailable",
    "UnexpectedResponse",
    "UnsupportedMedia",
    "Vector",
    "Vectors",
    "WalkForecast",
    "Walked",
    "__version__",
    "shingles",
]
METHODS = {
    Client: [
        "add",
        "alias",
        "aliases",
        "close",
        "collection",
        "collections",
        "create_collection",
        "drop_alias",
        "drop_collection",
        "fields_collection",
        "health",
        "limits",
        "query",
        "query_batch",
        "query_each",
        "query_examples",
        "query_id",
        "ready",
        "restore",
        "snapshots",
        "wait_ready",
    ],
    Collection: [
        *["add", "add_index", "add_table", "compact", "count", "counted", "delete", "drop_index", "duplicates"],
        *["duplicates_stream", "explain", "facets"],
        *["get", "info", "items", "limits", "map", "name", "pages", "patch_payload", "query", "query_batch"],
        *[
            "query_each",
            "query_examples",
            "query_id",
            "rebuild",
            "recall",
            "scroll",
            "set_limits",
            "set_payload",
            "stats",
            "tune",
            "versions",
        ],
    ],
    FieldsCollection: [
        "add",
        "add_index",
        "add_table",
        "compact",
        "count",
        "counted",
        "delete",
        "drop_index",
        "explain",
        "facets",
        "get",
        "info",
        "items",
        "limits",
        "map",
        "name",
        "pages",
        "patch_payload",
        "query",
        "query_batch",
        "query_id",
        "scroll",
        "set_limits",
        "set_payload",
        "stats",
        "versions",
    ],
}


def public(owner: Any) -> list[str]:
    """The public attributes of an object or class."""
    return sorted(name for name in dir(owner) if not name.startswith("_"))


def test_names_are_pinned() -> None:
    """What users import is written down here: a name goes or comes on purpose only."""
    assert kinbin_client.__all__ == NAMES
    assert sorted(NAMES) == NAMES
    assert all(hasattr(kinbin_client, name) for name in NAMES)
    undeclared = {name for name in public(kinbin_client) if not inspect.ismodule(getattr(kinbin_client, name))} - set(NAMES)
    assert not undeclared


@pytest.mark.parametrize("module", MODULES)
def test_modules_declare_what_is_theirs(module: str) -> None:
    """The names in a module's __all__ are sorted and there."""
    declared = getattr(importlib.import_module(module), "__all__", [])
    assert len(declared) == len(set(declared))
    assert all(hasattr(importlib.import_module(module), name) for name in declared)


@pytest.mark.parametrize("owner", [Client, Collection, FieldsCollection])
def test_methods_are_pinned(owner: Any) -> None:
    """The methods of the clients and handles are written down here."""
    found = set(public(owner)) | {"name"} if owner is not Client else set(public(owner))
    assert sorted(found) == METHODS[owner]


@pytest.mark.parametrize(
    ("blocking", "awaited"), [(Client, AsyncClient), (Collection, AsyncCollection), (FieldsCollection, AsyncFieldsCollection)]
)
def test_both_clients_are_alike(blocking: Any, awaited: Any) -> None:
    """Each method of one is a method of the other, with the same parameters, defaults and annotations."""
    assert public(blocking) == public(awaited)
    for name in public(blocking):
        if isinstance(inspect.getattr_static(blocking, name), property):
            continue
        ours, theirs = inspect.signature(getattr(blocking, name)), inspect.signature(getattr(awaited, name))
        assert list(ours.parameters.values()) == list(theirs.parameters.values()), name
        is_iterator = name in ("pages", "items")
        assert inspect.iscoroutinefunction(getattr(awaited, name)) is (
            name not in ("collection", "fields_collection", "duplicates_stream") and not is_iterator
        ), name
        assert inspect.isasyncgenfunction(getattr(awaited, name)) is is_iterator, name
    constructors = [dict(inspect.signature(owner).parameters) for owner in (blocking, awaited)]
    for parameters in constructors:
        parameters.pop("transport", None)
        parameters.pop("sender", None)
    assert constructors[0] == constructors[1]


@pytest.mark.parametrize("owner", [Client, Collection, FieldsCollection, AsyncClient, AsyncCollection, AsyncFieldsCollection])
def test_every_method_shows_its_use(owner: Any) -> None:
    """The documentation of every method ends with how it is used, in code that Python can read."""
    for name in public(owner):
        if name == "close":
            continue
        text = inspect.getdoc(getattr(owner, name)) or ""
        assert "Usage:" in text, name
        usage = text.partition("Usage:")[2]
        examples = re.findall(r"`([^`]+)`", usage) or [inspect.cleandoc(usage)]
        for example in examples:
            indented = "".join(f"    {line}\n" for line in example.splitlines())
            ast.parse(f"async def usage():\n{indented}")


def imported(path: Path) -> set[str]:
    """The top-level packages that a file imports, anywhere in it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return {name.partition(".")[0] for name in names}


def test_imports_are_the_dependencies() -> None:
    """The modules import the standard library, the client itself, httpx and pydantic: what pyproject.toml declares, and no more.

    What is imported by name, when it is asked for, is the service of local mode, tqdm and what cuts texts by the rules of Unicode.
    """
    foreign = {name for path in PACKAGE.glob("*.py") for name in imported(path)} - sys.stdlib_module_names - {"kinbin_client"}
    declared = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert foreign == {"httpx", "pydantic"}
    assert {re.split(r"[^A-Za-z0-9_-]", requirement)[0] for requirement in declared["dependencies"]} == foreign
    assert [re.split(r"[^A-Za-z0-9_-]", one)[0] for one in declared["optional-dependencies"]["progress"]] == ["tqdm"]
    assert [re.split(r"[^A-Za-z0-9_-]", one)[0] for one in declared["optional-dependencies"]["text"]] == ["unicode-segmentation-rs"]


def test_versions_agree() -> None:
    """The version that the package tells is the one that is published."""
    declared = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert kinbin_client.__version__ == declared


ALONE = """
import sys
sys.modules.update(dict.fromkeys(("numpy", "scipy", "numba", "lmdb", "kinbin", "kinbin_service", "fastapi", "uvicorn")))
import httpx, kinbin_client
def answer(request):
    return httpx.Response(200, json={"indexed": 2, "updated": 0, "unchanged": 0, "count": 2, "answers": [], "took_ms": 1})
with kinbin_client.Client(transport=httpx.MockTransport(answer)) as client:
    print(client.add(["a", "b"], [[1.0, 2.0], {3: 1.0}]).count)
"""


def test_client_stands_alone() -> None:
    """Where neither NumPy nor the server is installed, the client is imported and used."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"PYTHONPATH": str(PACKAGE.parent)}
    answer = subprocess.run([sys.executable, "-c", ALONE], env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert (answer.returncode, answer.stdout.strip()) == (0, "2"), answer.stderr


def test_import_does_not_pull_in_numpy() -> None:
    """Importing the client imports no NumPy, where it is installed."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"PYTHONPATH": str(PACKAGE.parent)}
    script = "import sys, kinbin_client; print(sorted({'numpy', 'scipy', 'kinbin'} & set(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert answer.stdout.strip() == "[]"


@pytest.mark.slow
def test_typed_usage_passes_the_type_checker(pytestconfig: pytest.Config) -> None:
    """Typical code of users passes mypy in its strict mode, and the mistakes marked in it are found."""
    assert pytestconfig.cache is not None
    cache = pytestconfig.cache.mkdir("typed-usage")
    command = [sys.executable, "-m", "mypy", "--strict", "--warn-unused-ignores", "--config-file", os.devnull, "--cache-dir", str(cache)]
    environment = os.environ | {"MYPYPATH": str(PACKAGE.parent)}
    usage = Path(__file__).with_name("typed_usage.py")
    answer = subprocess.run([*command, str(usage)], env=environment, capture_output=True, text=True, check=False, timeout=110)
    assert answer.returncode == 0, answer.stdout + answer.stderr
