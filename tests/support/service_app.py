"""The service inside the test's own process, and helpers to ask it and to judge its answers."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import orjson
from starlette.routing import BaseRoute

import kinbin
from kinbin_service.app import create_app
from kinbin_service.service import Service
from kinbin_service.settings import Settings

PROBLEM_FIELDS = {"type", "title", "status", "code", "detail", "errors", "limit"}


_everything = functools.cache(kinbin.warm_up)


def warm_up_once(progress: object = None, groups: object = None) -> None:
    """What stands in for `kinbin.warm_up` where many applications start in one process."""
    _everything()


class App:
    """A running application: `service` is what it holds, `client` asks it."""

    def __init__(self, service: Service, client: httpx.AsyncClient) -> None:
        self.service = service
        self.client = client

    async def post(self, path: str, content: Any = None, *, status: int = 200, **more: Any) -> Any:
        """The JSON answer to a JSON body (or to `content=` bytes), whose status must be as expected."""
        if isinstance(content, bytes | str):
            response = await self.client.post(path, content=content, **{"headers": {"content-type": "application/json"}, **more})
        else:
            response = await self.client.post(path, json=content, **more)
        return judged(response, status)

    async def put(self, path: str, content: Any, *, status: int = 201) -> Any:
        """The JSON answer to a PUT, whose status must be as expected."""
        return judged(await self.client.put(path, json=content), status)

    async def get(self, path: str, *, status: int = 200, **more: Any) -> Any:
        """The JSON answer to a GET, whose status must be as expected."""
        return judged(await self.client.get(path, **more), status)

    async def state(self) -> dict[str, Any]:
        """Everything that is stored: collection → id → item."""
        stored: dict[str, Any] = {}
        for name in (await self.get("/v1/collections"))["collections"]:
            page = await self.post(f"/v1/collections/{name}/scroll", {"limit": 1_000, "include": ["payload", "vector"]})
            assert page["next"] is None
            stored[name] = {item["id"]: item for item in page["items"]}
        return stored


def judged(response: httpx.Response, status: int) -> Any:
    """The JSON of an answer that has the expected status, and is a whole problem document if it is an error."""
    assert response.status_code == status, (response.status_code, response.text[:500])
    assert response.headers["x-request-id"]
    if status < 400:
        assert response.headers["content-type"] == "application/json"
        return orjson.loads(response.content)
    return problem(response)


def problem(response: httpx.Response) -> dict[str, Any]:
    """The problem document of an answer, checked for everything that every one of them promises."""
    assert response.headers["content-type"] == "application/problem+json"
    assert len(response.content) < 2_048
    content: dict[str, Any] = orjson.loads(response.content)
    assert content.keys() == PROBLEM_FIELDS
    assert content["status"] == response.status_code
    assert content["type"] == f"urn:kinbin:problem:{content['code']}"
    assert len(content["errors"]) <= 8
    assert all(entry.keys() == {"pointer", "detail"} and entry["pointer"].startswith("#") for entry in content["errors"])
    if response.status_code in (429, 503):
        assert int(response.headers["retry-after"]) >= 1
    return content


@functools.cache
def _routes() -> list[BaseRoute]:
    """What FastAPI makes of the routes at the first request: the same for all applications, and a fiftieth of a second for each."""
    return create_app(Settings()).router.routes


@asynccontextmanager
async def running_app(data: Path, *, ready: bool = True, **settings: Any) -> AsyncIterator[App]:
    """An application on a data directory; by default it is ready when it is given."""
    app = create_app(Settings(data_dir=data, **settings))
    app.router.routes[:] = _routes()
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=True)
    async with app.router.lifespan_context(app):
        service: Service = app.state.service
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            while ready and service.state == "starting":  # noqa: ASYNC110 - a thread changes it
                await asyncio.sleep(0.005)
            yield App(service, client)


class HeldDatabase:
    """A database whose library calls wait at a gate, to fill the service's threads on purpose."""

    def __init__(self, database: Any) -> None:
        self._database = database
        self.gate = threading.Event()
        self.begun: list[str] = []

    def collection(self, name: str) -> Any:
        """The collection, once the gate is open."""
        self.begun.append(name)
        assert self.gate.wait(60)
        return self._database.collection(name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)


async def eventually(condition: Any, seconds: float = 60.0) -> None:
    """Return once a condition holds; fail if that takes too long."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - threads change it
            await asyncio.sleep(0.002)
