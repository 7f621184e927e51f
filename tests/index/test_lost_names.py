"""Files that lose their name while they are open: whoever asks for the collection does not get them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import kinbin
from kinbin.storage import shrinking, transactions

OTHER = """
import sys, kinbin
with kinbin.open(sys.argv[1]) as database:
    database.drop_collection("c", damaged=True)
    database.create_collection("c", dim=2).add(["new"], [[1.0, 1.0]])
"""


def filled(database: kinbin.Database) -> kinbin.Collection:
    """A collection of ten items."""
    collection = database.create_collection("c", dim=2)
    collection.add([str(i) for i in range(10)], [[i + 1.0, 2.0] for i in range(10)])
    return collection


def damaged(file: Path) -> None:
    """No process may write to a file any more: its list of free pages is damaged. Reading goes on."""
    data = bytearray(file.read_bytes())
    newest = max((0, 4096), key=lambda page: int.from_bytes(data[page + 144 : page + 152], "little"))
    root = int.from_bytes(data[newest + 80 : newest + 88], "little")
    data[root * 4096 + 12 : root * 4096 + 14] = b"\xff\xff"
    with file.open("r+b") as opened:
        opened.write(data)


@pytest.mark.slow
@pytest.mark.parametrize("gone", [False, True])
def test_a_collection_that_another_process_dropped_is_looked_for_anew(db: kinbin.Database, gone: bool) -> None:
    """One that could not be marked as dropped, as it was damaged: whoever asks for it gets the new one."""
    old = filled(db)
    for i in range(4):
        old.delete([str(i)])
    file = db.path / "collections" / "c" / "data.mdb"
    file.unlink() if gone else damaged(file)
    assert old.count() == 6
    subprocess.run([sys.executable, "-c", OTHER, str(db.path)], check=True, timeout=100)
    with pytest.raises(kinbin.CorruptData, match="replaced while it was open"):
        old.add(["x"], [[1.0, 1.0]])
    new = db.collection("c")
    assert new.query([1.0, 1.0], mode="exact").ids == ["new"]
    assert (new.count(), new.get(["0"]), db.collections()) == (1, [None], ["c"])


def test_a_directory_that_was_removed_holds_no_collection(db: kinbin.Database) -> None:
    """It is not found any more; one that is made in its place is the new one."""
    filled(db)
    (db.path / "collections" / "c").rename(db.path / "away")
    with pytest.raises(kinbin.CollectionNotFound):
        db.collection("c")
    made = db.create_collection("c", dim=7)
    assert (made.config.dim, made.count()) == (7, 0)


def test_a_file_that_was_made_anew_keeps_its_name(db: kinbin.Database) -> None:
    """A file that shrank is another one, and the same collection."""
    collection = filled(db)
    collection.compact(shrink=True)
    assert db.collection("c") is collection
    assert collection.count() == 10


def other(db: kinbin.Database, program: str) -> None:
    """What another process does to the database, which it finds as `database`."""
    text = f"import sys, kinbin\nwith kinbin.open(sys.argv[1]) as database:\n    {program}"
    subprocess.run([sys.executable, "-c", text, str(db.path)], check=True, timeout=100)


def test_whoever_holds_a_collection_sees_that_its_file_was_replaced(db: kinbin.Database) -> None:
    """Within a tenth of a second, and again when the file is back."""
    old = filled(db)
    folder = db.path / "collections" / "c"
    folder.rename(db.path / "away")
    other(db, 'database.create_collection("c", dim=2)')
    time.sleep(0.15)
    with pytest.raises(kinbin.CorruptData, match="replaced while it was open"):
        old.query([1.0, 1.0], mode="exact")
    shutil.rmtree(folder)
    (db.path / "away").rename(folder)
    time.sleep(0.15)
    assert old.query([1.0, 2.0], k=1, mode="exact").ids == ["0"]


@pytest.mark.slow
def test_a_collection_that_was_made_anew_behind_a_shrunk_one_is_another(db: kinbin.Database) -> None:
    """Shrunk, dropped and made anew by another process while a long read keeps the files of before open: they are not opened as its own."""
    old = filled(db)
    with ThreadPoolExecutor(1) as pool:
        reading, go_on = threading.Event(), threading.Event()

        def read() -> int:
            with old._store.read() as reader:
                reading.set()
                assert go_on.wait(60)
                return reader.state().items

        reader = pool.submit(read)
        assert reading.wait(60)
        other(db, 'database.collection("c").compact(shrink=True)')
        assert old._is_named()
        other(db, 'database.drop_collection("c"); database.create_collection("c", dim=2).add(["new"], [[1.0, 1.0]])')
        go_on.set()
        assert reader.result() == 10
    for use in (old.count, lambda: old.add(["x"], [[1.0, 1.0]]), lambda: old.query([1.0, 1.0]), old.compact):
        with pytest.raises(kinbin.CollectionNotFound, match="removed"):
            use()
    new = db.collection("c")
    assert (new.count(), new.get(["x"]), new.check().ok) == (1, [None], True)


@pytest.mark.slow
@pytest.mark.parametrize("again", [False, True])
def test_a_collection_that_was_dropped_behind_a_shrunk_one_is_removed(db: kinbin.Database, again: bool) -> None:
    """The mark of a drop is in a file that was made of the one that is open here: it is not taken for damage."""
    old = filled(db)
    other(db, 'database.collection("c").compact(shrink=True); database.drop_collection("c")')
    if again:
        other(db, 'database.create_collection("c", dim=2).add(["new"], [[1.0, 1.0]])')
    for use in (old.count, old.compact, lambda: old.add(["x"], [[1.0, 1.0]]), lambda: old.query([1.0, 1.0])):
        with pytest.raises(kinbin.CollectionNotFound, match="removed"):
            use()


def test_whoever_reads_does_not_wait_for_itself(db: kinbin.Database) -> None:
    """lock.mdb is removed during a read: what is read inside it is read of the same files, at once; then the files are opened anew."""
    collection = filled(db)
    opening = collection._store.opening
    reading = collection._store.read()
    reading.__enter__()
    (db.path / "collections" / "c" / "lock.mdb").unlink()
    time.sleep(0.15)
    began = time.monotonic()
    assert collection.count() == 10
    assert time.monotonic() - began < 5
    assert collection._store.opening == opening
    with pytest.raises(kinbin.StorageBusy, match="written over what was read"):
        reading.__exit__(None, None, None)
    assert collection.count() == 10
    assert collection._store.opening > opening


def test_items_that_are_older_than_their_fields_are_refused(tmp_path: Path) -> None:
    """An older copy of the first `data.mdb` of a collection with fields, of two commits before: nothing is answered, written or removed."""

    def vectors(n: int) -> dict[str, list[list[float]]]:
        return {"a": [[i + 1.0, 2.0] for i in range(n)]}

    own = tmp_path / "data" / "collections" / "c" / "data.mdb"
    with kinbin.open(tmp_path / "data") as database:
        collection = database.create_collection("c", fields={"a": {"dim": 2}})
        collection.add([str(i) for i in range(5)], vectors(5))
    shutil.copy(own, tmp_path / "older")
    with kinbin.open(tmp_path / "data") as database:
        for one in ("late", "later"):
            database.collection("c").add([one], vectors(1))
    shutil.move(own, tmp_path / "own")
    shutil.copy(tmp_path / "older", own)
    with kinbin.open(tmp_path / "data") as database:
        held = database.collection("c")
        for use in (lambda: held.query({"a": [1.0, 1.0]}), lambda: held.add(["x"], vectors(1)), held.scroll, lambda: held.delete(["0"])):
            with pytest.raises(kinbin.CorruptData, match=r"at commit 1, and field 'a' was written for commit 3: an older copy"):
                use()
        assert not held.check().ok
    shutil.move(tmp_path / "own", own)
    with kinbin.open(tmp_path / "data") as database:
        held = database.collection("c")
        assert held.count() == 7
        assert all(held.get(["late", "later", "0"]))
        assert held.check().ok


def test_a_file_that_was_removed_is_read_on(db: kinbin.Database) -> None:
    """Nothing is acknowledged any more; what was there can still be saved by the process that has it open."""
    collection = filled(db)
    (db.path / "collections" / "c" / "data.mdb").unlink()
    time.sleep(0.15)
    with pytest.raises(kinbin.CorruptData, match="snapshot or an export by this process"):
        collection.add(["x"], [[1.0, 1.0]])
    assert db.collection("c") is collection
    assert collection.stats()["count"] == 10
    assert "removed while it was open" in collection.check().problems[0]
    assert collection.snapshot(db.path / "saved.kinbin").items == 10
    collection.close()
    with pytest.raises(kinbin.CorruptData, match="not there"):
        db.collection("c")


@pytest.mark.slow
def test_writers_that_cannot_see_each_other_lose_nothing(db: kinbin.Database) -> None:
    """lock.mdb is removed under a process that writes, and another one makes a new one: both write in turn, and all is there."""
    collection = filled(db)
    (db.path / "collections" / "c" / "lock.mdb").unlink()
    for i in range(3):
        other(db, f'database.collection("c").add(["b{i}"], [[1.0, {i + 1}.0]])')
        collection.add([f"a{i}"], [[2.0, i + 1.0]])
    assert collection.count() == db.collection("c").count() == 16
    assert all(collection.get([f"{who}{i}" for who in "ab" for i in range(3)]))
    assert collection.check().ok
    # A reader notices as well: what others write is in its next answers.
    (db.path / "collections" / "c" / "lock.mdb").unlink()
    other(db, 'database.collection("c").add(["later"], [[3.0, 1.0]])')
    time.sleep(0.15)
    assert collection.get(["later"])[0] is not None


class Other:
    """Another process that has the collection open; it adds one item for each line that it is sent, and says when it is acknowledged."""

    PROGRAM = """
