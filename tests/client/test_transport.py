"""httpx stays behind one door: all its exceptions are translated, keys stay in headers, nothing is followed, closed means closed."""

from __future__ import annotations

import asyncio
import inspect
import os
import ssl
from typing import Any

import httpx
import pytest

import kinbin_client
from kinbin_client import AsyncClient, Client, ClientClosed, InvalidArgument, KinbinClientError, Retry, TransportError, UnexpectedResponse
from kinbin_client._requests import Request
from kinbin_client._transport import HTTPX_ERRORS, TRANSLATIONS, Connection, _build, translate

KEY = "canary-key-4711"
ONCE = Retry(attempts=1)
HTTPX_CLASSES = sorted(
    {each for _, each in inspect.getmembers(httpx, inspect.isclass) if issubclass(each, Exception)}, key=lambda each: each.__name__
)


def instance(error_class: type[Exception]) -> Exception:
    """An exception of httpx, made as that class wants it."""
    request = httpx.Request("GET", "http://kinbin.test/", headers={"authorization": f"Bearer {KEY}"})
    if issubclass(error_class, httpx.HTTPStatusError):
        return error_class("said", request=request, response=httpx.Response(500, request=request))
    if issubclass(error_class, httpx.StreamConsumed | httpx.StreamClosed | httpx.ResponseNotRead | httpx.RequestNotRead):
        return error_class()
    if issubclass(error_class, httpx.RequestError):
        return error_class("said", request=request)
    return error_class("said")


def test_every_exception_of_httpx_is_listed() -> None:
    """Each exception class of the installed httpx has a translation of its own, and none is listed that is not there."""
    assert set(TRANSLATIONS) == set(HTTPX_CLASSES)


@pytest.mark.parametrize("error_class", HTTPX_CLASSES)
def test_every_exception_of_httpx_is_caught(error_class: type[Exception]) -> None:
    """Raised on the way, each of them arrives as an error of the client, chained, with the address and without the key."""
    original = instance(error_class)
    assert isinstance(original, HTTPX_ERRORS)

    def fail(request: httpx.Request) -> httpx.Response:
        raise original

    with Client("http://kinbin.test:1/x", api_key=KEY, transport=httpx.MockTransport(fail), retry=ONCE) as client:
        with pytest.raises(KinbinClientError) as raised:
            client.collections()
        assert raised.value.__cause__ is original
        assert "http://kinbin.test:1/x: " in str(raised.value)
        assert KEY not in str(raised.value) + repr(raised.value)

    async def same() -> None:
        async with AsyncClient("http://kinbin.test:1/x", transport=httpx.MockTransport(fail), retry=ONCE) as client:
            with pytest.raises(type(raised.value)):
                await client.collections()

    asyncio.run(same())


def test_exception_of_a_later_httpx_is_the_nearest() -> None:
    """A subclass that is not listed becomes what its nearest listed base becomes."""

    class Later(httpx.ReadTimeout):
        pass

    assert type(translate(Later("x"), "here")) is kinbin_client.Timeout


@pytest.mark.parametrize(
    ("error_class", "outcome_unknown"),
    [
        (httpx.ConnectError, False),
        (httpx.ConnectTimeout, False),
        (httpx.PoolTimeout, False),
        (httpx.ProxyError, False),
        (httpx.ReadTimeout, True),
        (httpx.WriteTimeout, True),
        (httpx.ReadError, True),
        (httpx.WriteError, True),
        (httpx.RemoteProtocolError, True),
    ],
)
def test_outcome_is_judged(error_class: type[Exception], outcome_unknown: bool) -> None:
    """Only what fails before anything is sent has a known outcome."""
    error = translate(instance(error_class), "here")
    assert isinstance(error, TransportError)
    assert error.outcome_unknown is outcome_unknown


def test_refused_connection_is_told() -> None:
    """An address where nobody listens is a failed connection that names the address."""
    with Client("http://127.0.0.1:1", retry=ONCE) as client, pytest.raises(kinbin_client.ConnectionFailed, match=r"http://127\.0\.0\.1:1"):
        client.health()


