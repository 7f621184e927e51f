"""What is said of damage, and what can be done then, from the command line: each message names the collection and the next step."""

from __future__ import annotations

import errno
import os
import pickle
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from typer.testing import Result

import kinbin
from kinbin.storage.salvage import Salvage
from kinbin_client import Client
from linked import still
from service_process import Served

Run = Callable[..., Result]
FILE = "data.mdb"


def harmed(database: Path, name: str) -> Path:
    """The file of a collection, in whose journal a bit was flipped."""
    file = database / "collections" / name / FILE
    content = bytearray(file.read_bytes())
    rows = np.random.default_rng("abc".index(name)).random((200, 8)).astype(np.float32)
    content[content.index(rows[50, :4].tobytes())] ^= 1
    file.write_bytes(content)
    return file


def test_an_error_names_its_collection_and_the_next_step(three: Path) -> None:
    """Whoever reads an error knows whose files are damaged, and what to do; so does who gets it from another process."""
    harmed(three, "b")
    with kinbin.open(three) as database, pytest.raises(kinbin.CorruptData) as caught:
        database.collection("b").query(np.ones(8), mode="exact")
    error = pickle.loads(pickle.dumps(caught.value))
    assert str(error) == str(caught.value) == f"collection 'b': {error.what} ({kinbin.CorruptData.advice})"
    assert "kinbin repair" in error.advice
    assert "kinbin" not in error.what


def test_a_collection_whose_file_is_gone_is_not_forgotten(three: Path, run: Run) -> None:
    """It is listed; each use says what is missing; its name is not free; what is left of it can be dropped."""
    (three / "collections" / "b" / FILE).unlink()
    with kinbin.open(three) as database:
        assert database.collections() == ["a", "b", "c"]
        uses: list[Callable[[], object]] = [
            lambda: database.collection("b"),
            lambda: database.create_collection("b", dim=8, exist_ok=True),
            lambda: database.recoverable("b"),
            lambda: database.repair("b"),
            lambda: database.drop_collection("b"),
        ]
        for use in uses:
            with pytest.raises(kinbin.CorruptData, match=r"data\.mdb is not there: it was removed or moved away \(put it back"):
                use()
        assert database.collections() == ["a", "b", "c"]
    refused = run("drop", "b", "--data", three, "--yes")
    assert (refused.exit_code, "collection 'b': data.mdb is not there" in refused.stderr) == (1, True)
    dropped = run("drop", "b", "--data", three, "--yes", "--damaged")
    assert (dropped.exit_code, dropped.stdout) == (0, "b: dropped\n")
    assert run("check", "--data", three).stdout.count(": ok:") == 2
    assert run("drop", "nothing", "--data", three, "--yes", "--damaged").exit_code == 1
    assert run("drop", "c", "--data", three, "--yes", "--damaged").stdout == "c: dropped, with 200 items\n"
    with kinbin.open(three) as database:
        assert database.create_collection("b", dim=8).count() == 0


def test_an_overview_goes_on_after_a_damaged_collection(three: Path, run: Run) -> None:
    """stats tells of the others, names the one that is damaged, and ends with 1; of that one alone it is an error."""
    harmed(three, "b")
    shown = run("stats", "--data", three)
    assert shown.exit_code == 1
    assert [line.split()[0] for line in shown.stdout.splitlines()] == ["collection", "a", "c", "b:", "collection"]
    told = orjson.loads(run("stats", "--data", three, "--json").stdout)
    assert (told["a"]["count"], told["c"]["count"], told["b"]["error"]["code"]) == (200, 200, "corrupt_data")
    assert "kinbin repair" in told["b"]["error"]["message"]
    alone = run("stats", "--data", three, "--collection", "b")
    assert (alone.exit_code, alone.stderr.startswith("Error: collection 'b': ")) == (1, True)