import sys, kinbin
with kinbin.open(sys.argv[1]) as database:
    collection = database.collection("c")
    print("open", collection.count(), flush=True)
    for line in sys.stdin:
        vector = [[1.0, 3.0]]
        collection.add([line.strip()], {"a": vector} if sys.argv[2] else vector)
        print("added", line.strip(), flush=True)
"""

    def __init__(self, db: kinbin.Database, fields: str = "") -> None:
        command = [sys.executable, "-c", self.PROGRAM, str(db.path), fields]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, id: str) -> None:
        """Let it add an item; it is not waited for."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{id}\n")
        self._process.stdin.flush()

    def told(self) -> str:
        """The next line that it says."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def end(self) -> None:
        """Let it end."""
        self._process.communicate(timeout=60)
        assert self._process.returncode == 0


def without_table_before_a_commit(db: kinbin.Database, monkeypatch: pytest.MonkeyPatch, then: Callable[[], None]) -> None:
    """Let every lock.mdb be removed between the next writer's begin and its commit, and something be done then."""
    finish, done = transactions.Writer.finish, False

    def late(writer: transactions.Writer, identity: bytes) -> None:
        nonlocal done
        finish(writer, identity)
        if writer.changed and not done:
            done = True
            for lock in (db.path / "collections" / "c").rglob("lock.mdb"):
                lock.unlink()
            then()

    monkeypatch.setattr(transactions.Writer, "finish", late)


