"""Hosts and origins: what a web page of elsewhere cannot ask a server for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from kinbin_service.settings import Settings
from service_app import App, problem, running_app

KEY = "correct-horse-battery-staple"
HEALTH = ("/healthz", "/livez", "/readyz")


async def asked(app: App, path: str = "/v1/limits", **headers: str) -> httpx.Response:
    """The answer to a GET with these headers."""
    return await app.client.get(path, headers=headers)


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:8080",
        "localhost.",
        "127.0.0.1",
        "127.0.0.1:8080",
        "127.8.7.6:1",
        "[::1]",
        "[::1]:8080",
        "[0:0:0:0:0:0:0:1]:9",
    ],
)
async def test_loopback_names_are_answered(app: App, host: str) -> None:
    """Without a key, every name and address of loopback is answered, with any port."""
    assert (await asked(app, host=host)).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example", "0.0.0.0:8080", "10.0.0.7", "[::]:8080",
     "[fe80::1]", "a@evil.example", "localhost:80:80", "127.0.0.1, evil.example", "", " ", "evil.example#a", "::1", "2130706433"],
)  # fmt: skip
async def test_another_host_is_refused_without_a_key(app: App, host: str) -> None:
    """Without a key, a request to any other name is 421, says what to set, and repeats nothing of the name."""
    response = await asked(app, host=host)
    refused = problem(response)
    assert (refused["status"], refused["code"]) == (421, "unknown_host")
    assert "KINBIN_ALLOWED_HOSTS" in refused["detail"]
    assert "evil" not in response.text


async def test_two_hosts_are_refused(app: App) -> None:
    """A request with two Host headers is refused, whatever they say."""
    response = await app.client.get("/v1/limits", headers=[("host", "localhost"), ("host", "evil.example")])
    assert problem(response)["code"] == "unknown_host"


@pytest.mark.parametrize("origin", ["http://localhost:3000", "https://127.0.0.1", "http://[::1]:8080"])
async def test_pages_of_this_machine_are_answered(app: App, origin: str) -> None:
    """A page that this machine serves may ask."""
    assert (await asked(app, origin=origin)).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "https://localhost.evil.example:8080", "null", "", "file://", "localhost"])
async def test_pages_of_elsewhere_are_refused(app: App, origin: str) -> None:
    """A page of another host is 403 even when it names the server rightly: nothing is written for it."""
    response = await app.client.post("/index", json={"items": [{"id": "a", "vector": [1, 2]}]}, headers={"origin": origin})
    refused = problem(response)
    assert (refused["status"], refused["code"]) == (403, "foreign_origin")
    assert await app.state() == {}


@pytest.mark.parametrize("path", HEALTH)
async def test_health_is_told_to_any_host(app: App, path: str) -> None:
    """Probes of containers ask by addresses that nobody configured, and are answered."""
    assert (await asked(app, path, host="10.1.2.3:8080")).status_code == 200


async def test_configured_names_are_answered(tmp_path: Path) -> None:
    """A name of KINBIN_ALLOWED_HOSTS is answered with any port, as Host and as Origin; others are not."""
    async with running_app(tmp_path / "data", allowed_hosts="Kinbin.Example.org., [fd00::7]") as app:
        for host in ("kinbin.example.org", "KINBIN.example.org:443", "kinbin.example.org.", "[fd00::7]:8080", "localhost"):
            assert (await asked(app, host=host)).status_code == 200
        assert (await asked(app, host="kinbin.example.org", origin="https://kinbin.example.org")).status_code == 200
        assert (await asked(app, host="example.org")).status_code == 421


@pytest.mark.parametrize(("listening", "answered"), [("192.0.2.7", True), ("0.0.0.0", False), ("::", False)])
async def test_the_address_that_is_listened_on(tmp_path: Path, listening: str, answered: bool) -> None:
    """The address that a server was told to listen on is its name, unless it stands for all of them."""
    async with running_app(tmp_path / "data", host=listening, insecure=True) as app:
        assert (await asked(app, host="192.0.2.7:8080")).status_code == (200 if answered else 421)
        assert (await asked(app, host=listening)).status_code == (200 if answered else 421)


async def test_with_a_key_hosts_count_only_where_they_are_configured(tmp_path: Path) -> None:
    """A page cannot know the key, so a server with one answers to every name, until names are configured."""
    async with running_app(tmp_path / "a", api_key=KEY) as app:
        assert (await asked(app, host="evil.example", origin="http://evil.example", **{"x-api-key": KEY})).status_code == 200
    async with running_app(tmp_path / "b", api_key=KEY, allowed_hosts="kinbin.example.org") as app:
        assert (await asked(app, host="evil.example", **{"x-api-key": KEY})).status_code == 421
        assert (await asked(app, host="kinbin.example.org", **{"x-api-key": KEY})).status_code == 200
        assert (await asked(app, host="kinbin.example.org")).status_code == 401


@pytest.mark.parametrize("wrong", ["http://kinbin.example.org", "kinbin.example.org:8080", "a b", "*", "a,/"])
def test_what_is_no_host_is_refused(wrong: str) -> None:
    """A scheme, a port or a pattern among the allowed hosts would never match: it is refused at the start."""
    settings: dict[str, Any] = {"allowed_hosts": wrong}
    with pytest.raises(ValidationError, match="is no host"):
        Settings(**settings)