def test_an_export_of_a_damaged_collection_says_what_to_do(three: Path, run: Run, tmp_path: Path) -> None:
    """The message names the collection, and repair; no file is left."""
    harmed(three, "b")
    refused = run("export", tmp_path / "b.jsonl", "--collection", "b", "--data", three)
    assert refused.exit_code == 1
    assert "collection 'b'" in refused.stderr
    assert "kinbin repair" in refused.stderr
    assert not list(tmp_path.glob("b.jsonl*"))


def test_check_and_repair_do_not_send_to_each_other(three: Path, run: Run) -> None:
    """A report of check lists damage and names repair once; what repair says names neither."""
    harmed(three, "b")
    report = run("check", "--data", three).stdout
    assert report.count("kinbin repair") == 1
    assert "kinbin check" not in report
    repaired = run("repair", "b", "--data", three)
    assert "kinbin check" not in repaired.stdout + repaired.stderr
    again = run("repair", "b", "--data", three)
    assert (again.exit_code, "--into" in again.stderr) == (1, True)


def test_repair_tells_of_items_of_which_nothing_is_known(three: Path, run: Run) -> None:
    """Items that are only counted, on pages that are gone, are not passed over in silence; an empty collection is no such case."""
    file = three / "collections" / "b" / FILE
    content = bytearray(file.read_bytes())
    pages = [at for at in range(0, len(content), 4096) if any(f"b{i}".encode() in content[at : at + 4096] for i in range(200))]
    for at in pages:
        if b"config" not in content[at : at + 4096] and int.from_bytes(content[at + 10 : at + 12], "little") == 2:
            content[at : at + 4096] = bytes(4096)
    file.write_bytes(content)
    told = run("repair", "b", "--data", three)
    assert told.exit_code == 1
    assert "collection 'b': nothing can be saved: 200 more items were stored, as the state record says" in told.stderr
    with kinbin.open(three) as database:
        assert database.collections() == ["a", "b", "c"]
        database.create_collection("empty", dim=4)
        assert database.repair("empty").items == 0


def test_files_that_were_swapped_are_to_be_swapped_back(three: Path, run: Run) -> None:
    """The message says so, and does not call it damage; a repair tells whose items these are."""
    a, b = (three / "collections" / name / FILE for name in "ab")
    content = a.read_bytes()
    a.write_bytes(b.read_bytes())
    b.write_bytes(content)
    with kinbin.open(three) as database, pytest.raises(kinbin.CorruptData, match="put each file back"):
        database.collection("a")
    told = run("repair", "b", "--data", three)
    assert (told.exit_code, "those of 'a'" in told.stdout) == (1, True)
    # They are put back, and everything is as it was.
    b.write_bytes(a.read_bytes())
    a.write_bytes(content)
    assert run("check", "--data", three, "--collection", "a").exit_code == 0


def test_a_list_of_older_states_names_the_gentler_way(three: Path, run: Run) -> None:
    """recover loses what came later; repair changes nothing: whoever looks at the list is told."""
    file = three / "collections" / "b" / FILE
    content = bytearray(file.read_bytes())
    content[4096:4256] = bytes(160)
    file.write_bytes(content)
    assert "may save more, and changes nothing here" in run("recover", "b", "--data", three).stdout


def test_a_state_whose_records_are_damaged_is_not_sound(three: Path, run: Run) -> None:
    """recover does not offer what opening refuses again."""
    harmed(three, "b")
    told = orjson.loads(run("recover", "b", "--data", three, "--json").stdout)
    assert [state["items"] for state in told["states"]] in ([], [0])


def with_fields(data: Path) -> Path:
    """A database of a collection `f` of two fields, of which each add is one entry of the journal."""
    with still(), kinbin.open(data) as database:
        collection = database.create_collection("f", fields={"colour": {"dim": 8}, "shape": {"dim": 8}})
        rows = np.random.default_rng(1).random((2, 50, 8))
        collection.add([f"f{i}" for i in range(50)], {"colour": rows[0], "shape": rows[1]})
    return data / "collections" / "f" / "fields"


