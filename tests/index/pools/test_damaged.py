"""Damage of a pool index: whoever checks is told, and whoever links has a whole one again."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy as np
import pytest

import kinbin
from naive_strings import some_strings
from pooled import pools_at_once
from torture.harm import Harm
from torture.pages import PAGE, PageMap

NAMES = ("data.mdb", "current")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed database of strings with a pool index."""
    folder = tmp_path_factory.mktemp("sound") / "data"
    texts = some_strings(np.random.default_rng(5), 300, 20, "abcdefgh")
    with pools_at_once(), kinbin.open(folder) as database:
        collection = database.create_collection("words", items="strings", seed=1)
        collection.add([str(i) for i in range(len(texts))], texts)
        collection.link()
        assert collection.check().problems == []
    return folder


def _harm(path: Path) -> Harm:
    """Another bit in the record, or zeros in the codes of the links."""
    data = path.read_bytes()
    if path.name == "current":
        return Harm("flip", "", ((len(data) // 2, bytes([data[len(data) // 2] ^ 1])),))
    page = random.Random(2).choice(PageMap.of(data).by_kind()["runs k:value"])
    return Harm("zeroed page", "", ((page * PAGE, bytes(PAGE)),))


@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_index_is_told_and_built_anew(sound: Path, tmp_path: Path, name: str) -> None:
    """All items are whole; what is missing is only found by some searches."""
    shutil.copytree(sound, tmp_path / "data")
    pools = tmp_path / "data" / "collections" / "words" / "pools"
    file = pools / name if name == "current" else pools / "1" / name
    file.write_bytes(_harm(file).done_to(file.read_bytes()))
    with pools_at_once(), kinbin.open(tmp_path / "data") as database:
        collection = database.collection("words")
        report = collection.check()
        assert (report.ok, report.items) == (False, 300)
        assert all(
            one.startswith("pool index: ") and one.endswith("; link the collection again (`kinbin link`)") for one in report.problems
        )
        collection.link()
        assert collection.check().problems == []
        assert [entry.name for entry in pools.iterdir() if entry.is_dir()] == ["2"]