@pytest.mark.slow
@pytest.mark.parametrize("fields", ["", "fields"])
def test_a_writer_whose_table_is_removed_loses_nothing_of_others(db: kinbin.Database, monkeypatch: pytest.MonkeyPatch, fields: str) -> None:
    """lock.mdb is removed between a writer's begin and its commit; another process opens the files, and writes when the first has ended."""
    vector = [[1.0, 2.0]]
    if fields:
        collection = db.create_collection("c", fields={"a": {"dim": 2}})
        collection.add(["0"], {"a": vector})
    else:
        collection = filled(db)
    others: list[Other] = []

    def begin() -> None:
        others.append(Other(db, fields))
        assert others[0].told().startswith("open")
        others[0].ask("theirs")
        # It waits, or it would have been quick.
        time.sleep(1)

    without_table_before_a_commit(db, monkeypatch, begin)
    with pytest.raises(kinbin.StorageBusy, match="outcome is unknown"):
        collection.add(["ours"], {"a": vector} if fields else vector)
    assert others[0].told() == "added theirs"
    others[0].ask("more")
    assert others[0].told() == "added more"
    collection.add(["late"], {"a": vector} if fields else vector)
    others[0].end()
    wanted = ["theirs", "more", "late"] if fields else ["ours", "theirs", "more", "late"]
    assert all(collection.get(wanted))
    assert collection.check().ok


