"""Keys of a file: what each may do, rotation without a restart, and files that cannot be used."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from starlette.datastructures import Headers

from kinbin_service import server
from kinbin_service.app import create_app
from kinbin_service.gate import OPEN_PATHS
from kinbin_service.key_file import ROLES, Key, KeyFileError, digest_of, line_of, new_key, parse
from kinbin_service.keys import BY_WORD, OF_SERVER, SECONDS, Keys, needed
from kinbin_service.problems import Refusal
from kinbin_service.settings import Settings
from service_app import App, judged, running_app
from service_process import free_port

KEYS = {role: f"{role}-key" for role in ROLES}
MAY_DO = {
    "metrics": {"metrics"}, "backup": {"backup"}, "read": {"metrics", "read"}, "write": {"metrics", "read", "write"},
    "admin": set(ROLES),
}  # fmt: skip
"""By role, the roles whose requests it may send."""
FOR_ADMINS = {
    ("GET", "/v1/aliases"), ("PUT", "/v1/aliases/{name}"), ("DELETE", "/v1/aliases/{name}"), ("POST", "/v1/restore"),
    ("POST", "/v1/collections/{name}/compact"), ("POST", "/v1/collections/{name}/indexes"), ("POST", "/v1/collections/{name}/rebuild"),
    ("PUT", "/v1/collections/{name}/limits"), ("DELETE", "/v1/collections/{name}/snapshots/{id}"),
}  # fmt: skip
"""Routes that nobody else may use; a new one is put here, or into the tables of keys.py."""
QUERY = {"vector": [1, 2]}


def line(key: str, role: str, *collections: str) -> str:
    """The line of a key."""
    return line_of(key, f"the-{role}", role, collections) + "\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with a key of each role."""
    path = tmp_path / "keys"
    path.write_text("# who  role\n\n" + "".join(line(key, role) for role, key in KEYS.items()))
    return path


@pytest.fixture
async def keyed(tmp_path: Path, file: Path) -> AsyncIterator[App]:
    """An application with those keys, and a single one, "old"."""
    async with running_app(tmp_path / "data", api_keys_file=file, api_key="old") as app:
        assert (await ask(app, "old", "GET", "/v1/limits"))[0] == 200
        yield app


def edit(file: Path, text: str | bytes | None) -> None:
    """Write the file anew, or remove it."""
    if text is None:
        file.unlink()
    else:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())


async def ask(app: App, key: str | None, method: str, path: str, content: Any = None) -> tuple[int, str]:
    """Status and problem code of a request with this key."""
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    response = await app.client.request(method, path, json=content, headers=headers)
    answered = {} if path == "/metrics" and response.is_success else judged(response, response.status_code)
    return response.status_code, answered.get("code", "")


ASKED: list[tuple[str, str, Any, str]] = [
    ("GET", "/metrics", None, "metrics"),
    ("GET", "/v1/limits", None, "read"),
    ("GET", "/v1/collections", None, "read"),
    ("GET", "/v1/collections/a", None, "read"),
    ("POST", "/v1/collections/a/query", QUERY, "read"),
    ("POST", "/v1/collections/a/count", {}, "read"),
    ("GET", "/v1/collections/a/limits", None, "read"),
    ("PUT", "/v1/collections/a/limits", {}, "admin"),
    ("POST", "/v1/collections/a/snapshots", {}, "backup"),
    ("GET", "/v1/collections/a/snapshots", None, "backup"),
    ("GET", "/v1/collections/a/snapshots/none", None, "backup"),
    ("POST", "/v1/collections/a/snapshots/none/verify", {}, "backup"),
    ("DELETE", "/v1/collections/a/snapshots/none", None, "admin"),
    ("POST", "/v1/restore", {"collection": "a", "snapshot": "none", "name": "c"}, "admin"),
    ("GET", "/v1/aliases", None, "admin"),
    ("POST", "/v1/collections/a/index", {"items": [{"id": "x", "vector": [1, 2]}]}, "write"),
    ("POST", "/v1/collections/a/delete", {"ids": ["x"]}, "write"),
    ("PUT", "/v1/collections/a", {"dim": 2}, "admin"),
    ("DELETE", "/v1/collections/b", None, "admin"),
]