@pytest.mark.slow
def test_check_and_repair_name_the_field(data: Path, run: Run) -> None:
    """A field's file that is gone: which field it is, and what to do; nothing is left beside the damaged collection."""
    fields = with_fields(data)
    kept = (fields / "shape" / FILE).read_bytes()
    (fields / "shape" / FILE).unlink()
    checked = run("check", "--data", data)
    assert checked.exit_code == 1
    assert checked.stdout.splitlines() == [
        "f: DAMAGED",
        "  field shape: data.mdb is not there: it was removed or moved away",
        "  What to do: put it back; or restore a snapshot",
    ]
    repair = run("repair", "f", "--data", data)
    assert (repair.exit_code, repair.stderr.startswith("Error: collection 'f/shape': data.mdb is not there")) == (1, True)
    (fields / "shape" / FILE).write_bytes(kept)
    assert run("check", "--data", data).exit_code == 0
    assert run("check", "--data", data, "--collection", "f-repaired").exit_code == 1


def test_a_field_is_not_repaired_from_the_files_of_another(data: Path, run: Run) -> None:
    """Rows are found by their numbers: those of another field would be given to items that never had them."""
    fields = with_fields(data)
    (fields / "shape" / FILE).write_bytes((fields / "colour" / FILE).read_bytes())
    repair = run("repair", "f", "--data", data)
    assert repair.exit_code == 1
    assert repair.stderr.startswith(
        "Error: collection 'f/shape': these are the files of 'f/colour': the vectors in them are of other items (put"
    )
    with kinbin.open(data) as database:
        assert database.collections() == ["f"]


def test_an_empty_file_is_not_sent_in_circles(three: Path, run: Run) -> None:
    """Nothing can be saved of it: repair says so, and names what can be done."""
    (three / "collections" / "b" / FILE).write_bytes(b"")
    assert "data.mdb is empty" in run("check", "--data", three).stdout
    repair = run("repair", "b", "--data", three)
    assert repair.stderr.startswith("Error: collection 'b': nothing can be saved: data.mdb is empty (restore a snapshot, or import")
    (three / "collections" / "b" / FILE).write_bytes(bytes(100_000))
    repair = run("repair", "b", "--data", three)
    assert repair.stderr.startswith("Error: collection 'b': nothing can be saved: what it was created with is lost")
    with kinbin.open(three) as database:
        assert database.collections() == ["a", "b", "c"]


def test_a_file_of_other_bytes_is_damage_that_can_be_dropped(three: Path, run: Run) -> None:
    """It is no file of another version of Kinbin: each message says what can be done."""
    (three / "collections" / "b" / FILE).write_bytes(np.random.default_rng(1).bytes(100_000))
    said = ""
    for command in (("stats",), ("recover", "b"), ("query", "--collection", "b", "--id", "b1"), ("drop", "b", "--yes")):
        told = run(*command, "--data", three)
        said = told.stdout + told.stderr
        assert told.exit_code == 1
        assert "data.mdb holds other bytes than those of a store" in said
        assert "kinbin repair" not in said, "it saves nothing"
    assert "--damaged" in said
    assert run("drop", "b", "--yes", "--damaged", "--data", three).exit_code == 0
    with kinbin.open(three) as database:
        assert database.collections() == ["a", "c"]


def test_a_repair_that_saves_nothing_leaves_nothing(three: Path, run: Run) -> None:
    """All rows came with one add, whose checksum does not hold: why they are lost is told, and there is no empty collection."""
    file = three / "collections" / "b" / FILE
    content = bytearray(file.read_bytes())
    rows = np.random.default_rng(1).random((200, 8)).astype(np.float32)
    for place in (20, 150):
        content[content.index(rows[place, :4].tobytes())] ^= 1
    file.write_bytes(content)
    repair = run("repair", "b", "--data", three)
    assert repair.exit_code == 1
    assert "200 items are known, and no checksum proves a vector of them" in repair.stderr
    assert "one checksum proves a whole add, and does not hold (1 adds)" in repair.stderr
    with kinbin.open(three) as database:
        assert database.collections() == ["a", "b", "c"]


