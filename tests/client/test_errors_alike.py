"""Both clients refuse alike: the same classes, the same parents, the same codes, by one table of calls over a live service."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from kinbin_client import Client, Query, QueryOptions, Retry, Sparse, errors
from kinbin_client.client import Collection

pytestmark = [pytest.mark.server, pytest.mark.slow]

TABLE = Path(__file__).resolve().parents[1] / "data" / "client_errors.json"
ONCE = Retry(attempts=1)
KEY = "canary-key-4711"
CLASSES = {name: one for name, one in vars(errors).items() if isinstance(one, type) and issubclass(one, errors.KinbinClientError)}


def with_numbers(value: dict[str, Any]) -> Any:
    """JSON has no NaN: {"$": "NaN"} is one."""
    return float(value["$"]) if "$" in value else value


CASES: list[dict[str, Any]] = json.loads(TABLE.read_text(encoding="utf-8"), object_hook=with_numbers)


class Answers(BaseHTTPRequestHandler):
    """Answers what the address asks for: /STATUS/CODE is a problem document, and some have a name."""

    def do_GET(self) -> None:
        """Answer."""
        kind, _, rest = self.path[1:].partition("/")
        if kind == "silence":
            self.server.released.wait(60)  # type: ignore[attr-defined]
        if kind in ("silence", "hang-up"):
            self.close_connection = True
        elif kind == "redirect":
            self.told(302, "text/plain", "elsewhere", location="/page")
        elif kind in ("page", "broken-page"):
            self.told(200 if kind == "page" else 502, "text/html", "<html></html>")
        else:
            code = rest.partition("/")[0]
            problem = {
                "type": "about:blank",
                "title": code,
                "status": int(kind),
                "code": code,
                "detail": "why",
                "errors": [],
                "limit": None,
            }
            self.told(int(kind), "application/problem+json", json.dumps(problem))

    def told(self, status: int, content_type: str, text: str, **headers: str) -> None:
        """Send one answer."""
        self.send_response(status)
        for name, value in {"content-type": content_type, "content-length": str(len(text)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def answers() -> Iterator[str]:
    """The address of a server that answers what it is asked for."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        server.released = threading.Event()  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.released.set()  # type: ignore[attr-defined]
        server.shutdown()
        thread.join(30)


@pytest.fixture(scope="module")
def closed_url() -> Iterator[str]:
    """An address where nobody listens, held so that nobody else takes it."""
    with closing(socket.socket()) as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


@pytest.fixture(scope="module")
def service(live_url: str) -> Iterator[Client]:
    """The live service with what the table asks of it."""
    with Client(live_url, api_key=KEY, retry=ONCE) as client:
        rows = client.create_collection("rows", dim=3, exist_ok=True)
        rows.add(["a"], [[1, 2, 3]], payloads=[{"n": 1}])
        client.create_collection("words", items="strings", distance="levenshtein", exist_ok=True)
        yield client
        for name in ("rows", "words"):
            client.drop_collection(name)


def vector(given: Any) -> Any:
    """A vector or object in the form of Python."""
    if isinstance(given, dict) and "string" in given:
        return given["string"]
    return Sparse(given["indices"], given["values"]) if isinstance(given, dict) and "indices" in given else given


def one_of_many(given: dict[str, Any]) -> Query:
    """One of many queries."""
    options = QueryOptions(**{name: value for name, value in given.items() if name not in ("vector", "id", "positive")})
    return Query(given.get("vector"), given.get("id"), given.get("positive"), options=options)


def add(rows: Collection, items: list[dict[str, Any]]) -> Any:
    """Items one beside the other, as Python takes them."""
    content = [vector(one.get("vector", one)) for one in items]
    return rows.add([one["id"] for one in items], content, payloads=[one.get("payload") for one in items])


def set_payload(rows: Collection, items: list[dict[str, Any]]) -> Any:
    """The same of payloads."""
    return rows.set_payload([one["id"] for one in items], [one["payload"] for one in items])


