"""query, stats, check and version: what they print, for people and for programs, and their exit codes."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from numpy.typing import NDArray
from typer.testing import Result

import kinbin
from kinbin_service.cli.import_ import Mode
from kinbin_service.cli.options import KERNEL_NAMES
from kinbin_service.cli.query import Search

Run = Callable[..., Result]
Spawn = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def vectors(rng: np.random.Generator) -> NDArray[np.float32]:
    """The vectors of the collection "photos", by row."""
    return rng.random((300, 16), dtype=np.float32)


@pytest.fixture
def filled(data: Path, vectors: NDArray[np.float32]) -> Path:
    """A database of two collections: "photos", 300 items p0 … p299 with payload {"row": n}, and "words", 2 items of tokens."""
    with kinbin.open(data) as database:
        photos = database.create_collection("photos", dim=16)
        photos.add([f"p{row}" for row in range(300)], vectors, payloads=[{"row": row} for row in range(300)])
        words = database.create_collection("words", kernel="minmax")
        words.add(["a", "b"], [kinbin.Tokens({"red": 3, "apple": 1}), kinbin.Sparse([3, 9], [1.0, 2.0])])
    return data


def zipped(array: NDArray[Any]) -> bytes:
    """An array as a .npz archive."""
    held = io.BytesIO()
    np.savez(held, array)
    return held.getvalue()


def answer_of(result: Result) -> dict[str, Any]:
    """The JSON that a query printed."""
    assert result.exit_code == 0, result.stderr
    parsed: dict[str, Any] = orjson.loads(result.stdout)
    return parsed


def test_query_by_vector_says_what_the_library_says(filled: Path, run: Run, vectors: NDArray[np.float32]) -> None:
    """The JSON of a query is the library's answer in the form of `POST /query`, with payloads."""
    text = orjson.dumps(vectors[7].tolist()).decode()
    told = answer_of(run("query", "--data", filled, "--collection", "photos", "--vector", text, "-k", 3, "--mode", "exact", "--json"))
    with kinbin.open(filled) as database:
        answer = database.collection("photos").query(vectors[7], k=3, mode="exact")
    assert [hit["id"] for hit in told["results"]] == answer.ids
    assert [hit["score"] for hit in told["results"]] == answer.scores.tolist()
    assert told["results"][0] == {"id": "p7", "score": pytest.approx(1.0), "payload": {"row": 7}}
    assert (told["recall_lower_bound"], told["mode"], told["truncated"]) == (1.0, "exact", [])
    assert set(told) == {"results", "recall_lower_bound", "mode", "candidates", "verified", "truncated", "steps", "took_ms"}


def test_query_by_id_with_options(filled: Path, run: Run) -> None:
    """k, filter, least score and target recall reach the library."""
    common = ("query", "--data", filled, "--collection", "photos", "--id", "p9", "--json")
    told = answer_of(run(*common, "-k", 2, "--filter", '{"row": {"$lt": 5}}', "--target-recall", 0.99))
    assert len(told["results"]) == 2
    assert all(hit["payload"]["row"] < 5 for hit in told["results"])
    assert answer_of(run(*common, "--min-score", 0.999))["results"] == []
    kept = answer_of(run(*common, "--include-self", "--min-score", 0.999))
    assert [hit["id"] for hit in kept["results"]] == ["p9"]
    whole = [hit["id"] for hit in answer_of(run(*common, "-k", 9))["results"]]
    left = answer_of(run(*common, "-k", 3, "--offset", 2, "--exclude", whole[0], "--exclude", whole[4]))["results"]
    assert [hit["id"] for hit in left] == [whole[3], whole[5], whole[6]]


def test_query_by_examples_and_in_groups(filled: Path, run: Run) -> None:
    """Examples, groups and times reach the library; times are shown to people as well."""
    common = ("query", "--data", filled, "--collection", "photos", "--json")
    told = answer_of(run(*common, "--positive", "p9", "--positive", "p3", "--negative", "p4", "-k", 3))
    with kinbin.open(filled) as database:
        photos = database.collection("photos")
        assert [hit["id"] for hit in told["results"]] == photos.query_examples(["p9", "p3"], ["p4"], k=3).ids
    grouped = answer_of(run(*common, "--id", "p9", "--group-by", '{"field": "row", "groups": 2}', "--debug"))
    assert [group["ids"] for group in grouped["groups"]] == [[hit["id"]] for hit in grouped["results"]]
    assert all(step["ms"] >= 0 for step in grouped["debug"]["steps"])
    shown = run("query", "--data", filled, "--collection", "photos", "--id", "p9", "--debug")
    assert " ms  plan, filter and names" in shown.stdout


