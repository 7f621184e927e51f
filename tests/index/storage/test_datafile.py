"""Which file a store has, what its meta pages say, and that nothing is acknowledged for a file that is lost."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

import kinbin.storage.directories
from kinbin.errors import CorruptData, FormatMismatch, StorageError
from kinbin.storage.creation import create_store
from kinbin.storage.datafile import DATA, in_order, metas_of
from kinbin.storage.headers import Identity
from kinbin.storage.store import Store
from store_contract import add_row, everything
from stored_headers import CONFIGURATION

PAGE = 4096
TRANSACTION = 16 + 8 + 16 + 96 + 8
"""Offset of the transaction in a meta page."""
FREE_LIST = range(40, 88)
"""Bytes of a meta page with the record of the list of free pages."""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A closed store of 20 commits."""
    create_store(tmp_path / "c", CONFIGURATION)
    store = Store(tmp_path / "c")
    for row in range(20):
        add_row(store, row)
    store.close()
    return tmp_path / "c"


def transactions(path: Path) -> list[int]:
    """Of both meta pages."""
    data = (path / DATA).read_bytes()
    return [struct.unpack_from("<Q", data, number * PAGE + TRANSACTION)[0] for number in (0, 1)]


def flip(path: Path, place: int, bit: int) -> None:
    """Flip one bit of the file."""
    with (path / DATA).open("r+b") as file:
        file.seek(place)
        (byte,) = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ 1 << bit]))


def test_opening_and_reading_write_nothing(place: Path) -> None:
    """The file is the same, byte by byte, after it was opened and read."""
    before = (place / DATA).read_bytes()
    store = Store(place)
    assert len(everything(store)["items"]) == 20
    store.close()
    assert (place / DATA).read_bytes() == before