async def test_each_role_may_do_what_it_may(keyed: App) -> None:
    """A request is done with a key of its role or one that has it, and 403 with another, before anything is written."""
    assert (await ask(keyed, "old", "PUT", "/v1/collections/a", {"dim": 2}))[0] == 201
    for method, path, content, role in ASKED:
        for has, key in KEYS.items():
            status, code = await ask(keyed, key, method, path, content)
            if role in MAY_DO[has]:
                assert code not in ("forbidden", "unauthorized"), (method, path, has)
            else:
                assert (status, code) == (403, "forbidden"), (method, path, has)
        assert (await ask(keyed, None, method, path, content))[0] == 401
        assert (await ask(keyed, "wrong", method, path, content))[0] == 401


async def test_an_address_that_is_no_route_may_be_none(keyed: App) -> None:
    """Who may not ask for it is told that there may be no such route; an admin is told that there is none."""
    for path in ("/v1/no-such-route", "/v1/collections/a/no-such-word"):
        refused = await keyed.get(path, status=403, headers={"x-api-key": KEYS["read"]})
        assert refused["detail"].startswith("there is no such route, or this takes a key of the role admin")
        assert (await ask(keyed, KEYS["admin"], "GET", path)) == (404, "not_found")


async def test_a_backup_key_makes_copies_and_nothing_else(keyed: App) -> None:
    """With it a snapshot is made, listed, verified and downloaded whole; every other route of the service is 403 and changes nothing."""
    headers = {"x-api-key": KEYS["backup"]}
    assert (await ask(keyed, "old", "PUT", "/v1/collections/a", {"dim": 2}))[0] == 201
    made = judged(await keyed.client.post("/v1/collections/a/snapshots", json={}, headers=headers), 201)
    at = f"/v1/collections/a/snapshots/{made['id']}"
    listed = await keyed.get("/v1/collections/a/snapshots", headers=headers)
    assert [one["id"] for one in listed["snapshots"]] == [made["id"]]
    assert judged(await keyed.client.post(f"{at}/verify", headers=headers), 200)["ok"] is True
    downloaded = await keyed.client.get(at, headers=headers)
    assert hashlib.sha256(downloaded.content).hexdigest() == made["sha256"]
    for method, path in sorted(_routes()):
        where = path.replace("{name}", "a").replace("{id}", made["id"])
        if needed(method, where)[0] != "backup" and not _is_open(path):
            response = await keyed.client.request(method, where, json={}, headers=headers)
            assert (response.status_code, response.json()["code"]) == (403, "forbidden"), (method, path)
    assert {(method, path) for method, path in _routes() if needed(method, path)[0] == "backup"} == {
        ("GET", "/v1/collections/{name}/snapshots"), ("POST", "/v1/collections/{name}/snapshots"),
        ("GET", "/v1/collections/{name}/snapshots/{id}"), ("POST", "/v1/collections/{name}/snapshots/{id}/verify"),
    }  # fmt: skip
    assert (await keyed.get("/v1/collections", headers={"x-api-key": KEYS["read"]}))["collections"] == ["a"]


async def test_the_single_key_is_an_admin(keyed: App) -> None:
    """KINBIN_API_KEY does everything, beside a file of keys too."""
    for method, path, content, _ in ASKED:
        assert (await ask(keyed, "old", method, path, content))[0] not in (401, 403)


async def test_a_key_of_some_collections_sees_no_other(keyed: App, file: Path) -> None:
    """It asks for its collections and for limits, its list has only them, and others are 403 whether they are there or not."""
    for name in ("a", "b"):
        await ask(keyed, "old", "PUT", f"/v1/collections/{name}", {"dim": 2})
    edit(file, line("few", "admin", "a", "default"))
    keyed_again(keyed)
    assert (await ask(keyed, "few", "POST", "/v1/collections/a/count", {}))[0] == 200
    assert (await ask(keyed, "few", "POST", "/index", {"items": [{"id": "x", "vector": [1, 2]}]}))[0] == 200
    assert (await ask(keyed, "few", "GET", "/v1/limits"))[0] == 200
    for method, path in (("GET", "/v1/collections/b"), ("GET", "/v1/collections/none"), ("PUT", "/v1/collections/c"), ("GET", "/metrics")):
        assert await ask(keyed, "few", method, path) == (403, "forbidden"), path
    listed = await keyed.get("/v1/collections", headers={"x-api-key": "few"})
    assert listed["collections"] == ["a", "default"]


