"""Look-ups and listings in the file's pages: what LMDB finds, whatever bit is flipped never something else."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import naive_format
from kinbin.errors import CorruptData
from kinbin.storage.creation import create_store
from kinbin.storage.datafile import DATA, in_order, metas_of
from kinbin.storage.lookups import ITEMS, NAMES, OWNERS, Trees
from kinbin.storage.store import Store
from kinbin.storage.transactions import Reader
from stored_headers import CONFIGURATION

FLIPS = 400
Records = dict[bytes, bytes]


def _ids(count: int) -> list[bytes]:
    """Ids of many lengths; the long ones make the tree three pages high."""
    return [b"%05d-" % (7 * i) + b"x" * (i * i % 181) for i in range(count)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The closed files of a store with 500 items, of which some have payloads on pages of their own, and their owners."""
    path = tmp_path_factory.mktemp("pages") / "store"
    create_store(path, CONFIGURATION)
    store = Store(path)
    ids = _ids(500)
    for part in (ids[::2], ids[1::2]):
        with store.write() as writer:
            writer.put_items((key, i, b"p" * (i * 37 % 90 if i % 50 else 6_000)) for i, key in enumerate(part))
            writer.put_owners((ids.index(key), [key]) for key in part)
            writer.put_state(writer.state().with_(items=len(ids)))
    store.close()
    return path


@pytest.fixture(scope="module")
def content(folder: Path) -> NDArray[np.uint8]:
    """The bytes of the file."""
    return np.fromfile(folder / DATA, np.uint8)


@pytest.fixture(scope="module")
def known(folder: Path) -> dict[str, Records]:
    """What LMDB finds in the file, by tree."""
    return {name: dict(pairs) for name, pairs in naive_format.dump(folder).items()}


def trees_of(content: NDArray[np.uint8]) -> Trees:
    """The trees of a file in memory."""
    meta = in_order(metas_of(content[:131_072].tobytes()))[0]
    pages = len(content) // meta.page_bytes
    return Trees(content.ctypes.data, meta.page_bytes, meta, pages, np.zeros(pages, np.uint32))


def test_every_value_is_found(content: NDArray[np.uint8], known: dict[str, Records]) -> None:
    """Each key of each tree has the value that LMDB finds, one by one and many at once; keys beside them have none."""
    trees = trees_of(content)
    for number, name in enumerate(NAMES):
        records = known[name.decode()]
        keys = list(records)
        random.Random(1).shuffle(keys)
        assert trees.get_many(number, keys) == [records[key] for key in keys]
        absent = [b"", b"\xff" * 300, *(key + b"\0" for key in keys), *(key[:-1] for key in keys if key[:-1] not in records)]
        assert trees.get_many(number, absent) == [None] * len(absent)
        for key in keys[:20]:
            assert trees.get(number, key) == records[key]
        assert trees.get_many(number, []) == []