def echo(request: httpx.Request) -> httpx.Response:
    """Answer with the request's own key in a page, as some proxies do when they debug."""
    return httpx.Response(500, text=f"authorization: {request.headers.get('authorization')}")


def test_key_is_nowhere_but_in_its_header() -> None:
    """The key travels in the header Authorization, and stands in no address, repr or error."""
    seen: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return echo(request)

    with Client("http://kinbin.test", api_key=KEY, transport=httpx.MockTransport(handler)) as client:
        with pytest.raises(KinbinClientError) as raised:
            client.query([1.0])
        collection = client.collection("photos")
        shown = [repr(client), str(client), repr(collection), str(raised.value), repr(raised.value), repr(vars(raised.value))]
        assert repr(client) == "Client('http://kinbin.test', api_key='***')"
        assert repr(collection) == "<Collection 'photos' of 'http://kinbin.test', api_key='***'>"
    assert not [text for text in shown if KEY in text]
    assert seen[0].headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in str(seen[0].url) + seen[0].content.decode()
    assert repr(Client()) == "Client('http://127.0.0.1:8080', api_key=None)"


@pytest.mark.parametrize("key", ["", " ", f"{KEY}\nb", f"{KEY}\r\nX-Evil: 1", f"schlüssel-{KEY}", f" {KEY}", f"{KEY}\x7f"])
def test_key_that_fits_no_header_is_refused(key: str) -> None:
    """A key that could break the header is refused, without being repeated."""
    with pytest.raises(InvalidArgument, match="an API key is one line") as raised:
        Client(api_key=key)
    assert KEY not in str(raised.value)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "kinbin.test",
        "127.0.0.1:8080",
        "ftp://kinbin.test",
        "http://",
        "http://[::1",
        "http://kinbin.test/?api_key=x",
        "http://kinbin.test/#x",
        5,
    ],
)
def test_address_that_is_none_is_refused(url: Any) -> None:
    """An address that leads nowhere, or holds what logs would show, is refused when the client is made."""
    with pytest.raises(InvalidArgument, match="address"):
        Client(url)


def test_password_in_the_address_is_refused() -> None:
    """A password in the address would be sent beside the key: it is refused, without being repeated."""
    with pytest.raises(InvalidArgument, match="api_key") as raised:
        Client(f"http://user:{KEY}@kinbin.test")
    assert KEY not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://kinbin.test", "http://kinbin.test/v1/collections/a/count"),
        ("http://kinbin.test/", "http://kinbin.test/v1/collections/a/count"),
        ("https://kinbin.test:8443/behind/a/proxy/", "https://kinbin.test:8443/behind/a/proxy/v1/collections/a/count"),
        ("http://[::1]:8080", "http://[::1]:8080/v1/collections/a/count"),
    ],
)
def test_path_of_the_address_is_kept(url: str, expected: str) -> None:
    """A service behind a path of a proxy is reached there."""
    seen: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(str(request.url))
        return httpx.Response(200, json={"count": 0})

    with Client(url, transport=httpx.MockTransport(handler)) as client:
        client.collection("a").count()
    assert seen == [expected]


def test_redirect_takes_the_key_nowhere() -> None:
    """A redirect is not followed: the key is sent to the given address only."""
    hosts: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        hosts.append(request.url.host)
        return httpx.Response(307, headers={"location": "http://evil.test/"})

    with Client("http://kinbin.test", api_key=KEY, transport=httpx.MockTransport(handler)) as client, pytest.raises(UnexpectedResponse):
        client.collections()
    assert hosts == ["kinbin.test"]