def keyed_again(app: App) -> None:
    """Let the gate look at its file with the next request."""
    stack = app.client._transport.app.middleware_stack  # type: ignore[attr-defined]
    while not hasattr(stack, "_checks"):
        stack = stack.app
    stack._checks._keys._read_at -= SECONDS


async def test_keys_rotate_without_a_restart(keyed: App, file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An edit counts within a second: old and new keys go side by side, then the old one is refused."""
    edit(file, line("first", "read") + line("second", "read"))
    keyed_again(keyed)
    with caplog.at_level(logging.INFO):
        for key in ("first", "second"):
            assert (await ask(keyed, key, "GET", "/v1/collections"))[0] == 200
    assert "keys were read" in caplog.text
    edit(file, line("second", "read"))
    assert (await ask(keyed, "first", "GET", "/v1/collections"))[0] == 200, "the file is looked at once a second"
    keyed_again(keyed)
    assert (await ask(keyed, "first", "GET", "/v1/collections"))[0] == 401
    assert (await ask(keyed, "second", "GET", "/v1/collections"))[0] == 200


@pytest.mark.parametrize("broken", ["the-admin admin secret-key\n", "", None, b"\x00\xff"])
async def test_a_bad_edit_keeps_the_keys(keyed: App, file: Path, caplog: pytest.LogCaptureFixture, broken: str | bytes | None) -> None:
    """A file that cannot be used any more changes nothing, is told once in the log without its content, and counts again when mended."""
    edit(file, broken)
    for _ in range(3):
        keyed_again(keyed)
        assert (await ask(keyed, KEYS["read"], "GET", "/v1/collections"))[0] == 200
    errors = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert [record.message for record in errors] == ["the file of keys is not used: the keys stay as they were"]
    assert "secret-key" not in str(errors[0].__dict__)
    edit(file, line("mended", "read"))
    keyed_again(keyed)
    assert (await ask(keyed, "mended", "GET", "/v1/collections"))[0] == 200


async def test_a_body_of_a_key_that_may_not_is_never_read(keyed: App) -> None:
    """The answer comes before the body does."""

    async def never() -> AsyncIterator[bytes]:
        raise AssertionError("the body was read")
        yield b""

    headers = {"x-api-key": KEYS["read"], "content-type": "application/json"}
    response = await keyed.client.post("/v1/collections/a/index", content=never(), headers=headers)
    assert judged(response, 403)["code"] == "forbidden"


async def test_the_access_log_names_the_key_and_never_tells_it(keyed: App, caplog: pytest.LogCaptureFixture) -> None:
    """A line of the access log has the name of the key that was used, and neither the key nor its hash."""
    with caplog.at_level(logging.INFO, "kinbin.access"):
        await ask(keyed, KEYS["write"], "GET", "/v1/collections")
    (record,) = [record for record in caplog.records if record.name == "kinbin.access"]
    assert record.__dict__["fields"]["key"] == "the-write"
    assert KEYS["write"] not in str(record.__dict__)


def _routes() -> set[tuple[str, str]]:
    """Method and path of each route that the document tells of."""
    paths = create_app(Settings()).openapi()["paths"]
    found = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    assert len(found) > 30, "the check of all routes checks something"
    return found


def _is_open(path: str) -> bool:
    """Whether no key is asked for."""
    return path in OPEN_PATHS or path in ("/", "/docs", "/openapi.json") or path.startswith("/dashboard")


def test_every_route_has_a_role_that_was_chosen() -> None:
    """Each route is in a table; what is in none needs the role admin, and admin is chosen for nothing by accident."""
    chosen = OF_SERVER.keys() | {(method, "/v1/collections/{name}") for method in ("GET", "PUT", "DELETE")}
    for method, path in sorted(_routes()):
        word = path.removeprefix("/v1/collections/{name}/")
        known = _is_open(path) or (method, path) in chosen or word in BY_WORD or needed(method, path)[0] == "backup"
        assert known or (method, path) in FOR_ADMINS or (word == "limits" and method == "GET"), f"{method} {path}: who may do it?"
    for method, path in FOR_ADMINS:
        assert needed(method, path)[0] == "admin", (method, path)
    assert needed("POST", "/v1/collections/a/no-such-word") == ("admin", "a")
    assert needed("POST", "/v1/collections/a/query/more") == ("admin", "a")
    assert needed("POST", "/v1/no-such-route") == ("admin", None)
    assert needed("GET", "/v1/collections/") == ("read", "")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "there is no key in it"),
        ("# nothing\n", "there is no key in it"),
        ("web read", "line 1: expected NAME ROLE SHA256"),
        (f"web write-all {'0' * 64}", "line 1: a role is one of metrics, backup, read, write, admin"),
        ("ok read " + "0" * 64 + "\nweb read secret", "line 2: the third word is the SHA-256 of a key"),
        (f"w€b read {'0' * 64}", "line 1: a name has up to 64 letters"),
        (f"web read {'0' * 64} a,,b", "line 1: collections are names"),
        (f"web read {'0' * 64} a b", "line 1: expected NAME ROLE SHA256"),
        (f"a read {'0' * 64}\nb admin {'0' * 64}", "line 2: the same key stands on another line"),
        (f"a admin {hashlib.sha256().hexdigest()}", "line 1: this is the SHA-256 of no key at all"),
        (f"a read {hashlib.sha256(chr(10).encode()).hexdigest().upper()}", "line 1: this is the SHA-256 of no key at all"),
        (f"a metrics {'0' * 64} photos", "line 1: a key of the role metrics names no collections"),
    ],
)
def test_lines_that_are_no_keys_are_refused(text: str, told: str) -> None:
    """What is wrong is told with its line, and nothing of the line is repeated."""
    with pytest.raises(KeyFileError, match=told) as refused:
        parse(text)
    assert "secret" not in str(refused.value)


def test_new_keys_are_long_and_different() -> None:
    """Keys hold 256 random bits, and their lines are read back as what they are, with capitals, comments and a byte order mark."""
    keys = {new_key() for _ in range(50)}
    assert len(keys) == 50
    assert all(len(key) >= 43 + len("kinbin_") for key in keys)
    (key,) = parse(line_of(keys.pop(), "web", "read", ["b", "a"]).upper().replace("WEB READ", "web read").replace("B,A", "b,a  # words"))
    assert (key.name, key.role, key.collections) == ("web", "read", frozenset("ab"))


def test_a_bad_file_ends_the_server_at_its_start(tmp_path: Path) -> None:
    """Nothing is started with a file of keys that is missing or wrong: the text names the variable or the file, and the line."""
    with pytest.raises(ValueError, match=r"KINBIN_API_KEYS_FILE names .*keys: it cannot be read: No such file"):
        server.run(Settings(data_dir=tmp_path / "data", api_keys_file=tmp_path / "keys", port=free_port()))
    (tmp_path / "keys").write_text("web admin right-here")
    with pytest.raises(ValueError, match=r"KINBIN_API_KEYS_FILE names .*keys: line 1: the third word") as refused:
        server.run(Settings(data_dir=tmp_path / "data", api_keys_file=tmp_path / "keys", port=free_port()))
    assert "right-here" not in str(refused.value)
    assert not (tmp_path / "data").exists()


async def test_a_worker_that_is_started_with_a_bad_file_is_closed_until_it_is_mended(tmp_path: Path, file: Path) -> None:
    """It takes no key of the file, and does not end the others; the single key goes on."""
    edit(file, "web admin right-here")
    async with running_app(tmp_path / "data", api_keys_file=file, api_key="old") as app:
        assert (await ask(app, "old", "GET", "/v1/limits"))[0] == 200
        assert (await ask(app, "right-here", "GET", "/v1/limits"))[0] == 401
        edit(file, line("right-here", "read"))
        keyed_again(app)
        assert (await ask(app, "right-here", "GET", "/v1/limits"))[0] == 200


def test_nothing_is_no_key(tmp_path: Path) -> None:
    """A request without a key, or with an empty one under any scheme, is refused even where a key of nothing got in."""
    keys = Keys(Settings(data_dir=tmp_path, api_key="old"))
    keys._of_file = (Key("emp", "admin", digest_of("")),)
    for sent in ({}, {"x-api-key": ""}, {"authorization": "Bearer"}, {"authorization": "bearer  "}, {"authorization": "Basic "}):
        with pytest.raises(Refusal, match="send the API key"):
            keys.of(Headers(sent))
    assert keys.of(Headers({"x-api-key": "old"})).role == "admin"


def test_keys_of_a_file_open_an_address_to_others(tmp_path: Path, file: Path) -> None:
    """A server with a file of keys may listen for others."""
    Settings(host="0.0.0.0", api_keys_file=file).check_exposure()
    with pytest.raises(ValueError, match="KINBIN_API_KEYS_FILE"):
        Settings(host="0.0.0.0").check_exposure()
