"""Messages for strangers: each says what was wrong, by the name under which it was given, and what to do."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import orjson
import pytest
import typer
from typer.testing import Result

import kinbin
from kinbin_client import Client
from kinbin_service.cli import app
from kinbin_service.cli.query import Search
from kinbin_service.cli.words import in_its_words, runs
from self_signed import make_certificate
from service_process import Served, Spawn

Run = Callable[..., Result]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("KINBIN_THREADS", "many", "Error: KINBIN_THREADS: should be a valid integer, unable to parse string as an integer"),
        ("KINBIN_LOG_FORMAT", "xml", "Error: KINBIN_LOG_FORMAT: should be 'auto', 'text' or 'json'"),
        ("KINBIN_ALLOWED_HOSTS", "http://a", "Error: KINBIN_ALLOWED_HOSTS: 'http://a' is no host: expected names or addresses without"),
        ("KINBIN_API_KEY", "sécret", "Error: KINBIN_API_KEY: an API key is made of visible ASCII characters"),
        (
            "KINBIN_API_KEY_FILE",
            "no/such/file",
            "Error: KINBIN_API_KEY_FILE names no/such/file, which cannot be read: No such file or directory",
        ),
    ],
)
def test_a_wrong_setting_is_told_by_its_variable(
    run: Run, data: Path, free_port: int, monkeypatch: pytest.MonkeyPatch, name: str, value: str, expected: str
) -> None:
    """serve names the variable in one line, without addresses of elsewhere and without the key."""
    monkeypatch.setenv(name, value)
    result = run("serve", "--data", data, "--port", free_port)
    assert result.exit_code == 2
    assert result.stderr.startswith(expected)
    assert result.stderr.count("\n") == 1
    assert "://errors" not in result.stderr
    assert "sécret" not in result.stderr


def test_two_keys_are_told(run: Run, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong with two settings together names both."""
    monkeypatch.setenv("KINBIN_API_KEY", "a")
    monkeypatch.setenv("KINBIN_API_KEY_FILE", "b")
    result = run("serve", "--data", data)
    assert (result.exit_code, result.stderr) == (2, "Error: set KINBIN_API_KEY or KINBIN_API_KEY_FILE, not both\n")


def test_an_address_that_is_none(run: Run) -> None:
    """A --url without a scheme is named, and the command counts as not understood."""
    result = run("stats", "--url", "nonsense")
    assert (result.exit_code, result.stderr.startswith("Error: --url nonsense: ")) == (2, True)


def test_where_nobody_listens(run: Run, free_port: int) -> None:
    """Where no service answers, the address is named with what to look at."""
    result = run("stats", "--url", f"http://127.0.0.1:{free_port}")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: http://127.0.0.1:{free_port}: ")
    assert result.stderr.endswith("is the address right, and does kinbin serve run there?\n")