@pytest.mark.parametrize("proxy", ["", "https_proxy", "all_proxy"])
def test_authorities_are_read_where_tls_may_be_spoken(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    """At an http:// address, without proxies, TLS trusts nobody; at others, by a proxy, or with a context of one's own, as it is said."""
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    if proxy:
        monkeypatch.setenv(proxy, "https://proxy.test")
    plain = Connection.to("HTTP://kinbin.test", None, 1.0, True, None).options()["verify"]
    if proxy:
        assert plain is True
    else:
        assert (plain.verify_mode, plain.check_hostname, plain.cert_store_stats()["x509"]) == (ssl.CERT_REQUIRED, True, 0)
    assert Connection.to("https://kinbin.test", None, 1.0, True, None).options()["verify"] is True
    own = ssl.create_default_context()
    for given in (False, own):
        assert Connection.to("http://kinbin.test", None, 1.0, given, None).options()["verify"] is given


def test_headers_timeout_and_verify_reach_httpx() -> None:
    """What is set on the client goes with its requests."""
    seen: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={"collections": []})

    context = ssl.create_default_context()
    with Client(
        "https://kinbin.test", timeout=7.0, verify=context, headers={"x-tenant": "t"}, transport=httpx.MockTransport(handler)
    ) as client:
        assert client.collections() == []
    assert seen[0].extensions["timeout"] == {"connect": 7.0, "read": 7.0, "write": 7.0, "pool": 7.0}
    assert seen[0].headers["x-tenant"] == "t"
    assert seen[0].headers["user-agent"] == f"kinbin-client/{kinbin_client.__version__}"
    assert "authorization" not in seen[0].headers


def test_key_is_sent_once() -> None:
    """A header of the caller's own, in any case of letters, is replaced by the API key, not sent beside it."""
    seen: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={"collections": []})

    own = {"Authorization": "Basic abc", "User-Agent": "mine/1"}
    for key in (KEY, None):
        with Client("http://kinbin.test", api_key=key, headers=own, transport=httpx.MockTransport(handler)) as client:
            client.collections()
    assert [request.headers.get_list("authorization") for request in seen] == [[f"Bearer {KEY}"], ["Basic abc"]]
    assert seen[0].headers.get_list("user-agent") == ["mine/1"]


def test_closed_client_says_so() -> None:
    """After close() every call, also of a handle made before, raises ClientClosed; closing again does nothing."""
    client = Client("http://kinbin.test", transport=httpx.MockTransport(echo))
    collection = client.collection("a")
    client.close()
    client.close()
    for call in (client.collections, collection.count, lambda: client.add(["a"], [[1.0]])):
        with pytest.raises(ClientClosed):
            call()

    async def same() -> None:
        client = AsyncClient("http://kinbin.test", transport=httpx.MockTransport(echo))
        await client.close()
        with pytest.raises(ClientClosed):
            await client.collections()

    asyncio.run(same())


def test_cancelled_call_ends() -> None:
    """A cancelled asynchronous call is cancelled, not repeated and not turned into an error of its own."""
    started = 0

    async def slow(request: httpx.Request) -> httpx.Response:
        nonlocal started
        started += 1
        await asyncio.sleep(60)
        raise AssertionError("not reached")

    async def cancel() -> None:
        async with AsyncClient("http://kinbin.test", transport=httpx.MockTransport(slow)) as client:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(client.collections(), timeout=0.05)

    asyncio.run(cancel())
    assert started == 1


@pytest.mark.parametrize(
    "base", ["http://127.0.0.1:8080", "http://kinbin.test/behind/a proxy", "https://kinbin.test:99", "http://[::1]:81"]
)
@pytest.mark.parametrize("path", ["/query", "/v1/collections/a%20b/query", "/v1/collections/x/index?mode=a%2Cb&on=1", "/v1/%C3%A9"])
def test_a_request_is_what_httpx_makes_of_it(base: str, path: str) -> None:
    """Address, head, body and timeouts: put together once, and not by httpx for every request. Cookies that a proxy set are sent."""
    for cookies in ({}, {"stuck": "to-one"}):
        with httpx.Client(**Connection.to(base, KEY, 3.0, True, {"X-Own": "1"}).options(), cookies=cookies) as http:
            made = _build(http, Request("POST", path, b"{}", {"content-type": "application/json"}), lambda _: None)
            expected = http.build_request("POST", path, content=b"{}", headers={"content-type": "application/json"})
        assert (made.method, made.url, made.url.raw_path) == (expected.method, expected.url, expected.url.raw_path)
        assert {name.lower(): value for name, value in made.headers.items()} == dict(expected.headers.items())
        assert made.read() == expected.read()
        assert made.extensions == expected.extensions