@pytest.mark.slow
def test_what_could_not_be_looked_at_is_not_called_damaged(three: Path, run: Run) -> None:
    """A directory of another name, and files that may not be read: `repair` is no advice there."""
    (three / "collections" / "a copy").mkdir()
    checked = run("check", "--data", three)
    assert checked.exit_code == 1
    assert "a copy: NOT CHECKED\n  this is no name" in checked.stdout
    assert "kinbin repair" not in checked.stdout
    told = orjson.loads(run("check", "--data", three, "--json").stdout)["collections"]
    assert {name: report["checked"] for name, report in told.items()} == {"a": True, "b": True, "c": True, "a copy": False}
    assert not kinbin.CheckReport.of(kinbin.StorageError("permission denied")).checked
    assert not kinbin.CheckReport.of(kinbin.StorageBusy("try again")).checked
    assert kinbin.CheckReport.of(kinbin.FormatMismatch("of another version")).checked
    assert kinbin.CheckReport.of(ZeroDivisionError("no")).checked


def swapped(one: Path, other: Path) -> None:
    """Let two files change places."""
    kept = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(kept)


@pytest.mark.slow
def test_fields_whose_files_were_swapped_are_not_taken_over(data: Path, run: Run) -> None:
    """Alike as they are, nothing would ever show it: neither recover nor repair makes one of the other, and no advice leads there."""
    fields = with_fields(data)
    swapped(fields / "colour" / FILE, fields / "shape" / FILE)
    told = run("check", "--data", data).stdout.splitlines()
    assert told[0] == "f: DAMAGED"
    assert "these are the files of the collection 'f/" in told[1]
    assert told[2:] == ["  What to do: put each file back into the directory of its collection"]
    for field in ("colour", "shape"):
        refused = run("recover", f"f/{field}", "--transaction", "2", "--data", data)
        assert (refused.exit_code, "what is in them is of other items (put each file back" in refused.stderr) == (1, True)
        assert not (fields / field / "data.mdb.damaged").exists()
    assert run("repair", "f", "--data", data).exit_code == 1
    assert "a field is repaired with its collection: f" in run("repair", "f/shape", "--data", data).stderr
    swapped(fields / "colour" / FILE, fields / "shape" / FILE)
    assert run("check", "--data", data).exit_code == 0


def test_the_only_files_of_another_collection_are_not_dropped(three: Path, run: Run) -> None:
    """Two collections changed places: dropping one of them as damaged would remove what the other has nowhere else."""
    files = [three / "collections" / name / FILE for name in "ab"]
    swapped(*files)
    refused = run("drop", "a", "--data", three, "--yes", "--damaged")
    assert refused.exit_code == 1
    assert "collection 'a': these are the files of 'b', which has them nowhere else: they are not removed (put each file" in refused.stderr
    files[1].write_bytes(files[0].read_bytes())
    assert run("drop", "a", "--data", three, "--yes", "--damaged").exit_code == 0
    assert "b: ok: 200 items" in run("check", "--data", three).stdout


def test_repair_tells_that_the_items_are_older_than_their_fields(data: Path, run: Run) -> None:
    """What was written since is not in the file that is there: repair says so, and ends with 1."""
    fields = with_fields(data)
    items = fields.parent / FILE
    older = items.read_bytes()
    with still(), kinbin.open(data) as database:
        collection = database.fields_collection("f")
        for one in "xyz":
            collection.add([one], {"colour": np.ones((1, 8)), "shape": np.ones((1, 8))})
    items.write_bytes(older)
    repair = run("repair", "f", "--data", data)
    assert repair.exit_code == 1
    assert "field colour: it was written for commit 4, and the items are at commit 1: an older copy" in repair.stdout