def test_query_by_a_file_of_one_or_many(filled: Path, run: Run, vectors: NDArray[np.float32], tmp_path: Path) -> None:
    """A 1-d array is one query and gives one answer, a 2-d array many and gives a list, as over HTTP."""
    np.save(tmp_path / "one.npy", vectors[3])
    np.save(tmp_path / "many.npy", vectors[3:6].astype(np.float64))
    common = ("query", "--data", filled, "--collection", "photos", "-k", 1, "--json")
    assert answer_of(run(*common, "--file", tmp_path / "one.npy"))["results"][0]["id"] == "p3"
    many = answer_of(run(*common, "--file", tmp_path / "many.npy"))
    assert [answer["results"][0]["id"] for answer in many["answers"]] == ["p3", "p4", "p5"]


SPARSE_FORMS = [
    '{"tokens": {"red": 3, "apple": 1}}',
    '{"tokens": ["red", "apple", "red", "red"]}',
    '["red", "apple", "red", "red"]',
    '{"indices": [9, 3], "values": [2, 1]}',
]


@pytest.mark.parametrize("vector", SPARSE_FORMS)
def test_query_by_sparse_forms(filled: Path, run: Run, vector: str) -> None:
    """Sparse and token vectors are taken in the forms of the REST contract."""
    told = answer_of(run("query", "--data", filled, "--collection", "words", "--vector", vector, "-k", 1, "--json"))
    assert told["results"][0]["id"] == ("a" if "red" in vector else "b")
    assert told["results"][0]["score"] == pytest.approx(1.0)


def test_query_for_people(filled: Path, run: Run) -> None:
    """Text output lists rank, id, score and payload, and states the certificate in words."""
    result = run("query", "--data", filled, "--collection", "photos", "--id", "p9", "-k", 2, "--mode", "exact", "--include-self")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["rank", "id", "score", "payload"]
    assert lines[1].split() == ["1", "p9", "1.000000", '{"row":9}']
    assert lines[3] == "mean recall is at least 1.000, proved; mode exact, 300 of 300 candidates scored"


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (("--id", "nobody"), 1, "no item"),
        (("--vector", "[1, 2]"), 1, "16"),
        (("--vector", "[1, true]"), 2, "--vector: the vector must hold numbers only, got True at place 1"),
        (("--vector", "{}"), 2, "--vector: the vector must be a list of numbers"),
        (("--vector", "[1,"), 2, "--vector is not JSON"),
        (("--id", "p1", "--filter", "{x"), 2, "--filter is not JSON"),
        (("--id", "p1", "--filter", '{"row": {"$near": 1}}'), 1, "unknown operator"),
        (("--id", "p1", "--vector", "[1]"), 2, "give one of --vector, --id and --file"),
        ((), 2, "give one of --vector, --id and --file"),
        (("--positive", "p1", "--id", "p1"), 2, "give one of --vector, --id and --file"),
        (("--id", "p1", "--negative", "p2"), 2, "--negative goes with --positive"),
        (("--positive", "nobody", "--positive", "p1"), 1, "no item of this collection has the id of this example"),
        (("--id", "p1", "--group-by", "{"), 2, "--group-by is not JSON"),
        (("--id", "p1", "--group-by", "{}"), 1, "--group-by is an object as"),
        (("--id", "p1", "--offset", "10001"), 3, "10000"),
        (("--id", "p1", "-k", "1001"), 3, "1000"),
        (("--id", "p1", "--target-recall", "0"), 1, "--target-recall is"),
        (("--id", "p1", "--collection", "nothing"), 1, "no collection"),
        (("--id", "p1", "--collection", "../x"), 1, "collection"),
        (("--file", "none.npy"), 1, "none.npy: No such file or directory"),
    ],
)
def test_queries_that_cannot_be(filled: Path, run: Run, arguments: tuple[str, ...], code: int, expected: str) -> None:
    """Every mistake ends with one line that says what it is, and an exit code that tells misuse (2) and limits (3) from failure (1)."""
    result = run("query", "--data", filled, "--collection", "photos", *arguments)
    assert result.exit_code == code
    told = " ".join(result.stderr.replace("│", " ").split())
    assert expected in told
    assert result.stdout == ""
    if code == 1:
        assert result.stderr.startswith("Error: ")
        assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("save", "expected"),
    [
        (lambda path: np.save(path, np.array([None]), allow_pickle=True), "not an array in .npy format"),
        (lambda path: np.save(path, np.ones((1, 2, 3))), "expected one vector (1-d) or a matrix of them (2-d)"),
        (lambda path: path.write_bytes(zipped(np.ones(3))), "not an array in .npy format"),
        (lambda path: np.save(path, np.array([np.ones(16), np.zeros(16)])), "row 1: "),
        (lambda path: path.write_bytes(b""), "not an array in .npy format"),
    ],
)
def test_query_files_that_cannot_be(filled: Path, run: Run, tmp_path: Path, save: Callable[[Path], object], expected: str) -> None:
    """A file that holds no vectors is refused in one line that names it; pickles are not loaded."""
    save(tmp_path / "q.npy")
    result = run("query", "--data", filled, "--collection", "photos", "--file", tmp_path / "q.npy")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: {tmp_path / 'q.npy'}")
    assert expected in result.stderr