@pytest.mark.parametrize("at_once", [1, 7, 256])
def test_records_are_listed_in_order(
    content: NDArray[np.uint8], known: dict[str, Records], monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """From any key on, there or not, all records follow in their order, however many are listed by one call."""
    monkeypatch.setattr("kinbin.storage.lookups._AT_ONCE", at_once)
    monkeypatch.setattr(Trees.listed, "__defaults__", (at_once,))
    trees = trees_of(content)
    for number, name in enumerate(NAMES):
        keys = sorted(known[name.decode()])
        for start in [b"", b"\xff", *keys[::41], *(key + b"\0" for key in keys[::53])]:
            assert [key for key, _, _ in trees.scan(number, start)] == keys[bisect_left(keys, start) :]


def _in_pages(reader: Reader) -> list[bytes]:
    """All ids, as a client scrolls: each page begins behind the last id of the one before."""
    found: list[bytes] = []
    while page := list(islice(reader.scan_items(found[-1] if found else None), 77)):
        found += [key for key, _, _ in page]
    return found


class Damage:
    """Changes a file in memory, looks at everything, and changes it back."""

    def __init__(self, content: NDArray[np.uint8], known: dict[str, Records]) -> None:
        self.content = content.copy()
        self.items, self.owners = known["items"], known["owners"]
        self.whole = self._uses(Reader(None, trees_of(content), 0))
        self.silent: list[str] = []
        self.refused = 0

    def _uses(self, reader: Reader) -> dict[str, Callable[[], Any]]:
        ids, rows = list(self.items), [int.from_bytes(key, "big") for key in self.owners]
        some = ids[:: len(ids) // 60]
        return {
            "items": lambda: [reader.items([key])[0] for key in some],
            "absent": lambda: [reader.items([key + b"\0"])[0] for key in some],
            "all items": lambda: list(reader.all_items()),
            "from the middle": lambda: list(reader.scan_items(some[30])),
            "page by page": lambda: _in_pages(reader),
            "owners": lambda: [reader.owners([row])[0] for row in rows[::9]],
            "all owners": lambda: list(reader.scan_owners()),
        }

    def flip(self, place: int, bit: int) -> None:
        """Flip one bit."""
        self._change(place, np.array([self.content[place] ^ 1 << bit], np.uint8), f"page {place >> 12}, byte {place & 4095}, bit {bit}")

    def copy(self, page: int, other: int) -> None:
        """Let a page hold what another one holds, but for its number."""
        self._change((page << 12) + 8, self.content[(other << 12) + 8 : other + 1 << 12].copy(), f"page {other} over {page}")

    def _change(self, place: int, new: NDArray[np.uint8], what: str) -> None:
        """Whatever comes back is what came back before, or it is refused."""
        here = slice(place, place + len(new))
        old = self.content[here].copy()
        self.content[here] = new
        try:
            reader = Reader(None, trees_of(self.content), 0)
        except CorruptData:
            self.refused += 1
        else:
            for name, use in self._uses(reader).items():
                try:
                    found = use()
                except CorruptData:
                    self.refused += 1
                    continue
                if found != self.expected(name):
                    self.silent.append(f"{name}: {what}")
        self.content[here] = old

    def expected(self, name: str) -> Any:
        """What the sound file gives."""
        found = self.whole[name]
        if callable(found):
            found = self.whole[name] = found()
        return found


@pytest.mark.slow
def test_no_flipped_bit_of_a_tree_is_believed(content: NDArray[np.uint8], known: dict[str, Records]) -> None:
    """Of branches and leaves of items and owners: what is looked up or listed is right, or refused; nothing is left out."""
    damage = Damage(content, known)
    damage.whole = {name: use() for name, use in damage.whole.items()}
    pages = [number for number in range(2, len(content) >> 12) if content[(number << 12) + 10] in (1, 2)]
    rng = random.Random(20)
    for number in range(FLIPS):
        page = rng.choice(pages)
        # Heads and slots of a page are few bytes, and lead everywhere.
        byte = rng.randrange(40) if number % 3 == 0 else rng.randrange(4096)
        damage.flip((page << 12) + byte, rng.randrange(8))
    assert damage.silent == []
    assert damage.refused > FLIPS // 2


@pytest.mark.slow
def test_no_page_is_taken_for_another(content: NDArray[np.uint8], known: dict[str, Records]) -> None:
    """Branches and leaves in the place of others of their kind, under their numbers: nothing is left out, whoever lists how."""
    damage = Damage(content, known)
    damage.whole = {name: use() for name, use in damage.whole.items()}
    kinds = {number: int(content[(number << 12) + 10]) for number in range(2, len(content) >> 12)}
    pages = sorted(number for number, kind in kinds.items() if kind in (1, 2))
    pairs = [(page, other) for page in pages for other in pages if page != other and kinds[page] == kinds[other]]
    for page, other in random.Random(21).sample(pairs, min(len(pairs), 500)):
        damage.copy(page, other)
    assert damage.silent == []
    assert damage.refused > 500


def test_damaged_pages_are_met_as_such(content: NDArray[np.uint8]) -> None:
    """A page that was zeroed, or is another one, is refused by look-ups and listings that pass it."""
    trees = trees_of(content)
    keys = [key for key, _, _ in trees.scan(ITEMS, b"")]
    address, size, *_ = trees.listed(ITEMS, keys[250], 1)[0]
    page = (address - content.ctypes.data) >> 12
    assert size
    for wrong in (np.zeros(4096, np.uint8), content[page - 1 << 12 : page << 12]):
        damaged = content.copy()
        damaged[page << 12 : page + 1 << 12] = wrong
        trees = trees_of(damaged)
        with pytest.raises(CorruptData):
            trees.get(ITEMS, keys[250])
        with pytest.raises(CorruptData):
            list(trees.scan(ITEMS, b""))
        assert trees.get(OWNERS, bytes(8)) is not None


def test_a_page_is_looked_at_once_in_a_transaction(content: NDArray[np.uint8], known: dict[str, Records]) -> None:
    """What was looked through bears the transaction's stamp; it is looked through anew only if neither this nor the one before saw it."""
    content = content.copy()
    trees = trees_of(content)
    key = next(iter(known["items"]))
    assert trees.get(ITEMS, key) == known["items"][key]
    address, _, *_ = trees.listed(ITEMS, key, 1)[0]
    page = (address - content.ctypes.data) >> 12
    stamp = trees.transaction + 2
    assert trees.seen[page] == stamp
    trees.seen[page] = stamp - 1
    assert trees.get(ITEMS, key) == known["items"][key]
    assert trees.seen[page] == stamp
    content[(page << 12) + 16] ^= 1
    trees.seen[page] = stamp - 2
    with pytest.raises(CorruptData):
        trees.get(ITEMS, key)
