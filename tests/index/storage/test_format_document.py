"""index/FORMAT.md says what is on disk: its example is what the library writes, and its second reader reads all of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import format_example
import kinbin
import naive_format
import naive_hashing
from kinbin.storage.format import FORMAT_VERSION, Part
from kinbin.storage.lookups import NAMES

DOCUMENT = Path(__file__).resolve().parents[3] / "index" / "FORMAT.md"


def shown(document: str) -> list[dict[str, Any]]:
    """The example's records, as FORMAT.md shows them."""
    (block,) = re.findall(r"```json\n(.*?)```", document, re.DOTALL)
    return list(json.loads(block))


def without_sample(record: dict[str, Any]) -> dict[str, Any]:
    """A record; of a run's header what FORMAT.md fixes, without the sample that queries are planned by; of the identity not the secret."""
    if bytes.fromhex(record["key"]) == b"identity":
        told = naive_format.data(bytes.fromhex(record["value"]))
        assert told.pop("secret")
        return told  # type: ignore[no-any-return]
    if record["tree"] != "runs" or record["key"][8:10] != Part.HEADER.hex():
        return record
    value = bytes.fromhex(record["value"]) + bytes(record["zeros"])
    _, _, _, body = naive_format.run_value(bytes.fromhex(record["key"]), value, format_example.SALT)
    header = naive_format.data(body)
    del header["contrast"]
    return {"key": record["key"], "header": header}


def test_the_example_is_what_is_written(tmp_path: Path) -> None:
    """The records of the example in FORMAT.md are, byte by byte, those that the library writes."""
    document = DOCUMENT.read_text()
    assert format_example.STEPS in document
    format_example.build(tmp_path)
    written = format_example.records(tmp_path)
    assert [without_sample(record) for record in shown(document)] == [without_sample(record) for record in written]


def test_the_steps_are_what_is_built() -> None:
    """The steps that FORMAT.md shows are the ones that the example is built by."""
    source = Path(format_example.__file__).read_text()
    for line in format_example.STEPS.splitlines()[1:]:
        assert source.count(line) == 2, line


def test_the_explanation_is_true(tmp_path: Path) -> None:
    """What FORMAT.md tells of the example's records is what the second reader reads in them."""
    format_example.build(tmp_path)
    files = naive_format.read(tmp_path / "collections" / "e")
    assert files.state == {
        "dropped": 0, "sequence": 4, "manifest": 1, "next_row": 5, "items": 5, "sealed": 2, "next_run": 2, "renames": 0,
        "transaction": 9, "rows": 4, "salt": format_example.SALT,
    }  # fmt: skip
    assert files.items == {"a": (0, b'{"x":1}'), "b": (0, b""), "e": (2, b""), "f": (3, b""), "é": (4, b"")}
    assert files.owners == {0: [b"a", b"b"], 2: [b"e"], 3: [b"f"], 4: ["é".encode()]}
    assert [(entry.sequence, entry.first_row, entry.dead, entry.rows) for entry in files.journal] == [
        (3, 4, [], [(8.0, [3], [8.0])]),
        (4, 5, [1], []),
    ]
    run = files.runs[1]
    assert len(run.parts["r", 0]) == 112
    assert run.rows(wide=False) == {
        0: (3.0, [0, 2], [1.0, -2.0]), 1: (0.5, [1], [0.5]), 2: (3.0, [3], [3.0]), 3: (5.0, [0, 3], [4.0, 1.0]),
    }  # fmt: skip
    assert run.dead() == {1}
    document = DOCUMENT.read_text()
    explanation = document[document.rindex("```") :]
    named = {word for word in re.findall(r"\b[0-9a-f]{8}\b", explanation) if word not in {"00000000", "00000001"}}
    bytes_shown = " ".join(record["value"] for record in shown(document))
    for word in named:
        swapped = bytes.fromhex(word)[::-1].hex()
        assert word in bytes_shown or swapped in bytes_shown, word


