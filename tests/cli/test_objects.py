"""Strings, series, point sets and images on the command line: create, import, query, export."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from PIL import Image
from typer.testing import Result

import kinbin
from bundled import pictures
from kinbin_service.importing import state as states
from naive_strings import some_strings
from pooled import pools_at_once
from service_process import Served

Imported = Callable[..., dict[str, Any]]
Refused = Callable[..., str]
Items = Callable[..., dict[str, kinbin.Item]]
Run = Callable[..., Result]

TS = """# Two dimensions
@problemName Gestures
@timeStamps false
@missing false
@univariate false
@dimensions 2
@equalLength false
@classLabel true left right
@data
1,2,3:4,5,6:left
1.5,2:-1,0:right

0,1,2,3:0,0,0,1e-3:7
"""


def answered(result: Result) -> Any:
    """The JSON of a command that ended well."""
    assert result.exit_code == 0, result.output
    return orjson.loads(result.stdout)


def test_collections_are_created_and_asked(run: Run, data: Path, tmp_path: Path) -> None:
    """Collections of objects are created by kind and distance, and asked by an object, with distances and strings shown."""
    where = ("--data", data)
    made = answered(run("create", "words", "--items", "strings", "--distance", "levenshtein", *where, "--json"))
    assert (made["created"], made["items"], made["kernel"]) == (True, "strings", "levenshtein")
    assert not answered(run("create", "words", "--items", "strings", *where, "--json"))["created"]
    assert "kernel dtw window=0.25, series of dimension 1" in run(
        "create", "curves", "--items", "series", "--parameter", "window=0.25", *where
    ).stdout  # fmt: skip
    run("create", "shapes", "--items", "points", "--distance", "modified_hausdorff", "--dim", 2, *where)
    run("create", "pictures", "--items", "images", "--kernel", "nested", "--parameter", "levels=2", "--parameter", "base=chi2", *where)
    Image.fromarray(pictures()[0]).save(tmp_path / "a.png")
    with kinbin.open(data) as database:
        database.collection("words").add(["1", "2", "3"], ["sitting", "mitten", "kitten"], [{"n": 1}, None, None])
        database.collection("curves").add(["a"], [[1.0, 2, 3]])
        database.collection("shapes").add(["b"], [[[1.0, 2]]])
        database.collection("pictures").add(["c"], [pictures()[0]])
    answer = answered(run("query", "words", "--string", "kitten", "--max-distance", 2, *where, "--json"))
    assert answer["results"] == [
        {"id": "3", "distance": 0.0, "payload": None, "string": "kitten"},
        {"id": "2", "distance": 1.0, "payload": None, "string": "mitten"},
    ]
    shown = run("query", "words", "--string", "kitten", *where).stdout
    assert "distance" in shown
    assert "sitting" in shown
    assert answered(run("query", "curves", "--series", "[1, 2, 4]", *where, "--json"))["results"][0]["distance"] == 1.0
    assert answered(run("query", "shapes", "--points", "[[1, 3]]", *where, "--json"))["results"][0]["distance"] == 1.0
    assert answered(run("query", "pictures", "--image", tmp_path / "a.png", *where, "--json"))["results"][0]["score"] == 1.0
    assert answered(run("query", "words", "--id", "2", "--include-self", "-k", 1, *where, "--json"))["results"][0]["id"] == "2"
    for words, code, text in (
        (("query", "words", "--vector", "[1, 2]"), 1, "holds strings, and the query is one of vectors: give --string"),
        (("query", "curves", "--string", "x"), 1, "holds series, and the query is one of strings: give --series"),
        (("query", "words", "--image", "nothere.png"), 1, "--image nothere.png: there is no such file"),
        (("query", "curves", "--series", "[1, true]"), 2, "--series: a series is a list of numbers"),
        (("query", "curves", "--series", "[1"), 2, "--series is not JSON"),
        (("query", "pictures", "--image", tmp_path / "b.png"), 1, "b.png: there is no such file"),
        (("query", "pictures", "--image", __file__), 1, "is no PNG, JPEG or WebP image"),
        (("query", "words", "--string", "x", "--id", "y"), 2, "give one of"),
        (("query", "words", "--collection", "words", "--string", "x"), 2, "both name the collection"),
        (("query", "words", "--string", "x", "--min-score", 0.5), 1, "use --max-distance"),
        (("create", "x", "--items", "sounds"), 2, "no kind of items"),
        (("create", "x", "--distance", "hamming"), 2, "no distance of objects"),
        (("create", "x", "--items", "points"), 1, "dim"),
    ):
        result = run(*words, *where)
        assert result.exit_code == code, result.output
        assert text in " ".join(result.stderr.replace("│", " ").split()), words


def test_lines_of_text_are_strings(imported: Imported, items: Items, run: Run, data: Path, tmp_path: Path) -> None:
    """Each line of a text file is a string by its row number, or by a template; blank lines are passed over, ends of lines left out."""
    file = tmp_path / "words.txt"
    file.write_bytes("\ufeffkitten\r\n\n  two words \nStraße".encode())
    told = imported(file)
    assert (told["rows"], told["items"], told["kernel"], told["finished"]) == (3, "strings", "levenshtein", True)
    assert {name: item.object for name, item in items().items()} == {"0": "kitten", "1": "  two words ", "2": "Straße"}
    imported(file, "--id-format", "w{row:02d}")
    assert "w01" in items()
    result = run("import", file, "--data", data, "--collection", "other", "--distance", "levenshtein")
    assert "strings; strings from lines, id from row numbers" in result.stdout


def test_empty_lines_are_counted_and_spaces_are_a_string(imported: Imported, items: Items, run: Run, data: Path, tmp_path: Path) -> None:
    """What is left out of a text file is told, and nothing but empty lines is; queries from a file are split alike."""
    file = tmp_path / "words.txt"
    file.write_bytes("a\n\n  \nb\u2028c\r\n\r\n\n".encode())
    told = imported(file)
    assert (told["rows"], told["empty_lines"]) == (3, 3)
    strings = {name: item.object for name, item in items().items()}
    assert strings == {"0": "a", "1": "  ", "2": "b\u2028c"}
    assert "3 empty lines left out" in run("import", file, "--data", data).stdout
    answers = answered(run("query", "--file", file, "--data", data, "--collection", "default", "--json"))["answers"]
    assert [one["results"][0]["string"] for one in answers] == list(strings.values())


def test_ids_of_strings_are_not_lost(refused: Refused, imported: Imported, tmp_path: Path) -> None:
    """A column that is called id is refused beside the strings until it is named, or other ids are asked for."""
    file = tmp_path / "people.csv"
    file.write_text("ID,name\n7,Ada\n9,Grace\n")
    assert "holds ids, by its name: say whether it is with --id-column or --ignore-columns" in refused(file, "--string", "name")
    for more in (("--id-column", "ID"), ("--ignore-columns", "ID"), ("--payload-columns", "ID"), ("--id-format", "p{row}")):
        assert imported(file, "--string", "name", *more)["rows"] == 2


def test_a_file_without_rows_makes_nothing(run: Run, data: Path, tmp_path: Path) -> None:
    """And that is told."""
    (tmp_path / "empty.txt").write_bytes(b"")
    result = run("import", tmp_path / "empty.txt", "--data", data)
    assert (result.exit_code, "no collection was made" in result.stdout) == (0, True)


def test_images_are_asked_by_lines(run: Run, data: Path, tmp_path: Path) -> None:
    """In base64, as they are imported and as REST takes them."""
    run("create", "pictures", "--items", "images", "--data", data)
    with kinbin.open(data) as database:
        database.collection("pictures").add(["a", "b"], [pictures()[0], pictures()[1]])
    lines = []
    for picture in pictures()[:2]:
        Image.fromarray(picture).save(tmp_path / "a.png")
        lines.append(orjson.dumps({"image": base64.b64encode((tmp_path / "a.png").read_bytes()).decode()}))
    (tmp_path / "asked.ndjson").write_bytes(b"\n".join(lines))
    answers = answered(run("query", "pictures", "--file", tmp_path / "asked.ndjson", "-k", 1, "--data", data, "--json"))["answers"]
    assert [one["results"][0]["id"] for one in answers] == ["a", "b"]


def test_a_column_of_csv_may_be_strings(imported: Imported, refused: Refused, items: Items, tmp_path: Path) -> None:
    """With --string one column is the items, others are ids and payload if they are named, and left out otherwise."""
    file = tmp_path / "people.csv"
    file.write_text('key,name,year,more\na,"Ada, L.",1815,x\nb,Grace,1906,y\n', encoding="utf-8")
    told = imported(file, "--string", "name", "--id-column", "key", "--payload-columns", "year")
    assert told["columns"][str(file)] == {
        "vector": 'strings from "name"', "id": 'id from "key"', "payload": ["year"], "ignored": ["more"], "feature_names": [],
    }  # fmt: skip
    assert {name: (item.object, item.payload) for name, item in items().items()} == {
        "a": ("Ada, L.", {"year": 1815}),
        "b": ("Grace", {"year": 1906}),
    }
    assert "say --header or --no-header" in refused(file, "--string", 1)
    assert "no column 'nobody'" in refused(file, "--string", "nobody")
    assert "named as the string and as something else" in refused(file, "--string", "name", "--id-column", "name")
    assert imported(file, "--string", 1, "--no-header", "--no-resume")["rows"] == 3


def test_series_of_the_archives_are_read(imported: Imported, items: Items, refused: Refused, tmp_path: Path) -> None:
    """A .ts file gives series of its dimensions, of any lengths, with their classes as payload; one dimension gives plain series."""
    file = tmp_path / "Gestures_TRAIN.ts"
    file.write_text(TS, encoding="utf-8")
    told = imported(file, "--parameter", "window=0.2")
    assert (told["rows"], told["items"], told["kernel"], told["dim"], told["parameters"]) == (3, "series", "dtw", 2, {"window": 0.2})
    found = items()
    assert [found[name].payload for name in "012"] == [{"class": "left"}, {"class": "right"}, {"class": 7}]
    assert np.array_equal(found["1"].object, np.array([[1.5, -1], [2, 0]], np.float32))
    plain = tmp_path / "plain.ts"
    plain.write_text("@univariate true\n@targetlabel true\n@data\n1,2,3:0.5\n4,5:-1\n", encoding="utf-8")
    assert "is of dimension 2, not 1" in refused(plain, "--dim", 1)
    assert "plain.ts:4: a series of this collection is an array (steps, 2)" in refused(plain)
    for text, why in (
        ("@data\n1,2\n", "array (steps, 2)"),
        ("@classLabel true a\n@data\n1,2\n", "expected the class behind a colon"),
        ("@data\n1,?,2:1,2,3\n", "a value is missing"),
        ("@data\n1,x,2:1,2,3\n", "got 'x'"),
        ("@data\n1,2:1,2,3\n", "have one length, these have 2 to 3"),
        ("@timeStamps true\n@data\n(0,1)\n", "time stamps are not read"),
        ("1,2,3\n", "@data is missing"),
        ("@data\n1,2:3,nan\n", "finite"),
    ):
        plain.write_text(text, encoding="utf-8")
        assert why in refused(plain), text
    assert len(items()) == 3


def test_bad_objects_are_left_out_and_listed(imported: Imported, refused: Refused, items: Items, tmp_path: Path) -> None:
    """A string that is too long, a bad series or another key ends an import, or is left out by --skip-bad, named by its line."""
    file = tmp_path / "a.txt"
    file.write_text("kitten\n" + "x" * 20_000 + "\nsitting\n", encoding="utf-8")
    assert f"{file}:2: a string has at most 16384 characters" in refused(file)
    told = imported(file, "--skip-bad")
    assert (told["rows"], told["rows_bad"], told["bad"][0]["line"]) == (2, 1, 2)
    assert {name: item.object for name, item in items().items()} == {"0": "kitten", "2": "sitting"}
    mixed = tmp_path / "b.ndjson"
    lines = [{"id": "a", "string": "x"}, {"id": "b", "series": [1, 2]}, {"id": "c"}, {"id": "d", "string": 5}, {"id": "e", "string": "y"}]
    mixed.write_bytes(b"\n".join(map(orjson.dumps, lines)))
    assert 'b.ndjson:2: every item carries "string", as the first one does, and not "series"' in refused(mixed)
    told = imported(mixed, "--skip-bad", "--no-resume")
    assert (told["rows"], [one["line"] for one in told["bad"]]) == (2, [2, 3, 4])


def test_an_interrupted_import_goes_on(
    imported: Imported, items: Items, run: Run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """After a kill between two batches of lines, or of series, the same command goes on behind the last one that was noted."""
    save = states.save
    (tmp_path / "words.txt").write_text("\n".join(f"word {n}" for n in range(10)), encoding="utf-8")
    (tmp_path / "s.ts").write_text("@classLabel true\n@data\n" + "\n".join(f"{n},2,3:{n}" for n in range(10)), encoding="utf-8")
    for name, collection in (("words.txt", "c"), ("s.ts", "d")):
        noted = 0

        class Died(BaseException):
            pass

        def save_or_die(path: Path, state: states.ImportState) -> None:
            nonlocal noted
            noted += 1
            if noted == 4:
                raise Died
            save(path, state)

        monkeypatch.setattr(states, "save", save_or_die)
        command = ("import", tmp_path / name, "--data", data, "--collection", collection, "--batch", 3)
        with pytest.raises(Died):
            run(*command)
        monkeypatch.setattr(states, "save", save)
        assert len(items(collection)) == 9
        told = answered(run(*command, "--json"))
        assert (told["rows_skipped"], told["rows"], told["finished"]) == (6, 4, True)
        assert len(items(collection)) == 10


OBJECTS: dict[str, tuple[str, dict[str, Any], list[Any]]] = {
    "strings": ("string", {}, ["kitten", "Straße 🐈", "a\tb"]),
    "series": (
        "series",
        {"parameters": {"window": 0.3}, "dim": 2},
        [[[0.1, 1e-35], [7.038531e-26, 2]], [[3, 4]], [[0, 0], [1, 1], [2, 1 / 3]]],
    ),
    "points": ("points", {"distance": "hausdorff", "dim": 3}, [[[1, 2, 3]], [[0, 0, 0], [0.1, 0.2, 0.3]], [[5, 5, 5]]]),
}


@pytest.mark.parametrize("kind", OBJECTS)
def test_exports_are_read_back_to_the_same_bits(run: Run, data: Path, tmp_path: Path, items: Items, kind: str) -> None:
    """Objects go into NDJSON under their key and come back equal, ids and payloads too; the printed command imports them."""
    key, config, objects = OBJECTS[kind]
    with kinbin.open(data) as database:
        database.create_collection("a", items=kind, **config).add(["x", "y", "z"], objects, [{"n": 1}, None, {"n": [2]}])
    file = tmp_path / "out.ndjson"
    result = run("export", file, "--data", data, "--collection", "a")
    assert result.exit_code == 0, result.output
    assert {"id", key} <= orjson.loads(file.read_bytes().splitlines()[0]).keys()
    command = result.stdout.splitlines()[1].removeprefix("Import it with: kinbin ").replace("--collection a", "--collection b").split()
    assert run(*command).exit_code == 0
    with kinbin.open(data) as database:
        assert database.collection("a").config == database.collection("b").config
    ours, theirs = items("a"), items("b")
    assert ours.keys() == theirs.keys()
    for name, item in ours.items():
        assert item.payload == theirs[name].payload
        assert np.array(item.object).tobytes() == np.array(theirs[name].object).tobytes(), name
    refused = run("export", tmp_path / "out.npz", "--data", data, "--collection", "a")
    assert refused.exit_code == 1
    assert "are exported as NDJSON" in refused.stderr


@pytest.mark.server
def test_a_service_takes_them_as_well(run: Run, served: Served, tmp_path: Path) -> None:
    """Text, series, folders of images and NDJSON are imported, asked and exported through a service as in a directory."""
    url = ("--url", served.address)
    (tmp_path / "words.txt").write_text("kitten\nsitting\nmitten\n", encoding="utf-8")
    (tmp_path / "s.ts").write_text(TS, encoding="utf-8")
    (tmp_path / "pictures").mkdir()
    for n in range(3):
        Image.fromarray(pictures()[n]).save(tmp_path / "pictures" / f"{n}.png")
    assert answered(run("import", tmp_path / "words.txt", *url, "--collection", "words", "--json"))["items"] == "strings"
    assert answered(run("import", tmp_path / "s.ts", *url, "--collection", "curves", "--json"))["dim"] == 2
    assert answered(run("import", tmp_path / "pictures", *url, "--collection", "pictures", "--json"))["count"] == 3
    answer = answered(run("query", "words", "--string", "kittens", *url, "--json"))
    assert [(hit["string"], hit["distance"]) for hit in answer["results"]] == [("kitten", 1.0), ("mitten", 2.0), ("sitting", 3.0)]
    assert answered(run("query", "curves", "--series", "[[1, 4], [2, 5], [3, 6]]", *url, "--json"))["results"][0]["distance"] == 0.0
    found = answered(run("query", "pictures", "--image", tmp_path / "pictures" / "1.png", *url, "--json"))
    assert (found["results"][0]["id"], found["results"][0]["score"]) == ("1.png", 1.0)
    file = tmp_path / "out.ndjson"
    assert answered(run("export", file, *url, "--collection", "curves", "--json"))["holds"] == "series"
    assert answered(run("import", file, *url, "--collection", "again", "--json"))["count"] == 3
    refused = run("import", tmp_path / "words.txt", *url, "--collection", "curves")
    assert 'collection "curves" is there and holds series, not strings' in refused.stderr
    refused = run("query", "words", "--vector", "[1]", *url)
    assert "holds strings, and the query is one of vectors" in refused.stderr


def test_files_of_queries(run: Run, data: Path, tmp_path: Path) -> None:
    """A text file has a string a line, NDJSON any objects of one kind; answers come in their order, and strings with them."""
    where = ("--data", data)
    with kinbin.open(data) as database:
        database.create_collection("words", items="strings").add(["1", "2"], ["sitting", "kitten"])
        database.create_collection("curves", items="series").add(["a", "b"], [[1.0, 2, 3], [9.0, 9]])
        database.create_collection("shapes", items="points", dim=2).add(["s"], [[[1.0, 2]]])
    text = tmp_path / "queries.txt"
    text.write_text("kitten\n\nsittin\n")
    answers = answered(run("query", "words", "--file", text, *where, "-k", 1, "--json"))["answers"]
    assert [one["results"][0]["string"] for one in answers] == ["kitten", "sitting"]
    assert "Query 1" in run("query", "words", "--file", text, *where).stdout
    lines = tmp_path / "queries.ndjson"
    for name, content, ids in (
        ("words", '{"string": "kitten"}\n{"string": "sitting"}\n', ["2", "1"]),
        ("curves", '{"series": [9, 8]}\n{"series": [1, 2, 4]}\n', ["b", "a"]),
        ("shapes", '{"points": [[0, 0]]}\n', ["s"]),
    ):
        lines.write_text(content)
        answers = answered(run("query", name, "--file", lines, *where, "-k", 1, "--json"))["answers"]
        assert [one["results"][0]["id"] for one in answers] == ids
    for content, told in (
        ('{"string": "a"}\n{"series": [1]}\n', 'line 2: every line is an object with "string", as the first one does'),
        ("[1, 2]\n", "line 1: every line is an object with"),
        ('{"series": "a"}\n', "line 1: a series is a list of numbers"),
        ("{\n", "line 1: not a line of JSON"),
        ("\n", "no line holds a query"),
        ('{"series": [1]}\n', "the collection holds strings, and the query is one of series"),
    ):
        lines.write_text(content)
        refused = run("query", "words", "--file", lines, *where)
        assert refused.exit_code != 0
        assert told in refused.stderr


def test_what_newcomers_ask(run: Run, data: Path, tmp_path: Path) -> None:
    """An id shows strings, stats say what items are, a single image is refused with the way to import it, and strings have no bands."""
    where = ("--data", data)
    with kinbin.open(data) as database:
        database.create_collection("words", items="strings").add(["1", "2"], ["sitting", "kitten"])
    assert "sitting" in run("query", "words", "--id", "1", "--include-self", *where).stdout
    assert [one["string"] for one in answered(run("query", "words", "--id", "1", *where, "--json"))["results"]] == ["kitten"]
    assert "strings" in run("stats", *where).stdout
    Image.fromarray(pictures()[0]).save(tmp_path / "one.png")
    assert "images are imported by the folder" in run("import", tmp_path / "one.png", *where).stderr
    assert "levenshtein has no bands" in run("query", "words", "--string", "x", "--mode", "bands", *where).stderr
    assert "NAME=VALUE" in run("create", "--help").stdout


@pytest.mark.slow
def test_stats_show_what_finds_objects(run: Run, data: Path) -> None:
    """The pool index, what its rows are made by, and the recall of each pool stand in tables, not in a line of Python."""
    with pools_at_once(), kinbin.open(data) as database:
        collection = database.create_collection("words", items="strings", seed=1)
        texts = some_strings(np.random.default_rng(5), 150, 12, "abcd")
        collection.add([str(i) for i in range(150)], texts)
        collection.link()
        pools = collection.stats()["pools"]
    shown = run("stats", "--collection", "words", "--data", data).stdout
    assert [title in shown for title in ("pool index", "rows tried", "settings")] == [True] * 3
    assert all(name in shown for name in pools["settings"])
    assert str(pools["calibration"]["recall"]["10"][0]) in shown
    assert "{'" not in shown[shown.index("pool index") :]