@pytest.mark.slow
def test_certificates_that_are_not_known_are_told(
    run: Run, data: Path, free_port: int, spawn: Spawn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the variable that names them, which helps; an address of the other scheme is told as well."""
    certificate, key = make_certificate(tmp_path, "localhost")
    files = {"KINBIN_TLS_CERT_FILE": str(certificate), "KINBIN_TLS_KEY_FILE": str(key)}
    spawn("kinbin_service.cli", "serve", "--data", data, "--port", free_port, **files)
    address = f"https://localhost:{free_port}"
    with Client(address, verify=ssl.create_default_context(cafile=certificate)) as client:
        client.wait_ready(timeout=100)
    told = run("stats", "--url", address)
    assert (told.exit_code, "SSL_CERT_FILE names the file of a certificate" in told.stderr) == (1, True), told.stderr
    told = run("stats", "--url", address.replace("https", "http"))
    assert (told.exit_code, told.stderr.endswith("begin the address with https://\n")) == (1, True), told.stderr
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert run("stats", "--url", address).exit_code == 0


def test_a_key_file_that_cannot_be_read(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command through a service names the variable as well."""
    monkeypatch.setenv("KINBIN_API_KEY_FILE", "no/such/file")
    result = run("stats", "--url", "http://127.0.0.1:9")
    assert result.stderr == "Error: KINBIN_API_KEY_FILE names no/such/file, which cannot be read: No such file or directory\n"


def test_a_key_that_the_service_does_not_take(
    run: Run, data: Path, free_port: int, spawn: Spawn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether one was sent is told, with the variable that it came from or comes from; nothing of it is repeated."""
    address = f"http://127.0.0.1:{free_port}"
    spawn("kinbin_service.cli", "serve", "--data", data, "--port", free_port, KINBIN_API_KEY="the-right-one")
    with Client(address) as client:
        client.wait_ready(timeout=100)
    unset = run("stats", "--url", address)
    how = "set KINBIN_API_KEY, or KINBIN_API_KEY_FILE to a file that holds it"
    assert unset.stderr.startswith("Error: ")
    assert unset.stderr.endswith(f"send the API key as Authorization: Bearer or as X-API-Key: {how}\n")
    monkeypatch.setenv("KINBIN_API_KEY", "another-one")
    wrong = run("stats", "--url", address)
    assert wrong.exit_code == 1
    assert wrong.stderr.endswith("the API key that was sent is not known to this server: it was read from KINBIN_API_KEY\n")
    assert "another-one" not in wrong.stderr
    assert orjson.loads(run("stats", "--url", address, "--json").stderr)["error"]["code"] == "unauthorized"
    monkeypatch.delenv("KINBIN_API_KEY")
    (tmp_path / "key").write_text("one-of-a-file")
    monkeypatch.setenv("KINBIN_API_KEY_FILE", str(tmp_path / "key"))
    assert run("stats", "--url", address).stderr.endswith("it was read from the file that KINBIN_API_KEY_FILE names\n")


@pytest.mark.parametrize("command", [("check",), ("link",), ("stats",), ("query", "--id", "x"), ("export", "x.npz"), ("delete", "x")])
def test_a_collection_that_is_not_there(run: Run, data: Path, command: tuple[str, ...]) -> None:
    """Every command that names a collection which is not there says so in the same words, with those that are."""
    assert run("create", "photos", "--data", data).exit_code == 0
    result = run(*command, "--data", data, "--collection", "pictures")
    assert (result.exit_code, result.stderr) == (1, f'Error: no collection "pictures" in {data}: it holds photos\n')


@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_a_limit_has_an_exit_code_of_its_own(run: Run, data: Path, as_json: tuple[str, ...]) -> None:
    """A program can tell what passes a limit (3) from what is not understood (2) and what failed (1)."""
    assert run("create", "c", "--data", data, "--dim", 2).exit_code == 0
    result = run("query", "--data", data, "--collection", "c", "--vector", "[1, 2]", "--k", 1001, *as_json)
    assert (result.exit_code, "k: at most 1000, not 1001" in result.stderr) == (3, True)
    if as_json:
        assert orjson.loads(result.stderr) == {"error": {"code": "over_limit", "message": "--k: at most 1000, not 1001", "exit_code": 3}}
    assert run("query", "--data", data, "--collection", "c", "--vector", "[1, 2]", "--k", 0).exit_code == 2
    assert run("query", "--data", data, "--collection", "c", "--vector", "[1]").exit_code == 1


def test_the_options_of_a_query_are_those_of_the_library() -> None:
    """`kinbin query` has every option of the library's table but `include` and `cursor`, with its default and its bounds."""
    assert [word.value for word in Search] == list(kinbin.OPTIONS["mode"].known)
    command = typer.main.get_command(app).commands["query"]  # type: ignore[attr-defined]  # a group
    given = {one.name: one for one in command.params}
    for name, option in kinbin.OPTIONS.items():
        if name in ("include", "cursor"):
            continue
        parameter = given["condition" if name == "filter" else name]
        # An option that may be repeated has no default of its own.
        assert parameter.default == (None if option.default == () else option.default)
        for bound, value in (("min", option.least if option.least is not None else option.above), ("max", option.most)):
            assert getattr(parameter, bound, None) == value


def test_help_is_quick() -> None:
    """What describes the options loads neither NumPy nor numba."""
    program = "import sys, kinbin_service.cli; print({'numpy', 'numba', 'pydantic'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60).stdout == "set()\n"


@pytest.mark.parametrize(
    ("command", "message", "told"),
    [
        ("query", "min_score is a finite number, or null", "--min-score is a finite number"),
        ("query", "422 bad_parameter: filter is an object", "422 bad_parameter: --filter is an object"),
        ("create", "field 'a': kernel is one of two", "field 'a': kernel is one of two"),
        ("query", "the k nearest of a filter are few", "the k nearest of a filter are few"),
        ("query", "no item has a min_scores or x_min_score", "no item has a min_scores or x_min_score"),
        ("map", "min_score is a finite number, or null", "min_score is a finite number, or null"),
        (
            "create",
            'of one length: say it, as parameters={"length": 128}, a whole',
            "of one length: say it, as --parameter length=128, a whole",
        ),
        ("create", 'say it, as parameters={"base": "chi2", "levels": 2}', "say it, as --parameter base=chi2 --parameter levels=2"),
        ("create", "none is given: say dim=2 for points", "none is given: say --dim 2 for points"),
        ("create", 'these items are vectors: say items="strings"', "these items are vectors: say --items strings"),
        ("query", "use max_distance, not min_score [#/min_score]", "use --max-distance, not --min-score [#/min_score]"),
        ("tune", "choices are pairs of rows and bands", "--choice are pairs of rows and bands"),
    ],
)
def test_parameters_are_told_as_options(command: str, message: str, told: str) -> None:
    """What the library says of a parameter is said of the option of the command that runs; other words stay."""
    runs(typer.main.get_command(app).commands[command])  # type: ignore[attr-defined]  # a group
    assert in_its_words(message) == told


def test_a_distance_is_told_as_one(run: Run, tmp_path: Path, data: Path) -> None:
    """What was given by --distance is no kernel in the refusal, though the library has one word for both."""
    (tmp_path / "words.txt").write_text("kitten\n")
    for given in ("--distance", "--kernel"):
        told = run("import", tmp_path / "words.txt", given, "euclidean", "--data", data)
        assert told.exit_code == 1
        assert f"{given} is one of levenshtein" in told.stderr


@pytest.mark.parametrize("more", [(), ("--json",)])
@pytest.mark.parametrize("command", [("explain", "x"), ("stats",)])
def test_a_collection_without_its_option_is_told(run: Run, command: tuple[str, ...], more: tuple[str, ...]) -> None:
    """One that is given as an argument, where the command takes it by --collection."""
    told = run(*command, "words", *more)
    text = " ".join(told.stderr.replace("│", " ").split())
    assert (told.exit_code, "(words): the collection is given by --collection" in text) == (2, True), text


def test_the_collection_that_is_meant_is_named(run: Run, data: Path) -> None:
    """Before those that there are, which may be many."""
    for name in ("both", "words"):
        assert run("create", name, "--data", data).exit_code == 0
    told = run("stats", "--collection", "wrods", "--data", data)
    assert told.stderr == f"Error: no collection \"wrods\" in {data}; did you mean 'words'? it holds both, words\n"


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_reader_that_wants_no_more_is_left_alone(data: Path, more: tuple[str, ...]) -> None:
    """A command whose output nobody reads to the end, as before `head -1`, ends without a word, with the code of that signal."""
    with kinbin.open(data) as db:
        db.create_collection("c", dim=2)
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "kinbin_service.cli", "stats", "--data", str(data), *more]
    with os.fdopen(writing, "wb") as unheard:
        for one in (command, [*command[:3], "--help"], [*command[:3], "query", "--help"]):
            done = subprocess.run(one, stdout=unheard, stderr=subprocess.PIPE, text=True, timeout=110, check=False)
            assert (done.returncode, done.stderr) == (141, ""), one


def test_kernels_that_there_are_include_products_and_nested(run: Run, data: Path) -> None:
    """The refusal of a kernel names what else --help does: products, and nested."""
    told = run("create", "c", "--data", data, "--kernel", "foo")
    text = " ".join(told.stderr.replace("│", " ").split())
    assert told.exit_code == 2
    assert "foo is no kernel" in text
    assert "a product of two or three, such as gmm*acos, or nested" in text


def test_messages_say_what_was_given_and_what_is_meant(run: Run, data: Path) -> None:
    """A number that is not finite, ids that were passed over, a collection that was not named."""
    with kinbin.open(data) as database:
        database.create_collection("photos", dim=3).add(["a", "b"], [[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])
    place = ("--data", data, "--collection", "photos")
    infinite = run("query", *place, "--vector", "[NaN, 0, 1]")
    assert (infinite.exit_code, "a number that is not finite" in " ".join(infinite.stderr.replace("│", " ").split())) == (2, True)
    for option, text, example in (("--vector", "1,2,3", "'[0, 2.5, 1]'"), ("--filter", "year>2010", """'{"year": {"$gt": 2010}}'""")):
        told = " ".join(run("query", *place, "--vector", "[1,0,0]", option, text).stderr.replace("│", " ").split())
        assert f"put it in single quotes, as {example}" in told
    assert run("alias", "--data", data).stdout == "no aliases\n"
    assert run("delete", "a", "zz", *place).stdout == "photos: 1 item deleted (1 of the ids was not there), 1 left\n"
    unnamed = run("delete", "photos", "b", "--data", data)
    assert (unnamed.exit_code, "--collection NAME says which" in unnamed.stderr) == (1, True)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is full")
@pytest.mark.parametrize("line", ["--help", "key --help", "query c --id a --json"])
def test_output_that_cannot_be_written_is_told_in_one_line(line: str, data: Path) -> None:
    """A full disk behind `> file`: one line, of JSON where that is asked for, and no traceback."""
    with kinbin.open(data) as db:
        db.create_collection("c", dim=2).add(["a"], [[1.0, 2.0]])
    command = [sys.executable, "-m", "kinbin_service.cli", *line.split()]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            command,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
            env=os.environ | {"KINBIN_DATA_DIR": str(data)},
        )
    told = done.stderr.strip()
    if "--json" in line:
        assert orjson.loads(told) == {"error": {"code": "os_error", "message": "No space left on device", "exit_code": 1}}
    else:
        assert told == "Error: No space left on device"
    assert done.returncode == 1


@pytest.mark.parametrize("through", ["data", "url"])
def test_a_collection_that_is_full_is_no_bad_row(through: str, data: Path, run: Run, served: Served, tmp_path: Path) -> None:
    """The exit code is that of limits, and nobody is told to leave out rows."""
    place = ("--url", served.address) if through == "url" else ("--data", data)
    file = tmp_path / "three.npy"
    np.save(file, np.eye(3))
    assert run("create", "few", "--dim", 3, *place).exit_code == 0
    assert run("limit", "few", "--items", 2, *place).exit_code == 0
    done = run("import", file, "--collection", "few", *place, "--json")
    error = orjson.loads(done.stderr.splitlines()[-1])["error"]
    assert (done.exit_code, error["code"], error["exit_code"]) == (3, "over_limit", 3)
    assert "takes at most 2 items, and would have 3; nothing was written. Nothing was imported" in error["message"]
    assert "--skip-bad" not in error["message"]


def test_nothing_is_cut_in_a_pipe(data: Path) -> None:
    """What programs read is whole: long ids and payloads, however narrow a terminal would be."""
    name, payload = "a-very-long-identifier-" * 6, {"text": "word " * 60}
    with kinbin.open(data) as db:
        db.create_collection("c", dim=2).add([name], [[1.0, 2.0]], [payload])
    command = [sys.executable, "-m", "kinbin_service.cli", "query", "c", "--vector", "[1, 2]", "--data", str(data)]
    plain = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=plain).stdout
    assert name in told
    assert payload["text"] in told