@pytest.mark.parametrize("number", range(64))
def test_a_state_before_the_last_is_not_taken_for_the_last(place: Path, number: int) -> None:
    """Whatever bit of either meta page's transaction is flipped, the store is refused: LMDB would take the other state."""
    for page in (0, 1):
        flip(place, page * PAGE + TRANSACTION + number // 8, number % 8)
        with pytest.raises(CorruptData, match=r"do not follow each other|last commits were lost"):
            Store(place)
        flip(place, page * PAGE + TRANSACTION + number // 8, number % 8)


def test_no_flipped_bit_of_a_meta_page_changes_what_is_read(place: Path) -> None:
    """Any bit of what the meta pages say: the same is read as before, or the store is refused."""
    store = Store(place)
    before = everything(store)
    store.close()
    refused = 0
    for bit in range(8 * 152):
        for page in (0, 1):
            flip(place, page * PAGE + bit // 8, bit % 8)
            try:
                store = Store(place)
            except (CorruptData, FormatMismatch):
                refused += 1
            else:
                try:
                    assert everything(store) == before
                except CorruptData:
                    # Where it leads to an earlier list of free pages, that is not known from earlier trees.
                    assert bit // 8 in FREE_LIST
                store.close()
            flip(place, page * PAGE + bit // 8, bit % 8)
    assert refused > 400


def test_the_state_names_its_transaction(place: Path) -> None:
    """Every transaction that writes anything leaves a state record that names it; one that writes nothing leaves the file as it is."""
    store = Store(place)
    with store.write() as writer:
        writer.put_depths({"a": 1})
    with store.read() as reader:
        assert reader.state().transaction == reader.transaction == max(transactions(place))
    before = transactions(place)
    with store.write():
        pass
    assert transactions(place) == before
    store.close()


def test_an_older_state_in_the_place_of_the_last_is_refused(place: Path) -> None:
    """Where the meta page of the last commit leads to the pages of the one before, nothing is read."""
    data = bytearray((place / DATA).read_bytes())
    last = in_order(metas_of(bytes(data)))[0]
    old, new = (1 - last.transaction % 2) * PAGE, last.transaction % 2 * PAGE
    data[new + 16 : new + TRANSACTION] = data[old + 16 : old + TRANSACTION]
    (place / DATA).write_bytes(data)
    with pytest.raises(CorruptData, match="last commits were lost"):
        Store(place)


def swapped(path: Path, other: Path) -> None:
    """Another file under the name."""
    shutil.copyfile(other / DATA, path / "new")
    (path / "new").rename(path / DATA)


def overwritten(path: Path, other: Path) -> None:
    """Another file's content in this one."""
    (path / DATA).write_bytes((other / DATA).read_bytes())


def unlinked(path: Path, _: Path) -> None:
    """No file under the name."""
    (path / DATA).unlink()


def cut_off(path: Path, _: Path) -> None:
    """The file's last pages are gone."""
    os.truncate(path / DATA, (path / DATA).stat().st_size - 4 * PAGE)


@pytest.mark.parametrize("loss", [swapped, overwritten, unlinked, cut_off])
def test_nothing_is_acknowledged_for_a_file_that_is_lost(place: Path, tmp_path: Path, loss: Callable[[Path, Path], None]) -> None:
    """A store whose file was replaced, removed or cut off while it is open acknowledges no commit more."""
    create_store(tmp_path / "other" / "c", CONFIGURATION)
    other = Store(tmp_path / "other" / "c")
    for row in range(30):
        add_row(other, row)
    other.close()
    store = Store(place)
    add_row(store, 20)
    loss(place, tmp_path / "other" / "c")
    for _ in range(2):
        with pytest.raises(StorageError):
            add_row(store, 21)
    store.close()


def test_a_commit_to_a_file_that_was_lost_meanwhile_is_not_acknowledged(place: Path) -> None:
    """The file is looked for once more when the commit is on disk."""
    store = Store(place)

    def lose() -> None:
        with store.write() as writer:
            writer.put_depths({"a": 1})
            (place / DATA).unlink()

    with pytest.raises(CorruptData, match="removed while it was open"):
        lose()
    store.close()


def test_the_files_of_another_collection_are_refused(place: Path, tmp_path: Path) -> None:
    """A file names its collection: under another name it is refused, and both are named."""
    place.rename(tmp_path / "d")
    with pytest.raises(CorruptData, match="collection 'd': these are the files of the collection 'c'"):
        Store(tmp_path / "d")


def test_an_identity_that_is_gone_is_damage(place: Path) -> None:
    """A store of the format that has identities does without one no more."""
    store = Store(place)
    with store.write() as writer:
        writer.finish = lambda identity: None  # type: ignore[method-assign]
        writer.put_state(writer.state())
        writer._delete(0, (b"identity",))
    store.close()
    with pytest.raises(CorruptData, match="whose they are"):
        Store(place)
    assert Identity.decode({"collection": "c", "secret": "0"}).encode() == {"collection": "c", "secret": "0"}


@pytest.mark.parametrize("tree", [b"meta", b"items", b"owners", b"journal", b"runs"])
def test_a_missing_tree_is_damage(place: Path, tree: bytes) -> None:
    """A tree that is not found is not made anew, empty: the store is refused, and its file stays as it is."""
    data = bytearray((place / DATA).read_bytes())
    at = data.find(tree, 2 * PAGE)
    while at >= 0:
        data[at] ^= 1
        at = data.find(tree, at + 1)
    (place / DATA).write_bytes(data)
    with pytest.raises(CorruptData, match=r"missing|damaged"):
        Store(place)
    assert (place / DATA).read_bytes() == data


def test_the_list_of_free_pages_is_looked_at_before_it_is_used(place: Path) -> None:
    """A damaged list of free pages would let LMDB write over what is intact: nothing is written, and all is read."""
    data = (place / DATA).read_bytes()
    meta = in_order(metas_of(data))[0]
    number = meta.free_root * PAGE
    (slot,) = struct.unpack_from("<H", data, number + 16)
    listed = number + slot + 8 + 8
    for byte, bit in ((0, 4), (8, 7), (14, 0), (-9, 1)):
        flip(place, listed + byte, bit)
        store = Store(place)
        assert len(everything(store)["items"]) == 20
        with pytest.raises(CorruptData, match="free pages"):
            add_row(store, 20)
        store.close()
        flip(place, listed + byte, bit)


def test_keys_of_the_list_of_free_pages_are_looked_at(place: Path) -> None:
    """LMDB ends the process if a list of free pages is not found under its key: keys that do not ascend, or are to come, are refused."""
    data = (place / DATA).read_bytes()
    meta = in_order(metas_of(data))[0]
    number = meta.free_root * PAGE
    low, _, *slots = struct.unpack_from("<4H", data, number + 12)
    assert (low - 16) // 2 >= 2
    for slot in slots:
        for byte, bit in ((0, 7), (2, 3), (5, 6)):
            flip(place, number + slot + 8 + byte, bit)
            store = Store(place)
            assert len(everything(store)["items"]) == 20
            with pytest.raises(CorruptData, match="free pages"):
                add_row(store, 20)
            store.close()
            flip(place, number + slot + 8 + byte, bit)
    store = Store(place)
    add_row(store, 20)
    store.close()


def test_the_first_commit_syncs_all_directories(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever made the directories may have been killed before their names were on disk: the first commit of an opening syncs them."""
    synced: list[Path] = []
    monkeypatch.setattr(kinbin.storage.directories, "sync_directory", synced.append)
    store = Store(place)
    assert synced == []
    add_row(store, 20)
    assert synced[0] == place
    above = [path.resolve() for path in synced[1:]]
    assert above == list(place.resolve().parents)[: len(above)]
    assert above[-1].is_mount()
    synced.clear()
    add_row(store, 21)
    assert synced == []
    store.close()
