"""export, and import of what was exported: the same items to the last bit, from files and through a service."""

from __future__ import annotations

import itertools
import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
import scipy.sparse
from typer.testing import Result

import kinbin
from kinbin_service.exporting import items as exported_items
from service_process import Served

Run = Callable[..., Result]
Spawn = Callable[..., "subprocess.Popen[str]"]
Items = Callable[..., dict[str, kinbin.Item]]

DIFFICULT = np.uint32(0x15AE43FD).view(np.float32)
AWKWARD = np.array([DIFFICULT, -DIFFICULT, 1e-30, 1e15, 0.1, 1 / 3, -2.5, 16_777_217, 0, 3e-7], dtype=np.float32)
"""Values whose decimals are long, or (the first) lead to another float32 when they are read as doubles."""

PAYLOADS: list[dict[str, Any] | None] = [
    {"text": 'ü "quoted"\n', "n": 2**63 - 1, "x": 0.1, "deep": [{"a": None}], "yes": True},
    None,
    {},
    {"id": "another", "vector": [1]},
]


@pytest.fixture
def filled(data: Path, rng: np.random.Generator) -> Path:
    """A database with "dense" (awkward values, all payloads, several pages), "sparse" (ids up to the largest) and "empty"."""
    with kinbin.open(data) as database:
        rows = np.concatenate([AWKWARD[None], rng.standard_normal((2_499, 10)).astype(np.float32)])
        ids = ["é", "-", *(f"{row}" for row in range(2_498))]
        dense = database.create_collection("dense", kernel="gmm", dim=10)
        dense.add(ids, rows, payloads=[PAYLOADS[row % len(PAYLOADS)] for row in range(2_500)])
        sparse = database.create_collection("sparse", kernel="rbf*ngmm", parameters={"rbf.gamma": 1 / 3})
        vectors = [kinbin.Sparse([2**63 - 1, 5, 2**53 + 1], AWKWARD[:3]), kinbin.Tokens({"red": 3, "apple": 1}), kinbin.Sparse([0], [1.5])]
        sparse.add(["a", "b", "c"], vectors, payloads=[PAYLOADS[0], None, PAYLOADS[2]])
        database.create_collection("empty", dim=3)
    return data


def same(first: dict[str, kinbin.Item], second: dict[str, kinbin.Item]) -> None:
    """Fail unless all items are alike to the last bit."""
    assert first.keys() == second.keys()
    for identifier, item in first.items():
        other = second[identifier]
        assert item.payload == other.payload, identifier
        assert parts(item.vector) == parts(other.vector), identifier


def parts(vector: Any) -> list[bytes]:
    """The bytes of a vector."""
    if isinstance(vector, kinbin.Sparse):
        return [np.asarray(vector.indices, np.int64).tobytes(), np.asarray(vector.values, np.float32).tobytes()]
    assert vector.dtype == np.float32
    return [vector.tobytes()]


@pytest.mark.parametrize("form", ["ndjson", "npz"])
@pytest.mark.parametrize("name", ["dense", "sparse"])
def test_what_is_exported_is_imported_to_the_bit(filled: Path, run: Run, items: Items, tmp_path: Path, form: str, name: str) -> None:
    """Ids, vectors and payloads come back as they were, by the command that the export names."""
    file = tmp_path / f"out.{form}"
    result = run("export", file, "--data", filled, "--collection", name)
    assert result.exit_code == 0, result.stderr
    command = shlex.split(result.stdout.splitlines()[-1].removeprefix("Import it with: kinbin "))
    place = command.index("--data") + 1
    assert command[place] == str(filled)
    command[place] = str(tmp_path / "other")
    again = run(*command)
    assert again.exit_code == 0, again.stderr
    same(items(name), items(name, tmp_path / "other"))
    with kinbin.open(filled) as before, kinbin.open(tmp_path / "other") as after:
        one, other = before.collection(name).config, after.collection(name).config
        assert (one.kernel, one.parameters, one.dim) == (other.kernel, other.parameters, other.dim)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == [file.name]