CALLS: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "query": lambda rows, given: rows().query(vector(given["x"]), **given.get("options", {})),
    "query_id": lambda rows, given: rows().query_id(given["id"], **given.get("options", {})),
    "query_examples": lambda rows, given: rows().query_examples(given["positive"], **given.get("options", {})),
    "query_batch": lambda rows, given: rows().query_batch(given["many"], **given.get("options", {})),
    "query_each": lambda rows, given: rows().query_each([one_of_many(one) for one in given["many"]]),
    "query_matrix": lambda rows, given: rows().query_batch(np.array(given["many"], np.float32), **given.get("options", {})),
    "add": lambda rows, given: add(rows(), given["items"]),
    "set_payload": lambda rows, given: set_payload(rows(), given["items"]),
    "count": lambda rows, given: rows().count(given["filter"]),
    "delete": lambda rows, given: rows().delete(given.get("ids"), filter=given["filter"]),
    "get": lambda rows, given: rows().get(given["ids"]),
    "recall": lambda rows, given: rows().recall(given["queries"], **given.get("options", {})),
    "info": lambda rows, given: rows().info(),
}


@pytest.fixture
def elsewhere(service: Client, live_url: str, answers: str, closed_url: str) -> dict[str, Callable[[dict[str, Any]], Any]]:
    """Calls that are not of a collection."""

    def ask(url: str, **options: Any) -> Any:
        with Client(url, retry=ONCE, **options) as client:
            return client.collections()

    def unreachable(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectTimeout("late", request=request)

    def closed(_: Any) -> Any:
        client = Client(live_url)
        client.close()
        return client.collections()

    return {
        "create": lambda given: service.create_collection(given["collection"], **given["configuration"]),
        "stranger": lambda _: ask(live_url, api_key="another-key"),
        "key": lambda given: ask(live_url, api_key=given["key"]),
        "address": lambda given: ask(given["address"]),
        "refused": lambda _: ask(closed_url),
        "connect_timeout": lambda _: ask(live_url, transport=httpx.MockTransport(unreachable)),
        "answer": lambda given: ask(f"{answers}/{given['answer']}", timeout=1.0),
        "closed": closed,
    }


@pytest.fixture(scope="module")
def typescript(node: Any, service: Client, live_url: str, answers: str, closed_url: str) -> dict[str, Any]:
    """What the TypeScript client tells of the whole table, and the parents of its classes."""
    known = {"SERVICE_URL": live_url, "SERVICE_KEY": KEY, "ANSWERS_URL": answers, "CLOSED_URL": closed_url, "ERRORS_TABLE": str(TABLE)}
    told: dict[str, Any] = json.loads(node("node", "build/alike.js", **known))
    return told


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_python_refuses_as_the_table_says(case: dict[str, Any], service: Client, elsewhere: dict[str, Callable[[Any], Any]]) -> None:
    """Each call of the table is refused by the Python client with its class and code."""
    of_rows = partial(CALLS.get(case["call"], print), lambda: service.collection(case.get("collection", "rows")))
    with pytest.raises(errors.KinbinClientError) as told:
        elsewhere.get(case["call"], of_rows)(case)
    assert [type(told.value).__name__, getattr(told.value, "code", None)] == [case["class"], case["code"]]


def test_typescript_refuses_as_the_table_says(typescript: dict[str, Any]) -> None:
    """Each call of the table is refused by the TypeScript client with the same class and code."""
    assert typescript["errors"] == {case["name"]: [case["class"], case["code"]] for case in CASES}


def test_parents_of_errors_are_those_of_the_python_client(typescript: dict[str, Any]) -> None:
    """Every class has the same name and is the same others in both clients, ConnectTimeout a Timeout, too."""
    ours = {name: {other for other, base in CLASSES.items() if issubclass(one, base)} for name, one in CLASSES.items()}
    assert {name: set(parents) for name, parents in typescript["parents"].items()} == ours


def test_the_table_has_every_class_that_is_raised() -> None:
    """No class is left out, but for those that are only parents."""
    assert CLASSES.keys() - {case["class"] for case in CASES} == {"KinbinClientError", "ApiError", "TransportError"}
    assert len({case["name"] for case in CASES}) == len(CASES)