def test_repair_tells_of_more_items_than_there_were(three: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of before, in the place of others, may hold what was deleted: the state record counts fewer, or is lost."""
    original = Salvage.records
    for counted, told in (
        (198, "2 items fewer were stored"),
        (None, "the state record is lost"),
        (203, "3 more items were stored"),
        (200, ""),
    ):
        monkeypatch.setattr(Salvage, "records", lambda self, counted=counted: replace(original(self), counted=counted))
        with kinbin.open(three) as database:
            problems = database.repair("a", "new").problems
            assert (len(problems), "".join(problems).startswith(told)) == (int(bool(told)), True)
            database.drop_collection("new")


@pytest.mark.slow
def test_what_was_cut_off_with_the_last_state_is_said_to_be_missing(data: Path) -> None:
    """Items of a later commit that shares rows with an earlier one: an older state record that counts without them is no witness."""
    rows = np.random.default_rng(1).random((300, 8))
    ids = [f"a{i}" for i in range(300)], [f"z{i}" for i in range(40)]
    with still(), kinbin.open(data) as database:
        collection = database.create_collection("a", dim=8)
        collection.add(ids[0], rows, [{"text": "y" * 300} for _ in ids[0]])
        collection.compact()
        collection.add(ids[1], rows[:40])
    file = data / "collections" / "a" / FILE
    whole = file.read_bytes()
    found = set()
    for pages in range(2, len(whole) // 4096, 3):
        file.write_bytes(whole[: 4096 * pages])
        with kinbin.open(data) as database:
            try:
                report = database.repair("a", "new")
            except kinbin.CorruptData:
                # Nothing was saved, and that is said.
                continue
            there = {item.id for item in database.collection("new").scroll(limit=1_000).items}
            database.drop_collection("new")
        missing = {*ids[0], *ids[1]} - there - set(report.lost_ids)
        told = [problem for problem in report.problems if "may be missing" in problem or "more items were stored" in problem]
        assert told or len(missing) <= max(0, report.lost - len(report.lost_ids)), pages
        found |= {problem.partition(";")[0] for problem in told}
    assert "the last state record is lost" in found


def test_a_field_that_is_gone_is_named_and_the_others_go_on(data: Path, run: Run) -> None:
    """Its whole directory was removed: that is no file of another version."""
    fields = with_fields(data)
    with kinbin.open(data) as database:
        database.create_collection("whole", dim=4)
    shutil.rmtree(fields / "shape")
    with kinbin.open(data) as database, pytest.raises(kinbin.CorruptData, match=r"collection 'f/shape': data\.mdb is not there"):
        database.collection("f")
    shown = run("stats", "--data", data)
    assert (shown.exit_code, "whole" in shown.stdout, "f: DAMAGED" in shown.stdout) == (1, True, True)
    assert "field shape: data.mdb is not there" in run("check", "--data", data).stdout
    dropped = run("drop", "f", "--data", data, "--yes", "--damaged")
    assert dropped.stdout == "f: dropped\n"


def test_a_directory_that_may_not_be_read_is_not_damaged(three: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others go on; it is not dropped as damaged, for its files may be whole."""
    scandir = os.scandir

    def refusing(path: Any = ".") -> Any:
        if str(path).endswith("/b"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with kinbin.open(three) as database:
        assert database.collections() == ["a", "b", "c"]
    monkeypatch.setattr(os, "access", lambda path, wanted: wanted == os.F_OK or not str(path).endswith("/b"))
    refused = run("drop", "b", "--data", three, "--yes", "--damaged")
    assert (refused.exit_code, "this user may not read or write" in refused.stderr) == (1, True)
    assert (three / "collections" / "b" / FILE).exists()


def test_a_recovery_that_finds_the_disk_full_can_be_repeated(three: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was copied of the file has not its name, and is removed."""
    original = shutil.copyfile

    def half(source: Path, target: Path) -> None:
        Path(target).write_bytes(Path(source).read_bytes()[:5_000])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", half)
    before = (three / "collections" / "a" / FILE).read_bytes()
    refused = run("recover", "a", "--transaction", "2", "--data", three)
    assert (refused.exit_code, "full" in refused.stderr) == (1, True)
    assert (three / "collections" / "a" / FILE).read_bytes() == before
    assert not [entry for entry in (three / "collections" / "a").iterdir() if "damaged" in entry.name]
    monkeypatch.setattr(shutil, "copyfile", original)
    assert run("recover", "a", "--transaction", "2", "--data", three).exit_code == 0


def test_damage_that_compaction_and_linking_meet_names_the_collection(three: Path) -> None:
    """What they read outside of a snapshot is told like everything else."""
    harmed(three, "b")
    with still(), kinbin.open(three) as database:
        for act in (database.collection("b").compact, database.collection("b").link):
            with pytest.raises(kinbin.CorruptData) as caught:
                act()
            assert caught.value.collection == "b"


def test_what_is_recovered_of_one_field_is_told(data: Path, run: Run) -> None:
    """Its file alone says nothing of how many items there are; and the items' own says nothing of the fields."""
    with_fields(data)
    told = run("recover", "f/colour", "--data", data).stdout
    assert "transaction 2: goes with the items of commit 0 or 1" in told
    assert "This is the file of one field. f is at commit 1, of 50 items" in told
    told = run("recover", "f", "--data", data).stdout
    assert f"`kinbin check --collection f --data {data}` says which of them is damaged" in told


@pytest.mark.slow
def test_fields_are_set_back_to_states_of_one_commit(data: Path, run: Run) -> None:
    """An older copy of one field's file, behind a replaced item: who follows what the lists say of commits gets answers again.

    Replacing is two transactions of a field, so numbers of transactions do not agree.
    """
    fields = with_fields(data)
    kept = (fields / "shape" / FILE).read_bytes()
    with still(), kinbin.open(data) as database:
        new = np.random.default_rng(2).random((2, 1, 8))
        database.collection("f").add(["f7"], {"colour": new[0], "shape": new[1]})
    (fields / "shape" / FILE).write_bytes(kept)
    assert "recover" in run("check", "--data", data).stdout
    stores = ("f", "f/colour", "f/shape")
    listed = {store: commits_of(run("recover", store, "--data", data).stdout) for store in stores}
    commit = max(set.intersection(*({one for fits in states.values() for one in fits} for states in listed.values())))
    assert commit == 1
    for store, states in listed.items():
        number = next(number for number, fits in states.items() if commit in fits)
        if number != max(states):
            assert run("recover", store, "--transaction", number, "--data", data).exit_code == 0
    assert run("check", "--data", data).exit_code == 0
    with kinbin.open(data) as database:
        collection = database.collection("f")
        assert collection.count() == 50
        assert len(collection.query_id("f7", k=50, mode="exact", include_self=True).ids) == 50


def commits_of(listing: str) -> dict[int, list[int]]:
    """By transaction, the commits of the items that a state in a listing of `recover` goes with; the last first."""
    lines = [line for line in listing.splitlines() if line.startswith("transaction ")]
    return {
        int(line.split()[1].rstrip(":")): [int(one) for one in re.findall(r"\d+", line.split("commit ")[1].split(",")[0])] for line in lines
    }


@pytest.mark.parametrize("name", [None, 5, b"a", ["a"]])
def test_what_is_no_name_is_refused_as_that(three: Path, name: Any) -> None:
    """No TypeError of whatever is done with it."""
    with kinbin.open(three) as database:
        for act in (lambda: database.check([name]), lambda: database.recoverable(name), lambda: database.recover(name, 2)):
            with pytest.raises(kinbin.KinbinError):
                act()


def test_what_is_damaged_is_dropped_of_a_service_too(served: Served, run: Run) -> None:
    """Whoever did not ask for that is told how; nothing else is dropped."""
    name, place = "drops-damaged", ("--url", served.address)
    with Client(served.address) as client:
        client.create_collection(name, dim=2).add(["a"], [[1.0, 2.0]])
        (served.data / "collections" / name / FILE).unlink()
        refused = run("drop", name, *place, "--yes")
        assert (refused.exit_code, "--damaged drops it as it is" in refused.stderr) == (1, True)
        assert name in client.collections()
        dropped = run("drop", name, *place, "--yes", "--damaged")
        # The service has the file open and still counts.
        assert (dropped.exit_code, dropped.stdout) == (0, f"{name}: dropped, with 1 items\n")
        assert name not in client.collections()
        client.create_collection(name, dim=3)
        assert run("drop", name, *place, "--yes", "--damaged").stdout == f"{name}: dropped, with 0 items\n"


def test_recover_says_whose_files_it_lists(three: Path, run: Run) -> None:
    """Files of another collection may be gone on with, and are named before that."""
    shutil.copy(three / "collections" / "c" / FILE, three / "collections" / "a" / FILE)
    assert "THESE ARE THE FILES OF 'c'" in run("recover", "a", "--data", three).stdout
    assert "THESE ARE" not in run("recover", "c", "--data", three).stdout


def test_recover_says_whose_files_were_taken(three: Path, run: Run) -> None:
    """A collection that was moved by hand goes on under its new name, and whoever says so is told whose it was."""
    (three / "collections" / "c").rename(three / "collections" / "moved")
    last = orjson.loads(run("recover", "moved", "--data", three, "--json").stdout)["states"][0]["transaction"]
    taken = run("recover", "moved", "--transaction", last, "--data", three)
    assert (taken.exit_code, "THESE WERE THE FILES OF 'c': what is in them is moved now" in taken.stdout) == (0, True)
    last = orjson.loads(run("recover", "moved", "--data", three, "--json").stdout)["states"][0]
    assert last["collection"] == "moved"


def test_what_is_advised_after_a_repair_by_an_alias_can_be_done(three: Path, run: Run) -> None:
    """The alias is set to the new collection, and then the damaged one is dropped, by its own name: an alias cannot be dropped."""
    assert run("alias", "used", "b", "--data", three).exit_code == 0
    harmed(three, "b")
    said = " ".join(run("repair", "used", "--data", three).stdout.split())
    commands = [command.split()[1:] for command in re.findall(r"`([^`]*)`", said)]
    assert [command[0] for command in commands] == ["alias", "drop"]
    for command in commands:
        assert run(*command, *(["--yes"] if command[0] == "drop" else [])).exit_code == 0
    with kinbin.open(three) as database:
        assert (database.collections(), database.aliases()) == (["a", "b-repaired", "c"], {"used": "b-repaired"})
        assert database.collection("used").count() == 200


def test_nothing_is_made_where_nothing_can_be_saved(three: Path, run: Run) -> None:
    """Of a file that is cut before its last state, and has no item in the one before, repair makes no empty collection."""
    file = three / "collections" / "b" / FILE
    content = file.read_bytes()
    made = []
    for end in range(0, len(content), 4096):
        file.write_bytes(content[:end])
        repaired = run("repair", "b", "--data", three, "--json")
        if repaired.exit_code == 0 or repaired.stdout:
            made.append(orjson.loads(repaired.stdout))
            assert run("drop", made[-1]["name"], "--data", three, "--yes").exit_code == 0
    assert made
    assert all(one["items"] for one in made)


def test_repair_says_that_all_is_there_and_what_comes_then(three: Path, run: Run) -> None:
    """Whoever repaired reads how many of how many were saved, and the two commands that put it in its place."""
    harmed(three, "b")
    said = run("repair", "b", "--data", three).stdout
    assert "b-repaired: all 200 items saved of b" in said
    assert f"`kinbin drop b --damaged --data {three}`, and `kinbin alias b b-repaired --data {three}`" in " ".join(said.split())


def test_names_to_check_are_a_list(three: Path) -> None:
    """One string is not taken for the names of its letters."""
    with kinbin.open(three) as database, pytest.raises(kinbin.InvalidInput, match=r"are a list: \['b'\]"):
        database.check("b")