@pytest.mark.server
@pytest.mark.timeout(300)
@pytest.mark.parametrize("form", ["ndjson", "npz"])
@pytest.mark.parametrize("name", ["dense", "sparse"])
def test_a_service_exports_the_same_file(
    filled: Path, served: Served, run: Run, items: Items, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, name: str
) -> None:
    """Through a service, import and export carry the same bits, and the file is that of the database itself."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    local, far = tmp_path / f"local.{form}", tmp_path / f"far.{form}"
    assert run("export", local, "--data", filled, "--collection", name).exit_code == 0
    there = ("--url", served.address, "--collection", f"{name}-{form}")
    result = run("import", local, *there, "--kernel", "gmm")
    assert result.exit_code == 0, result.stderr
    same(items(name), items(f"{name}-{form}", served.data))
    result = run("export", far, *there, "--json")
    assert orjson.loads(result.stdout)["items"] == len(items(name))
    assert far.read_bytes() == local.read_bytes()


def test_arrays_are_those_of_numpy_and_scipy(filled: Path, run: Run, items: Items, tmp_path: Path) -> None:
    """The arrays of an archive are loaded by NumPy and SciPy: vectors or a CSR matrix, ids, payloads between their offsets."""
    stored = items("dense")
    run("export", tmp_path / "d.npz", "--data", filled, "--collection", "dense")
    with np.load(tmp_path / "d.npz", allow_pickle=False) as arrays:
        assert arrays["ids"].tolist() == list(stored)
        assert np.array_equal(arrays["vectors"], np.array([item.vector for item in stored.values()]))
        text, offsets = arrays["payloads"].tobytes(), arrays["payload_offsets"]
        read = [orjson.loads(text[low:high]) for low, high in itertools.pairwise(offsets)]
        assert read == [item.payload for item in stored.values()]
    with kinbin.open(filled) as database:
        database.create_collection("narrow").add(["x", "y"], [kinbin.Sparse([4, 1], [2, 3]), kinbin.Sparse([0], [5])])
    run("export", tmp_path / "s.npz", "--data", filled, "--collection", "narrow")
    assert scipy.sparse.load_npz(tmp_path / "s.npz").toarray().tolist() == [[0, 3, 0, 0, 2], [5, 0, 0, 0, 0]]


def test_a_filter_chooses_items(filled: Path, run: Run, tmp_path: Path) -> None:
    """--filter exports only the items whose payload fits."""
    told = run("export", tmp_path / "f.jsonl", "--data", filled, "--collection", "dense", "--filter", '{"yes": true}', "--json")
    assert orjson.loads(told.stdout) == {
        "collection": "dense", "file": str(tmp_path / "f.jsonl"), "format": "ndjson", "kernel": "gmm", "parameters": {}, "dim": 10,
        "items": 625, "bytes": (tmp_path / "f.jsonl").stat().st_size, "holds": "vectors",
        "import": f"kinbin import {tmp_path / 'f.jsonl'} --data {filled} --collection dense --kernel gmm --dim 10",
    }  # fmt: skip
    lines = [orjson.loads(line) for line in (tmp_path / "f.jsonl").read_bytes().splitlines()]
    assert [line["id"] for line in lines] == sorted(line["id"] for line in lines)
    assert all(line["payload"]["yes"] for line in lines)


def test_an_empty_collection_is_an_empty_file(filled: Path, run: Run, tmp_path: Path) -> None:
    """A collection without items gives files without rows."""
    for form in ("ndjson", "npz"):
        assert run("export", tmp_path / f"e.{form}", "--data", filled, "--collection", "empty").exit_code == 0
    assert (tmp_path / "e.ndjson").read_bytes() == b""
    with np.load(tmp_path / "e.npz") as arrays:
        assert (arrays["vectors"].shape, arrays["ids"].shape) == ((0, 3), (0,))


@pytest.mark.slow
def test_standard_output_takes_lines(filled: Path, spawn: Spawn) -> None:
    """A FILE of - is standard output, with nothing but items on it."""
    process = spawn("kinbin_service.cli", "export", "-", "--data", filled, "--collection", "sparse")
    out, _ = process.communicate(timeout=100)
    assert process.returncode == 0
    assert [orjson.loads(line)["id"] for line in out.splitlines()] == ["a", "b", "c"]


def test_a_file_is_replaced_when_all_is_written(filled: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An export that fails on its way leaves the file of before, and nothing else; one that ends replaces it."""
    file = tmp_path / "out" / "dense.ndjson"
    file.parent.mkdir()
    file.write_bytes(b"before")

    def broken(item: Any) -> Any:
        raise OSError(28, os.strerror(28))

    for form in ("ndjson", "npz"):
        with monkeypatch.context() as patched:
            patched.setattr(exported_items, "_stored", broken)
            result = run("export", file, "--data", filled, "--collection", "dense", "--format", form)
        assert (result.exit_code, result.stderr.splitlines()[-1]) == (1, "Error: No space left on device")
        assert [path.name for path in file.parent.iterdir()] == [file.name]
        assert file.read_bytes() == b"before"
    assert run("export", file, "--data", filled, "--collection", "dense").exit_code == 0
    assert len(file.read_bytes().splitlines()) == 2_500


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (("x.parquet",), 2, "cannot tell the format from the name x.parquet: end it with .ndjson or .npz, or say --format"),
        (("-", "--format", "npz"), 2, "standard output takes ndjson only"),
        (("-", "--json"), 2, "both take standard output"),
        (("x.npz", "--collection", "nobody"), 1, 'no collection "nobody" in'),
        (("x.npz", "--collection", "dense", "--filter", "{"), 2, "--filter is not JSON"),
        (("no/such/folder/x.npz", "--collection", "dense"), 1, "there is no folder"),
    ],
)
def test_what_cannot_be_exported_is_told(
    filled: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], code: int, expected: str
) -> None:
    """A name without a format, a collection that is not there, a folder that is not there: one message, and no file."""
    monkeypatch.chdir(tmp_path)
    result = run("export", *arguments, "--data", filled)
    assert (result.exit_code, expected in " ".join(result.stderr.replace("│", " ").split())) == (code, True), result.stderr
    assert not [path for path in tmp_path.iterdir() if path.is_file()]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"payloads": np.frombuffer(b"{}[]", np.uint8)}, "neither an object nor null"),
        ({"payloads": np.frombuffer(b"{}{x", np.uint8)}, "not JSON"),
        ({"payload_offsets": np.array([0, 9, 9])}, "payload_offsets do not rise within payloads"),
        ({"payload_offsets": np.array([0, 2])}, "are not those of kinbin export"),
        ({"ids": np.array(["a"])}, "expected 2 values"),
    ],
)
def test_damaged_archives_are_refused(refused: Callable[..., str], tmp_path: Path, change: dict[str, Any], expected: str) -> None:
    """An archive whose parts do not fit together is refused, and says which part."""
    whole = {"vectors": np.ones((2, 3)), "ids": np.array(["a", "b"]), "payloads": np.frombuffer(b"{}{}", np.uint8)}
    np.savez(tmp_path / "x.npz", **{**whole, "payload_offsets": np.array([0, 2, 4]), **change})
    assert expected in refused(tmp_path / "x.npz")