@pytest.mark.slow
def test_a_table_that_is_behind_the_file_is_replaced(db: kinbin.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes share a table that a writer of the removed one has committed past: neither writes over that commit."""
    collection = filled(db)
    others: list[Other] = []

    def begin() -> None:
        others.extend([Other(db), Other(db)])
        assert [one.told() for one in others] == ["open 10", "open 10"]

    without_table_before_a_commit(db, monkeypatch, begin)
    with pytest.raises(kinbin.StorageBusy, match="outcome is unknown"):
        collection.add(["ours"], [[1.0, 2.0]])
    for i, one in enumerate(others):
        one.ask(f"theirs{i}")
        assert one.told() == f"added theirs{i}"
    for one in others:
        one.end()
    assert all(collection.get(["ours", "theirs0", "theirs1"]))
    assert collection.count() == 13
    assert collection.check().ok


@pytest.mark.slow
def test_a_shrink_whose_table_is_removed_loses_nothing(db: kinbin.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """lock.mdb is removed while the copy is made; another process writes when the copy has its name, to the copy."""
    collection = filled(db)
    others: list[Other] = []
    like = shrinking._like

    def late(old: Path, new: Path) -> None:
        (db.path / "collections" / "c" / "lock.mdb").unlink()
        others.append(Other(db))
        assert others[0].told() == "open 10"
        others[0].ask("theirs")
        time.sleep(1)
        like(old, new)

    monkeypatch.setattr(shrinking, "_like", late)
    collection.compact(shrink=True)
    assert others[0].told() == "added theirs"
    others[0].end()
    collection.add(["ours"], [[1.0, 2.0]])
    assert all(collection.get(["ours", "theirs"]))
    assert collection.count() == 12
    assert collection.check().ok


@pytest.mark.parametrize("fields", [False, True])
def test_an_older_copy_is_not_taken_by_whoever_asks_by_name(db: kinbin.Database, fields: bool) -> None:
    """The only process that had the newer file open, a service say, goes on refusing: opened anew the copy would be all there is."""
    vectors = {"a": [[1.0, 1.0]]} if fields else [[1.0, 1.0]]
    if fields:
        db.create_collection("c", fields={"a": {"dim": 2}}).add(["0"], vectors)
    else:
        filled(db)
    file = db.path / "collections" / "c" / "data.mdb"
    shutil.copy(file, db.path / "older")
    for i in range(3):
        db.collection("c").add([f"late{i}"], vectors)
    shutil.move(file, db.path / "own")
    shutil.copy(db.path / "older", file)
    uses = (lambda: db.collection("c").add(["x"], vectors), lambda: db.collection("c").count(), lambda: db.collection("c").scroll())
    for use in (*uses, *uses):
        time.sleep(0.06)
        with pytest.raises(kinbin.CorruptData, match="replaced while it was open"):
            use()
    shutil.move(db.path / "own", file)
    time.sleep(0.15)
    assert all(db.collection("c").get([f"late{i}" for i in range(3)]))
    assert db.collection("c").add(["x"], vectors).indexed == 1


def test_an_older_copy_under_a_process_is_told(db: kinbin.Database) -> None:
    """Whoever opens it is not sent away to try again: what happened is said, and the collection is named."""
    collection = filled(db)
    file = db.path / "collections" / "c" / "data.mdb"
    older = file.read_bytes()
    for i in range(3):
        collection.add([f"x{i}"], [[1.0, 1.0]])
    with file.open("r+b") as opened:
        opened.write(older)
    text = f"import kinbin\ntry: kinbin.open({str(db.path)!r}).collection('c')\nexcept kinbin.CorruptData as error: print(error)"
    told = subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, text=True, timeout=100).stdout
    assert told.startswith("collection 'c': data.mdb is at transaction ")
    assert "an older copy was put in its place" in told
    assert "end every process" in told


def test_what_is_no_collection_is_left_out_and_told(db: kinbin.Database) -> None:
    """A copy beside the others breaks nothing; check says that it is not used."""
    filled(db)
    folder = db.path / "collections"
    shutil.copytree(folder / "c", folder / "c copy")
    assert db.collections() == ["c"]
    report = db.check()
    assert (report["c"].ok, report["c copy"].ok) == (True, False)
    assert "nothing of it is used" in report["c copy"].problems[0]


def test_a_directory_without_files_of_a_store_is_damage(db: kinbin.Database) -> None:
    """Its name is taken until it is dropped; an empty one is free."""
    filled(db)
    db.close()
    with kinbin.open(db.path) as again:
        folder = db.path / "collections" / "c"
        for file in list(folder.iterdir()):
            file.unlink()
        (folder / "rest").write_bytes(b"something")
        uses: list[Callable[[], object]] = [
            lambda: again.create_collection("c", dim=2),
            lambda: again.create_collection("c", dim=2, exist_ok=True),
            lambda: again.collection("c"),
        ]
        for use in uses:
            with pytest.raises(kinbin.CorruptData, match="not there"):
                use()
        again.drop_collection("c", damaged=True)
        folder.mkdir()
        assert again.collections() == []
        assert again.create_collection("c", dim=2).count() == 0


@pytest.mark.parametrize("how", ["fifo", "empty"])
def test_what_is_no_file_is_not_waited_for(db: kinbin.Database, how: str) -> None:
    """A pipe in the place of the file would be waited for, for ever."""
    filled(db)
    db.close()
    file = db.path / "collections" / "c" / "data.mdb"
    file.unlink()
    if how == "fifo":
        os.mkfifo(file)
    else:
        file.touch()
    with kinbin.open(db.path) as again:
        for use in (again.collection, again.recoverable, again.repair):
            with pytest.raises((kinbin.FormatMismatch, kinbin.CorruptData)):
                use("c")


def test_an_alias_is_checked_and_repaired_as_its_collection(db: kinbin.Database) -> None:
    """As every command takes one."""
    filled(db)
    db.alias("other", "c")
    assert db.check(["other"])["c"].ok
    assert db.recoverable("other")[0].items == 10
    assert db.repair("other").name == "c-repaired"


def test_an_opening_waits_for_a_closing(db: kinbin.Database) -> None:
    """Two databases of one directory: while one lets go of its files, and somebody still reads them, the other waits."""
    collection = filled(db)
    reading, ended = threading.Event(), []

    def read() -> None:
        with collection.pinned():
            reading.set()
            time.sleep(0.5)
            ended.append(time.monotonic())

    threads = [threading.Thread(target=read), threading.Thread(target=db.close)]
    threads[0].start()
    assert reading.wait(10)
    threads[1].start()
    time.sleep(0.1)
    with kinbin.open(db.path) as again:
        assert again.collection("c").count() == 10
        assert time.monotonic() >= ended[0]
    for thread in threads:
        thread.join()


def test_a_writer_whose_collection_was_dropped_meanwhile_is_told_so(db: kinbin.Database) -> None:
    """Another process drops it, and makes a new one: that is no damage, whatever the writer had looked at before."""
    old = filled(db)
    other(db, 'database.drop_collection("c"); database.create_collection("c", dim=2)')
    with pytest.raises(kinbin.CollectionNotFound):
        old.add(["x"], [[1.0, 1.0]])
    assert db.collection("c").count() == 0
    for use in (lambda: old.add(["x"], [[1.0, 1.0]]), lambda: old.query([1.0, 1.0]), old.count):
        with pytest.raises(kinbin.CollectionNotFound, match="was removed"):
            use()


@pytest.mark.slow
@pytest.mark.parametrize("act", ["drop_collection('c')", "collection('c').compact(shrink=True)", "collection('c').delete(['1'])"])
def test_what_another_process_does_is_no_loss(db: kinbin.Database, act: str) -> None:
    """It drops the collection, makes its files anew, or writes to them; taken away they are lost, and no more once they are back."""
    filled(db)
    other = db.create_collection("other", dim=2)
    other.add(["a"], [[1.0, 1.0]])
    done = f"import sys, kinbin\nwith kinbin.open(sys.argv[1]) as database:\n    database.{act}\n"
    subprocess.run([sys.executable, "-c", done, str(db.path)], check=True, timeout=100)
    assert db.losses() == {}
    file = db.path / "collections" / "other" / "data.mdb"
    file.rename(db.path / "kept")
    assert "removed while it was open" in db.losses()["other"]
    assert other.count() == 1
    (db.path / "kept").rename(file)
    assert db.losses() == {}