@pytest.mark.parametrize("command", ["query", "stats", "check", "link"])
def test_looking_makes_no_database(run: Run, data: Path, command: str) -> None:
    """Commands that only look refuse a directory that is not there, and do not make it."""
    result = run(command, "--data", data, *(("--id", "a") if command == "query" else ()))
    assert result.exit_code == 1
    assert result.stderr == f"Error: no database in {data}: --data names its directory; kinbin import and kinbin serve make one\n"
    assert not data.exists()


def test_looking_at_another_directory_makes_no_database(run: Run, tmp_path: Path) -> None:
    """A directory that holds something else is no database, and stays as it is."""
    (tmp_path / "holiday.txt").write_text("sun")
    result = run("stats", "--data", tmp_path)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: no database in {tmp_path}")
    assert [path.name for path in tmp_path.iterdir()] == ["holiday.txt"]


def test_stats_of_all_and_of_one(filled: Path, run: Run) -> None:
    """stats lists every collection, or all that the library tells of one; its JSON is the library's dictionary."""
    overview = run("stats", "--data", filled).stdout.splitlines()
    assert overview[1].split()[:5] == ["photos", "300", "vectors", "ngmm", "16"]
    assert overview[2].split()[:5] == ["words", "2", "vectors", "minmax", "sparse"]
    with kinbin.open(filled) as database:
        expected = orjson.loads(orjson.dumps(database.collection("photos").stats()))
    everything = orjson.loads(run("stats", "--data", filled, "--json").stdout)
    assert set(everything) == {"photos", "words"}
    one = orjson.loads(run("stats", "--data", filled, "--collection", "photos", "--json").stdout)
    assert one == everything["photos"] == expected
    assert "photos" in run("stats", "--data", filled, "--collection", "photos").stdout


def test_stats_show_runs(filled: Path, run: Run) -> None:
    """The runs of a collection are listed one by one."""
    with kinbin.open(filled) as database:
        database.collection("photos").compact()
    told = run("stats", "--data", filled, "--collection", "photos").stdout
    assert "runs, oldest first" in told
    assert run("stats", "--data", filled, "--collection", "nothing").exit_code == 1


@pytest.mark.slow
def test_check_tells_of_a_file_that_is_gone(filled: Path, run: Run) -> None:
    """A collection whose file was removed is no collection that there never was; one that was dropped is not told of."""
    (filled / "collections" / "words" / "data.mdb").unlink()
    report = run("check", "--data", filled, "--json")
    assert report.exit_code == 1
    told = orjson.loads(report.stdout)["collections"]["words"]
    assert not told["ok"]
    assert "data.mdb is not there" in told["problems"][0]
    assert "data.mdb is not there" in run("check", "--data", filled).stdout
    shutil.rmtree(filled / "collections" / "words")
    with kinbin.open(filled) as database:
        for name in database.collections():
            database.drop_collection(name)
        assert database.check() == {}


@pytest.mark.slow
def test_check_of_a_good_database(filled: Path, run: Run) -> None:
    """check tells what it counted and ends with 0 when nothing is wrong."""
    result = run("check", "--data", filled)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == ["photos: ok: 300 items, 300 rows, 0 runs", "words: ok: 2 items, 2 rows, 0 runs"]
    told = orjson.loads(run("check", "--data", filled, "--collection", "words", "--json").stdout)
    assert told == {
        "ok": True,
        "collections": {"words": {"ok": True, "items": 2, "rows": 2, "runs": 0, "problems": [], "checked": True, "advice": ""}},
    }
    assert run("check", "--data", filled, "--collection", "nothing").exit_code == 1


def flip(file: Path, needle: bytes) -> None:
    """Change one bit of every occurrence of some bytes in a file that nobody has open."""
    content = bytearray(file.read_bytes())
    start = content.find(needle)
    assert start >= 0
    while start >= 0:
        content[start] ^= 0x04
        start = content.find(needle, start)
    file.write_bytes(content)