def test_the_document_names_what_there_is() -> None:
    """The format's number, the trees and the parts of a run in FORMAT.md are those of the code."""
    document = DOCUMENT.read_text()
    assert f"**Format {FORMAT_VERSION}.**" in document
    trees, _ = document.split("## 14.")
    assert re.findall(r"^\| `(\w+)` \| (?:`state`|the |run )", trees, re.MULTILINE) == [name.decode() for name in NAMES]
    parts = dict(re.findall(r"^\| `(\w)` (0x\w\w) \|", document, re.MULTILINE))
    assert {name.encode() for name in parts} == {value for name, value in vars(Part).items() if name.isupper()}
    assert all(int(code, 16) == ord(name) for name, code in parts.items())


@pytest.mark.parametrize("dim", [None, 40], ids=["wide", "narrow"])
def test_a_second_reader_reads_the_same(tmp_path: Path, rng: np.random.Generator, dim: int | None) -> None:
    """A reader that knows FORMAT.md and HASHING.md alone finds every item, payload and vector, and every posting in its slot."""
    r, bands = 2, 5
    with kinbin.open(tmp_path) as database:
        c = database.create_collection("x", dim=dim, bands=bands, rows=r, seed=99, sampler="gcws")
        vectors = [{int(f): float(v) for f, v in zip(rng.choice(40, 6, replace=False), rng.normal(size=6), strict=True)} for _ in range(90)]
        names = [f"i{i}" for i in range(90)]
        c.add(names[:40], vectors[:40], [{"n": i} for i in range(40)])
        c.compact()
        c.add(names[30:60], vectors[30:60])
        c.add(names[:5], vectors[50:55])
        c.delete(names[20:25])
        assert len(c.stats()["runs"]) == 1
        c.compact()
        c.add(names[60:], vectors[60:])
        c.delete(names[70:75] + names[35:40])
        expected = {item.id: item for item in c.get(names) if item is not None}
        assert len(c.stats()["runs"]) == 1
    files = naive_format.read(tmp_path / "collections" / "x")
    assert files.wide == (dim is None)
    found = files.vectors()
    assert found.keys() == expected.keys()
    for name, vector in found.items():
        stored = expected[name].vector
        if isinstance(stored, kinbin.Sparse):
            assert vector == dict(zip(np.asarray(stored.indices).tolist(), np.asarray(stored.values).tolist(), strict=True))
        else:
            assert stored is not None
            assert vector == {int(f): float(stored[f]) for f in np.flatnonzero(stored)}
        assert json.loads(files.items[name][1] or b"null") == expected[name].payload
    for row, ids in files.owners.items():
        assert sorted(ids) == sorted(name.encode() for name, (its, _) in files.items.items() if its == row)
    assert files.owners.keys() == files.living().keys()
    assert [entry.sequence for entry in files.journal] == list(range((files.state["sealed"] or 0) + 1, (files.state["sequence"] or 0) + 1))
    _check_postings(files, r, bands)


def _check_postings(files: naive_format.Files, r: int, bands: int) -> None:
    """Every row of every run stands in the slot of its own key, in every band; fresh rows have their keys."""
    seed = int(files.configuration["seed"])
    (run,) = (files.runs[number] for number in files.manifest)
    for local, (_, features, values) in enumerate(run.rows(files.wide).values()):
        if local % 7:
            continue
        row = list(zip(features, values, strict=True))
        for j in range(bands):
            codes = [naive_hashing.gcws_code(row, True, seed, x, j) for x in range(r)]
            assert local in run.bucket(j, naive_hashing.band_key(codes, j))
    for entry in files.journal:
        for (_, features, values), keys, content in list(zip(entry.rows, entry.keys, entry.hashes, strict=True))[:2]:
            row = list(zip(features, values, strict=True))
            assert content == naive_hashing.content_hash(row)
            for j in range(0, 128, 31):
                code = naive_hashing.gcws_code(row, True, seed, 0, j)
                assert keys[j] == naive_hashing.band_key([code], j) >> 16
