"""kinbin dedup: files of documents without their near duplicates, and work that is killed and goes on."""

from __future__ import annotations

import csv
import fcntl
import importlib
import io
import os
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import Result

import kinbin
from kinbin_service.deduplicating import deduplicate, documents

Run = Callable[..., Result]
FOX = "the quick brown fox jumps over the lazy dog again and again and again today"
TEXTS = [FOX, "something else that is not near at all, really nothing", f"{FOX}!", "", FOX.replace("today", "tonight"), "Ünïcode ﬁsh swim"]
FIRSTS = [0, 1, 0, 3, 0, 5]


def ndjson(texts: list[str]) -> bytes:
    """A document a line, with other fields, and a blank line."""
    lines = [orjson.dumps({"id": n, "text": text, "more": [n]}) for n, text in enumerate(texts)]
    return b"\n".join([*lines[:2], b"", *lines[2:]])


def test_the_first_of_each_cluster_stays(run: Run, tmp_path: Path) -> None:
    """Lines that are kept are what they were, beside the input; the folder of the work is gone, and the summary says what was done."""
    (tmp_path / "docs.ndjson").write_bytes(ndjson(TEXTS))
    result = run("dedup", tmp_path / "docs.ndjson")
    assert result.exit_code == 0, result.stderr
    assert "4 of 6 documents are kept" in result.stdout
    kept = (tmp_path / "docs.dedup.ndjson").read_bytes().splitlines()
    lines = [line for line in ndjson(TEXTS).splitlines() if line]
    assert kept == [lines[n] for n in (0, 1, 3, 5)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["docs.dedup.ndjson", "docs.ndjson"]
    told = orjson.loads(run("dedup", tmp_path / "docs.ndjson", "--json", "--chars", "5", "--min-score", "0.99").stdout)
    assert (told["documents"], told["kept"]) == (6, 6)
    assert told["miss_probability"] <= 0.01


def test_all_formats_are_marked_and_cut_alike(run: Run, tmp_path: Path) -> None:
    """CSV, TSV, lines and NDJSON have the same documents kept, and the same marks."""
    rows = [["n", "body"], *([str(n), text] for n, text in enumerate(TEXTS))]
    for name, delimiter in (("docs.csv", ","), ("docs.tsv", "\t")):
        text = io.StringIO()
        csv.writer(text, delimiter=delimiter).writerows(rows)
        (tmp_path / name).write_text(text.getvalue())
        assert run("dedup", tmp_path / name, "--text", "body", "--mark", "--out", tmp_path / f"marked.{name}").exit_code == 0
        with (tmp_path / f"marked.{name}").open(newline="") as file:
            header, *marked = csv.reader(file, delimiter=delimiter)
        assert header == ["n", "body", "cluster", "keep"]
        assert [row[:2] for row in marked] == rows[1:]
        assert [(int(row[2]), row[3] == "true") for row in marked] == [(first, first == n) for n, first in enumerate(FIRSTS)]
        assert run("dedup", tmp_path / name, "--text", "body").exit_code == 0
        with (tmp_path / name.replace(".", ".dedup.")).open(newline="") as file:
            assert list(csv.reader(file, delimiter=delimiter)) == [rows[0], *(rows[1 + n] for n in (0, 1, 3, 5))]
    (tmp_path / "docs.ndjson").write_bytes(ndjson(TEXTS))
    assert run("dedup", tmp_path / "docs.ndjson", "--mark").exit_code == 0
    lines = [orjson.loads(line) for line in (tmp_path / "docs.dedup.ndjson").read_bytes().splitlines()]
    assert [(one["cluster"], one["keep"]) for one in lines] == [(first, first == n) for n, first in enumerate(FIRSTS)]
    (tmp_path / "docs.txt").write_text("\n".join(text for text in TEXTS if text))
    assert run("dedup", tmp_path / "docs.txt", "--mark").exit_code == 0
    assert [line.split("\t")[:2] for line in (tmp_path / "docs.dedup.txt").read_text().splitlines()][2] == ["0", "false"]


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("more", [[], ["--mark"]])
def test_cells_with_line_ends_of_any_kind_are_written_in_quotes(run: Run, tmp_path: Path, ending: str, more: list[str]) -> None:
    """What one run writes the next one reads, with line ends as that of the header, whose names may have some of their own."""
    file, out = tmp_path / "a.csv", tmp_path / "a.dedup.csv"
    rows = ['"i\nd\rn",text', '"a\rb","b c\rd e f"', '"a\nb",other text here now', '"a\r\nb",nothing of that at all', 'c,"one,\r"']
    file.write_text("".join(row + ending for row in rows), newline="")
    assert run("dedup", file, *more).exit_code == 0
    if not more:
        assert out.read_bytes() == file.read_bytes()
    assert out.read_bytes().endswith(ending.encode())
    assert out.read_bytes().count(b"\r\n") == (1 if ending == "\n" else 6)
    result = run("dedup", out)
    assert result.exit_code == 0, result.stderr
    assert (tmp_path / "a.dedup.dedup.csv").read_bytes() == out.read_bytes()


def test_parquet_keeps_columns_and_types(run: Run, tmp_path: Path) -> None:
    """Rows that are kept have all their columns; marks are two more."""
    table = pa.table({"n": pa.array(range(6), pa.int16()), "text": TEXTS})
    parquet.write_table(table, tmp_path / "docs.parquet", row_group_size=2)
    assert run("dedup", tmp_path / "docs.parquet").exit_code == 0
    assert parquet.read_table(tmp_path / "docs.dedup.parquet") == table.take([0, 1, 3, 5])
    assert run("dedup", tmp_path / "docs.parquet", "--mark").exit_code == 0
    marked = parquet.read_table(tmp_path / "docs.dedup.parquet")
    assert marked.column("cluster").to_pylist() == FIRSTS
    assert marked.drop_columns(["cluster", "keep"]) == table


@pytest.mark.parametrize(
    ("name", "content", "more", "code", "says"),
    [
        ("a.ndjson", b'{"text": 1}', [], 1, 'document 1 has no string in "text"'),
        ("a.ndjson", b'{"text": "a"}\n\n{', [], 1, "document 2 is no JSON"),
        ("a.ndjson", b'{"text": "a", "keep": 1}', ["--mark"], 1, 'have a field "keep" already'),
        ("a.csv", b"a,b\n1,2\n", [], 1, 'there is no column "text" (there are a, b)'),
        ("a.csv", b"", [], 1, "a.csv: the file is empty"),
        ("a.tsv", b"", ["--text", "b"], 1, "a.tsv: the file is empty"),
        ("a.csv", b"\na,text\n", [], 1, "a.csv: its first line is empty, and names no column"),
        ("a.csv", b"text\nx,y\n", [], 1, "document 1 has 2 cells, the header 1"),
        ("a.bin", b"", [], 1, "documents are in .ndjson"),
        ("a.txt", b"\xff\n", [], 1, "no UTF-8"),
        ("a.txt", b"a\n", ["--min-score", "0"], 1, "--min-score is a similarity"),
        ("a.txt", b"a\n", ["--words", "2", "--chars", "2"], 2, "not both"),
        ("a.txt", b"a\n", ["--segments", "words"], 2, "is not one of 'spaces', 'unicode'"),
        ("a.txt", b"a\n", ["--out", "b.csv"], 2, "has the format of the input"),
        ("a.txt", b"a\n", ["--words", "9" * 30], 1, "words is a whole number from 1 to 1,000,000"),
        ("a.txt", b"a\n", ["--seed", "9" * 30], 1, "seed is a whole number"),
        ("a.txt", b"a\n", ["--memory", "9" * 17], 2, "--memory"),
        ("a.txt", b"a\n", ["--text", "body"], 2, "a line is a document here"),
        ("a.txt", b"a\n", ["--out", "nowhere/b.txt"], 2, "there is no folder nowhere"),
        ("a.txt", b"a\n", ["--work", "nowhere/work"], 2, "there is no folder nowhere"),
        ("a.csv", b'id,text\n1,"abc\n2,def\n', [], 1, "no CSV in UTF-8: unexpected end of data"),
    ],
)
def test_what_cannot_be_done_is_told(run: Run, tmp_path: Path, name: str, content: bytes, more: list[str], code: int, says: str) -> None:
    """A file or option that is wrong ends with one line that says where, and leaves no output."""
    (tmp_path / name).write_bytes(content)
    result = run("dedup", tmp_path / name, *more)
    assert result.exit_code == code
    assert says in " ".join(result.stderr.replace("│", " ").split())
    assert not list(tmp_path.glob("*.dedup.*[nvt]"))


@pytest.mark.parametrize("form", ["ndjson", "csv", "parquet"])
def test_fields_of_the_names_of_marks_are_refused_before_anything_is_read(run: Run, tmp_path: Path, form: str) -> None:
    """By the header, the schema or the first document, and no work is left."""
    rows = [{"cluster": 1, "text": "a b c"}, {"cluster": 2, "text": "d e f"}]
    file = tmp_path / f"a.{form}"
    if form == "parquet":
        parquet.write_table(pa.Table.from_pylist(rows), file)
    else:
        file.write_bytes(b"cluster,text\n1,a b c\n" if form == "csv" else b"\n".join(map(orjson.dumps, rows)))
    told = run("dedup", file, "--mark")
    assert (told.exit_code, 'have a field "cluster" already' in told.stderr) == (1, True)
    assert [one.name for one in tmp_path.iterdir()] == [file.name]
    assert run("dedup", file).exit_code == 0


def test_only_white_space_of_ascii_makes_a_line_blank(run: Run, tmp_path: Path) -> None:
    """Other lines are documents, be it without a word, and such are kept."""
    (tmp_path / "a.txt").write_bytes("a b\n \t\n\x0b\x0c\r\n\n\u3000\n\u0085\n\x1f\n".encode())
    assert "4 of 4 documents are kept" in run("dedup", tmp_path / "a.txt").stdout
    assert (tmp_path / "a.dedup.txt").read_bytes() == "a b\n\u3000\n\u0085\n\x1f\n".encode()


@pytest.mark.parametrize("form", ["ndjson", "parquet"])
def test_a_mistake_at_the_beginning_leaves_nothing(run: Run, tmp_path: Path, form: str) -> None:
    """After a wrong --text the right one works at once; a document without the text is told as that, not as a wrong name."""
    rows = [{"n": 1, "body": "one two three four"}, {"n": 2, "body": "five six seven eight"}]
    file = tmp_path / f"a.{form}"
    if form == "parquet":
        parquet.write_table(pa.Table.from_pylist(rows), file)
    else:
        file.write_bytes(b"\n".join(map(orjson.dumps, rows)))
    told = run("dedup", file, "--text", "n")
    assert told.exit_code == 1
    assert 'document 1 has no string in "n": name the field with --text' in told.stderr
    assert not list(tmp_path.glob("*.work"))
    assert run("dedup", file, "--text", "body").exit_code == 0
    if form == "ndjson":
        file.write_bytes(b'{"body": "one two three"}\n{"n": 2}\n')
        told = run("dedup", file, "--text", "body")
        assert 'document 2 has no string in "body": every document needs one' in told.stderr
        assert not list(tmp_path.glob("*.work"))


def test_work_that_is_worth_something_stays_after_a_mistake(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where documents were noted before the one that is refused, another --text does not lose them, and says what differs."""
    file = tmp_path / "a.ndjson"
    begun(run, file, monkeypatch)
    told = run("dedup", file, "--text", "n")
    assert "(source)" in told.stderr
    assert "source is the file, as it was, and --text; --restart removes it" in told.stderr


def begun(run: Run, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have work on a file that was noted, and not done: the file has a mistake behind its first 5,000 documents."""
    monkeypatch.setattr("kinbin.duplicates.texts._NOTED_BYTES", 1)
    file.write_bytes(b'{"text": "a document"}\n' * 5_000 + b"{")
    assert "document 5001 is no JSON" in run("dedup", file).stderr


def test_a_folder_of_another_job_is_left_alone(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work on a file that has changed since is refused, and begun anew where that is asked for."""
    file = tmp_path / "docs.ndjson"
    begun(run, file, monkeypatch)
    assert (tmp_path / "docs.dedup.ndjson.work").is_dir()
    file.write_bytes(ndjson(TEXTS))
    result = run("dedup", file)
    assert (result.exit_code, "--restart removes it" in " ".join(result.stderr.split())) == (1, True)
    assert run("dedup", file, "--restart").exit_code == 0
    assert not (tmp_path / "docs.dedup.ndjson.work").exists()


CHINESE = "港口在星期一关闭因为一场风暴损坏了三台起重机中的两台港务局发言人在当天下午的新闻发布会上对记者们这样说"


def test_texts_without_spaces_are_near_by_the_rules_of_unicode(run: Run, tmp_path: Path) -> None:
    """A Chinese sentence with another day in it is one word at spaces, and near to nothing; cut by the rules of Unicode it is near."""
    other = "".join(chr(0x4E00 + 37 * n) for n in range(50))
    file, out = tmp_path / "docs.ndjson", tmp_path / "docs.dedup.ndjson"
    file.write_bytes(ndjson([CHINESE, other, CHINESE.replace("星期一", "星期二"), f"{CHINESE}。"]))
    for more, kept in (([], [0, 1, 2]), (["--segments", "spaces"], [0, 1, 2]), (["--segments", "unicode"], [0, 1])):
        result = run("dedup", file, *more)
        assert result.exit_code == 0, result.stderr
        assert [orjson.loads(line)["id"] for line in out.read_bytes().splitlines()] == kept


def test_emoji_are_characters_by_the_rules_of_unicode(run: Run, tmp_path: Path) -> None:
    """Families of which one is another are near by code points, and not where each is a character."""
    families = ["\u200d".join(chr(0x1F466 + (place >> n & 1)) for n in range(5)) for place in range(14)]
    file, out = tmp_path / "docs.ndjson", tmp_path / "docs.dedup.ndjson"
    file.write_bytes(ndjson(["".join(families), "".join([*families[:6], families[7], *families[7:]])]))
    for segments, kept in (("spaces", [0]), ("unicode", [0, 1])):
        assert run("dedup", file, "--chars", "3", "--min-score", "0.7", "--segments", segments).exit_code == 0
        assert [orjson.loads(line)["id"] for line in out.read_bytes().splitlines()] == kept


def test_work_with_other_segments_is_left_alone(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that was begun with other segments is refused, either way, and begun anew where that is asked for."""
    file = tmp_path / "docs.ndjson"
    begun(run, file, monkeypatch)
    for more, others in ((["--segments", "unicode"], []), ([], ["--segments", "unicode"])):
        told = " ".join(run("dedup", file, *more).stderr.split())
        assert "another job (segments)" in told
        assert "--restart removes it" in told
        assert "document 5001 is no JSON" in run("dedup", file, *more, "--restart").stderr
        assert "document 5001 is no JSON" in run("dedup", file, *more).stderr
        assert "another job (segments)" in " ".join(run("dedup", file, *others).stderr.split())


def test_a_missing_package_is_told_before_anything_is_made(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what cuts by the rules of Unicode the command says what to install, and leaves nothing behind."""
    monkeypatch.setitem(sys.modules, "unicode_segmentation_rs", None)
    file = tmp_path / "docs.ndjson"
    file.write_bytes(ndjson(TEXTS))
    result = run("dedup", file, "--segments", "unicode")
    assert result.exit_code == 1
    assert "pip install --find-links dist 'kinbin[text]'" in " ".join(result.stderr.split())
    assert [path.name for path in tmp_path.iterdir()] == ["docs.ndjson"]
    assert run("dedup", file).exit_code == 0


@pytest.mark.parametrize("more", [[], ["--restart"]])
def test_folders_that_are_no_work_are_left_alone(run: Run, tmp_path: Path, more: list[str]) -> None:
    """A folder with anything else in it is refused, and so is one that another process works in; nothing is removed or made there."""
    file = tmp_path / "docs.ndjson"
    file.write_bytes(ndjson(TEXTS))
    mine = tmp_path / "mine"
    (mine / "more").mkdir(parents=True)
    for path in (mine / "thesis.txt", mine / "more" / "keys.bin", mine / "job.json"):
        path.write_text("precious")
    before = sorted(mine.rglob("*"))
    for folder in (mine, tmp_path):
        result = run("dedup", file, "--work", folder, *more)
        assert result.exit_code == 1
        assert "is no work of deduplication" in " ".join(result.stderr.split())
    assert sorted(mine.rglob("*")) == before
    assert file.read_bytes() == ndjson(TEXTS)
    with kinbin.TextDuplicates(tmp_path / "docs.dedup.ndjson.work", shingler=kinbin.Shingler(words=3)) as job:
        job.add(["a b c"])
        result = run("dedup", file, *more)
        assert (result.exit_code, "another process works in" in " ".join(result.stderr.split())) == (1, True)
        assert "--restart" not in result.stderr
        assert job.finish().kept == 1


def test_what_else_is_in_the_folder_of_work_stays(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of the work removes its own files only."""
    file, folder = tmp_path / "docs.ndjson", tmp_path / "docs.dedup.ndjson.work"
    begun(run, file, monkeypatch)
    (folder / "note.txt").write_text("precious")
    file.write_bytes(ndjson(TEXTS))
    assert run("dedup", file, "--restart").exit_code == 0
    assert [one.name for one in folder.iterdir()] == ["note.txt"]


@pytest.mark.parametrize("changed", [TEXTS[::-1], [*TEXTS, "more text"], TEXTS[:3]])
def test_a_file_that_changes_while_it_is_read_is_refused(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: list[str]
) -> None:
    """The input is read twice; if another lies there the second time, nothing is written."""
    file = tmp_path / "docs.ndjson"
    file.write_bytes(ndjson(TEXTS))
    finish = kinbin.TextDuplicates.finish

    def finish_late(job: kinbin.TextDuplicates, *more: Any) -> kinbin.TextClusters:
        found = finish(job, *more)
        file.write_bytes(ndjson(changed))
        return found

    monkeypatch.setattr(kinbin.TextDuplicates, "finish", finish_late)
    result = run("dedup", file)
    assert (result.exit_code, "changed while it was read" in " ".join(result.stderr.split())) == (1, True)
    assert not (tmp_path / "docs.dedup.ndjson").exists()
    monkeypatch.undo()
    # "run the command again" is what helps.
    assert run("dedup", file).exit_code == 0
    assert (tmp_path / "docs.dedup.ndjson").exists()


def test_marks_leave_the_rest_of_a_line_as_it_is(run: Run, tmp_path: Path) -> None:
    """Numbers that no float holds, fields that stand twice, escapes and spaces: only the marks are added."""
    lines = [
        b'{"text":"a b c d","big":123456789012345678901234567890}',
        b'{ "x" : 1.0, "x": 2, "text": "\\u0061 b c d e f g" }  ',
        b'{"text":"nothing of that","deep":{"text":[]}}',
    ]
    (tmp_path / "a.ndjson").write_bytes(b"\n".join(lines))
    assert run("dedup", tmp_path / "a.ndjson", "--mark").exit_code == 0
    assert (tmp_path / "a.dedup.ndjson").read_bytes().splitlines() == [
        lines[0][:-1] + b',"cluster":0,"keep":true}',
        lines[1].rstrip()[:-2] + b',"cluster":1,"keep":true}',
        lines[2][:-1] + b',"cluster":2,"keep":true}',
    ]


def test_an_output_is_written_by_one_process_at_a_time(run: Run, tmp_path: Path) -> None:
    """Who comes while another writes is refused and touches nothing; what a killed one left is no hindrance."""
    file, draft = tmp_path / "docs.ndjson", tmp_path / ".docs.dedup.ndjson.part"
    file.write_bytes(ndjson(TEXTS))
    draft.write_bytes(b"half a line of somebody")
    with draft.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        result = run("dedup", file)
        assert (result.exit_code, "another process writes this output" in " ".join(result.stderr.split())) == (1, True)
        assert draft.read_bytes() == b"half a line of somebody"
    assert run("dedup", file).exit_code == 0
    assert [orjson.loads(line)["id"] for line in (tmp_path / "docs.dedup.ndjson").read_bytes().splitlines()] == sorted(set(FIRSTS))
    assert not draft.exists()


def test_a_file_that_is_no_parquet_is_told(run: Run, tmp_path: Path) -> None:
    """In one line, as other files that are not what their names say."""
    (tmp_path / "a.parquet").write_bytes(b"PAR1 this is none")
    result = run("dedup", tmp_path / "a.parquet")
    assert (result.exit_code, "no Parquet file" in " ".join(result.stderr.split())) == (1, True)


def test_a_folder_is_no_output(run: Run, tmp_path: Path) -> None:
    """It is refused before anything is read."""
    (tmp_path / "a.txt").write_bytes(b"a\n")
    (tmp_path / "b.txt").mkdir()
    result = run("dedup", tmp_path / "a.txt", "--out", tmp_path / "b.txt")
    assert (result.exit_code, "is a folder" in " ".join(result.stderr.replace("│", " ").split())) == (2, True)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.txt", "b.txt"]


STAGES = {
    "reading": ("kinbin.duplicates.texts", "_Note", 3),
    "noting": ("kinbin.duplicates.work", "Work.note", 4),
    "equal texts": ("kinbin.duplicates.identical", "_in_part", 2),
    "rows": ("kinbin.duplicates.texts", "_rows", 2),
    "hashing": ("kinbin.duplicates.texts", "folded_keys", 2),
    "comparing": ("kinbin.duplicates.search", "join_rows", 2),
    "clusters": ("kinbin.duplicates.texts", "_name", 1),
    "writing": ("kinbin_service.deduplicating.files", "NdjsonDocuments._marked", 500),
}
"""By stage where the process is killed: module, function, at which call."""


def job_of(folder: Path) -> kinbin.TextDuplicates:
    """The job that is killed."""
    return kinbin.TextDuplicates(folder / "work", shingler=kinbin.Shingler(words=2), min_score=0.6)


def killed_in(folder: Path, stage: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Do the work in a process that is killed in a stage. Returns the signal that ended it."""
    module, path, calls = STAGES[stage]
    owner: Any = importlib.import_module(module)
    *above, name = path.split(".")
    for step in above:
        owner = getattr(owner, step)
    whole = kinbin.TextDuplicates.add if stage == "reading" else getattr(owner, name)
    count = 0

    def dying(*given: Any, **more: Any) -> Any:
        nonlocal count
        count += 1
        if count == calls:
            os.kill(os.getpid(), signal.SIGKILL)
        return whole(*given, **more)

    if stage == "reading":
        owner, name = kinbin.TextDuplicates, "add"
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        child = os.fork()
    if child == 0:
        setattr(owner, name, dying)
        work_through(folder)
        os._exit(0)
    return os.WTERMSIG(os.waitpid(child, 0)[1])


def work_through(folder: Path) -> None:
    """All of the work, or what is left of it."""
    with job_of(folder) as job:
        deduplicate(documents(folder / "docs.ndjson", "text", 1_024), job, folder / "out.ndjson", mark=True, check=lambda: None)


@pytest.mark.durability
@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked with compiled kernels in them")
def test_killed_work_goes_on_to_the_same_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed in the middle of any stage, and done again from there, the output is what it is without a kill, byte by byte."""
    monkeypatch.setattr("kinbin.duplicates.texts._NOTED_BYTES", 20_000)
    monkeypatch.setattr("kinbin.duplicates.identical._SORTED", 400)
    monkeypatch.setattr("kinbin.duplicates.search._SLICE", 10)
    monkeypatch.setattr("kinbin.duplicates.search.CHUNK", 300)
    monkeypatch.setattr("kinbin_service.deduplicating.source.BATCH", 200)
    texts = [
        " ".join(f"w{n * 7 % 911 + place * (1 + n % 5)}" for place in range(12 + (step == n % 3))) for n in range(400) for step in range(3)
    ]
    for name in ("whole", *STAGES):
        (tmp_path / name).mkdir()
        (tmp_path / name / "docs.ndjson").write_bytes(ndjson(texts))
    work_through(tmp_path / "whole")
    wanted = (tmp_path / "whole" / "out.ndjson").read_bytes()
    assert 0 < wanted.count(b'"keep":false') < len(texts)
    for stage in STAGES:
        folder = tmp_path / stage
        assert killed_in(folder, stage, monkeypatch) == signal.SIGKILL, stage
        assert not (folder / "out.ndjson").exists()
        read = job_of(folder)
        assert (0 < read.documents < len(texts)) if stage in {"reading", "noting"} else read.documents == len(texts)
        read.close()
        work_through(folder)
        assert (folder / "out.ndjson").read_bytes() == wanted, stage


@pytest.mark.parametrize("mark", [False, True])
@pytest.mark.parametrize("begin", [b"", b"\n", b" \n"])
def test_a_byte_order_mark_is_no_part_of_a_document(run: Run, tmp_path: Path, mark: bool, begin: bytes) -> None:
    """NDJSON and lines that an editor began with a mark are read as they are without it, and written without it."""
    for name, content in (("a.ndjson", ndjson(TEXTS)), ("a.txt", "\n".join(text for text in TEXTS if text).encode())):
        written = []
        for start in (b"", b"\xef\xbb\xbf"):
            (tmp_path / name).write_bytes(start + begin + content)
            result = run("dedup", tmp_path / name, *(["--mark"] if mark else []))
            assert result.exit_code == 0, result.stderr
            written.append((tmp_path / name.replace(".", ".dedup.")).read_bytes())
        assert written[0] == written[1]
        assert FOX.encode() in written[0]


def test_what_is_written_of_lines_and_rows_is_what_was_read(run: Run, tmp_path: Path) -> None:
    """White space around marked lines stays, and the ends of lines of CSV."""
    (tmp_path / "a.txt").write_bytes(b"\tan indented line  \nanother line altogether\r\n")
    assert run("dedup", tmp_path / "a.txt", "--mark").exit_code == 0
    assert (tmp_path / "a.dedup.txt").read_bytes() == b"0\ttrue\t\tan indented line  \n1\ttrue\tanother line altogether\n"
    for end in (b"\n", b"\r\n"):
        content = end.join([b"text,n", b"a b c d,1", b'"e f\ng h",2', b""])
        (tmp_path / "a.csv").write_bytes(content)
        assert run("dedup", tmp_path / "a.csv").exit_code == 0
        assert (tmp_path / "a.dedup.csv").read_bytes() == content


def test_a_file_that_is_removed_while_it_is_read_is_told(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that has changed, and no work stays."""
    file = tmp_path / "docs.ndjson"
    file.write_bytes(ndjson(TEXTS))
    finish = kinbin.TextDuplicates.finish

    def finish_late(job: kinbin.TextDuplicates, *more: Any) -> kinbin.TextClusters:
        found = finish(job, *more)
        file.unlink()
        return found

    monkeypatch.setattr(kinbin.TextDuplicates, "finish", finish_late)
    result = run("dedup", file)
    assert (result.exit_code, "changed while it was read" in " ".join(result.stderr.split())) == (1, True)
    assert not list(tmp_path.iterdir())
