"""A collection behind a running service as a target of imports, and the key of the service."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kinbin.errors import install
from kinbin_service.cli.output import Failure

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kinbin_client import Client
    from kinbin_service.importing import Added, Batch, Wanted
    from kinbin_service.importing.vectors import Vector

__all__ = ["ServiceTarget", "api_key", "connected", "for_client", "service_target"]


def api_key() -> str | None:
    """The key of the service, from where the service itself takes it: never from the command line, which every process can read.

    Raises Failure.
    """
    file = os.environ.get("KINBIN_API_KEY_FILE")
    if not file:
        return os.environ.get("KINBIN_API_KEY") or None
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise Failure(f"KINBIN_API_KEY_FILE names {file}, which cannot be read: {error.strerror}") from None


def _where_the_key_is() -> str:
    """Which variable a key that the service does not take came from, or should come from; nothing of the key."""
    if os.environ.get("KINBIN_API_KEY_FILE"):
        return "it was read from the file that KINBIN_API_KEY_FILE names"
    return "it was read from KINBIN_API_KEY" if api_key() else "set KINBIN_API_KEY, or KINBIN_API_KEY_FILE to a file that holds it"


@contextmanager
def connected(url: str) -> Iterator[Client]:
    """For the block, a client of the service at `url`. Raises Failure."""
    try:
        from kinbin_client import Client
        from kinbin_client.errors import ConnectionFailed, ConnectionLost, InvalidArgument, Unauthorized
    except ModuleNotFoundError:
        raise Failure(f"--url needs the client, which is not installed: {install('client')}") from None
    try:
        client = Client(url, api_key=api_key(), timeout=300.0)
    except InvalidArgument as error:
        raise Failure(f"--url {url}: {error}", 2) from None
    try:
        with client:
            yield client
    except ConnectionFailed as error:
        hint = "is the address right, and does kinbin serve run there?"
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            hint = "SSL_CERT_FILE names the file of a certificate, or of its authority, that this machine does not know"
        raise Failure(f"{error}: {hint}", kind="no_connection") from None
    except ConnectionLost as error:
        if not url.startswith("http://") or not _speaks_tls(url):
            raise
        raise Failure(f"{error}: TLS is spoken there, begin the address with https://", kind="no_connection") from None
    except Unauthorized as error:
        raise Failure(f"{error}: {_where_the_key_is()}", kind=error.code or "unauthorized") from None


def _speaks_tls(url: str) -> bool:
    """Whether what listens at an address takes up TLS, whatever its certificate; nothing is sent."""
    import socket
    import ssl

    address = urlsplit(url)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection((address.hostname, address.port or 80), 5.0) as plain, context.wrap_socket(plain):
            return True
    except OSError:
        return False


@contextmanager
def service_target(url: str, name: str) -> Iterator[tuple[ServiceTarget, Path]]:
    """For the block, a collection behind the service at `url`, and the folder for the states of imports into it. Raises Failure."""
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "kinbin" / "imports"
    folder.mkdir(parents=True, exist_ok=True)
    with connected(url) as client:
        yield ServiceTarget(client, url, name), folder


class ServiceTarget:
    """A collection behind a running service, as a target of imports. An add may travel in several requests, in order."""

    def __init__(self, client: Client, url: str, name: str) -> None:
        self.place, self.name = url.rstrip("/"), name
        self._client = client
        self._collection = client.collection(name)
        self._fields: tuple[str, ...] | None = None
        """Those of a collection that has several."""

    def prepare(self, wanted: Wanted, first: Batch) -> None:
        """Make the collection, or compare the one that is there."""
        from kinbin_client.errors import NotFound
        from kinbin_service.importing import Wanted, check_alike, check_fields, try_out

        try:
            info = self._collection.info()
        except NotFound:
            check_fields(self.name, None, first, wanted)
            self._client.create_collection(self.name, **try_out(first, wanted), exist_ok=True)
        else:
            if check_fields(self.name, info.fields, first, wanted):
                assert info.fields is not None, "that is what was checked"
                self._fields = tuple(info.fields)
                return
            have = Wanted(info.kernel, info.dim, info.parameters, info.items, feature_names=info.feature_names)
            check_alike(self.name, have, replace(wanted, items=first.items))
            for field, kind in (wanted.indexes or {}).items():
                self._collection.add_index(field, kind)  # type: ignore[arg-type]  # the service knows the kinds

    def add(self, batch: Batch, mode: str) -> Added:
        """Add a batch."""
        from kinbin_client.errors import Conflict, InvalidArgument, InvalidInput
        from kinbin_service.importing import Added, Refused, told, vectors_by_field

        try:
            if self._fields is None:
                done = self._collection.add(batch.ids, _for_client(batch.vectors), batch.payloads, mode)  # type: ignore[arg-type]
            else:
                vectors = {name: _for_client(of) for name, of in vectors_by_field(batch, self._fields).items()}
                done = self._client.fields_collection(self.name).add(batch.ids, vectors, batch.payloads, mode)  # type: ignore[arg-type]
        except InvalidInput as error:
            problems = [(problem.position, problem.detail) for problem in error.errors] or [(None, error.detail)]
            raise Refused(problems, partly=bool(error.acknowledged), code=error.code) from None
        except InvalidArgument as error:
            detail = told(batch, error.code, error.position, str(error.args[0]))
            raise Refused([(error.position, detail)], partly=bool(error.acknowledged), code=error.code) from None
        except Conflict as error:
            if error.code != "item_conflict":
                raise
            raise Refused([(None, error.detail)], conflict=True) from None
        return Added(done.indexed, done.updated, done.unchanged, done.count)

    def present(self, ids: Sequence[str]) -> list[bool]:
        """Which of these items are in the collection."""
        from kinbin_client.errors import NotFound

        try:
            there = {item.id for item in self._collection.get(ids, include=()).items}
        except NotFound:
            return [False] * len(ids)
        return [identifier in there for identifier in ids]

    def kind(self) -> Wanted | None:
        """What the collection is; None when there is none."""
        from kinbin_client.errors import NotFound
        from kinbin_service.importing import Wanted

        try:
            info = self._collection.info()
        except NotFound:
            return None
        return Wanted(items="fields") if info.fields is not None else Wanted(info.kernel, info.dim, info.parameters, info.items)


def _for_client(vectors: NDArray[Any] | list[Vector]) -> Any:
    """Vectors in the client's own forms."""
    return [for_client(vector) for vector in vectors] if isinstance(vectors, list) else vectors


def for_client(vector: Vector) -> Any:
    """One vector in the client's own form."""
    import numpy as np

    import kinbin
    import kinbin_client

    if isinstance(vector, kinbin.Sparse):
        return kinbin_client.Sparse(np.asarray(vector.indices).tolist(), np.asarray(vector.values).tolist())
    return kinbin_client.Tokens(vector.counts) if isinstance(vector, kinbin.Tokens) else vector