@pytest.mark.slow
@pytest.mark.durability
@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize("where", ["payload", "vector"])
def test_check_finds_planted_damage(tmp_path: Path, data: Path, run: Run, spawn: Spawn, where: str, compacted: bool) -> None:
    """One bit changed in a copy of a payload or of a stored vector is found: a readable report, and exit code 1."""
    vector = np.linspace(0.1, 0.9, 16, dtype=np.float32)
    with kinbin.open(data) as database:
        photos = database.create_collection("photos", dim=16)
        photos.add(["a", "b"], np.array([vector, vector[::-1]]), payloads=[{"note": "needle in a haystack"}, None])
        database.create_collection("words").add(["a"], [kinbin.Tokens({"red": 1})])
        if compacted:
            photos.compact()
    copy = tmp_path / "copy"
    shutil.copytree(data, copy)
    needle = b"needle in a haystack" if where == "payload" else vector[5].tobytes()
    flip(copy / "collections" / "photos" / "data.mdb", needle)
    process = spawn("kinbin_service.cli", "check", "--data", copy)
    out, errors = process.communicate(timeout=100)
    assert process.returncode == 1, out + errors
    assert out.startswith("photos: DAMAGED\n  ")
    assert "words: ok: 1 items, 1 rows, 0 runs" in out
    assert errors == ""
    report = run("check", "--data", copy, "--json")
    told = orjson.loads(report.stdout)
    assert report.exit_code == 1
    assert (told["ok"], told["collections"]["photos"]["ok"], told["collections"]["words"]["ok"]) == (False, False, True)
    assert told["collections"]["photos"]["problems"]
    original = run("check", "--data", data)
    assert original.stdout.startswith("photos: ok")
    assert original.exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize("content", [b"", b"not a database at all" * 1_000])
def test_check_of_a_file_that_cannot_be_opened(tmp_path: Path, filled: Path, spawn: Spawn, content: bytes) -> None:
    """A collection whose file is no database is reported, and the others are still checked."""
    copy = tmp_path / "copy"
    shutil.copytree(filled, copy)
    (copy / "collections" / "photos" / "data.mdb").write_bytes(content)
    process = spawn("kinbin_service.cli", "check", "--data", copy)
    out, errors = process.communicate(timeout=100)
    assert process.returncode == 1, out + errors
    assert out.startswith("photos: DAMAGED\n  ")
    assert "words: ok" in out
    assert "Traceback" not in out + errors


def test_repair_saves_what_is_whole(tmp_path: Path, data: Path, run: Run) -> None:
    """repair makes a new collection of what is whole, lists what is lost, leaves the damaged files alone, and ends with 1 for a loss."""
    vector = np.linspace(0.1, 0.9, 16, dtype=np.float32)
    with kinbin.open(data) as database:
        photos = database.create_collection("photos", dim=16, seed=1)
        photos.add(
            ["a", "b", "c"], np.array([vector, vector[::-1], vector**2]), payloads=[{"note": "needle in a haystack"}, None, {"n": 1}]
        )
        photos.compact()
    file = data / "collections" / "photos" / "data.mdb"
    flip(file, vector[5].tobytes() + vector[6].tobytes())
    flip(file, vector[3].tobytes() + vector[4].tobytes())
    content = file.read_bytes()
    result = run("repair", "photos", "--data", data)
    assert result.exit_code == 1
    assert "photos-repaired: 2 of 3 items saved of photos" in result.stdout
    assert "1 items are lost" in result.stdout
    assert file.read_bytes() == content
    told = orjson.loads(run("repair", "photos", "--data", data, "--into", "again", "--json").stdout)
    assert (told["name"], told["items"], told["lost"], told["lost_ids"], told["bare"]) == ("again", 2, 1, ["a"], 0)
    assert run("check", "--data", data, "--collection", "again").exit_code == 0
    assert run("repair", "photos", "--data", data).exit_code == 1
    with kinbin.open(data) as database:
        assert [item.id for item in database.collection("again").scroll().items] == ["b", "c"]
        assert [item.payload for item in database.collection("again").scroll().items] == [None, {"n": 1}]


def test_version(run: Run) -> None:
    """--version prints one line."""
    result = run("--version")
    assert (result.exit_code, result.stdout) == (0, f"kinbin {kinbin.__version__}\n")


def test_help_of_every_command(run: Run) -> None:
    """The help lists every command with what it does; each has a help of its own; no arguments means help."""
    told = run("--help").stdout
    for command in ("serve", "import", "link", "query", "stats", "check", "repair", "calibrate"):
        assert command in told
        assert run(command, "--help").exit_code == 0
    assert "Usage" in run().output


def test_choices_are_those_of_the_library() -> None:
    """The kernels and modes that options take are the ones there are."""
    assert set(kinbin.KERNELS) < set(re.findall(r"\w+", KERNEL_NAMES))
    assert {mode.value for mode in Mode} == {"insert", "update", "upsert"}
    assert {mode.value for mode in Search} == {"auto", "bands", "links", "exact"}


def test_help_needs_neither_library_nor_server() -> None:
    """`kinbin --help` imports none of numba, lmdb, fastapi, httpx and asyncio, so that it is quick."""
    code = (
        "import sys, kinbin_service.cli; print([n for n in ('numba', 'lmdb', 'fastapi', 'httpx', 'numpy', 'asyncio') if n in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout
    assert out == "[]\n"
