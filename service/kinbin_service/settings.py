"""The one table of settings. Each is an environment variable with the prefix KINBIN_, such as KINBIN_DATA_DIR."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from kinbin.errors import nearest

__all__ = ["Settings", "is_loopback", "is_wildcard", "reached_at"]

MEBIBYTE = 1_048_576

_HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?\.?", re.ASCII)

_OTHERS = frozenset({"COSTS", "DATA"})
"""Variables that other parts of Kinbin read."""


class Settings(BaseSettings):
    """Everything that can be set about a server. An empty variable counts as not set; unknown ones set nothing."""

    model_config = SettingsConfigDict(
        env_prefix="KINBIN_", env_ignore_empty=True, extra="ignore", frozen=True, hide_input_in_errors=True, allow_inf_nan=False
    )

    data_dir: Annotated[Path, Field(description="directory of the database; created if absent")] = Path("kinbin-data")
    host: Annotated[str, Field(description="address to listen on")] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535, description="port to listen on; 0 lets the system choose")] = 8080
    workers: Annotated[int, Field(ge=1, le=256, description="server processes; all of them share the data directory")] = 1

    api_key: Annotated[
        SecretStr | None, Field(description="key that every request but the health checks has to carry; it may do everything")
    ] = None
    api_key_file: Annotated[Path | None, Field(description="file that holds the key, instead of api_key")] = None
    api_keys_file: Annotated[
        Path | None, Field(description="file of several keys with roles, a line each (`kinbin key new`); read again when it changes")
    ] = None
    insecure: Annotated[bool, Field(description="allow an address that is not loopback without a key")] = False
    allowed_hosts: Annotated[
        str,
        Field(
            description="names, with commas, that requests may have in Host and Origin besides loopback ones and `KINBIN_HOST`; "
            "looked at when there is no key, or when any are set"
        ),
    ] = ""

    tls_cert_file: Annotated[Path | None, Field(description="PEM file of a certificate and its chain: HTTPS; read again at SIGHUP")] = None
    tls_key_file: Annotated[Path | None, Field(description="PEM file of its key, if it does not stand in the same file")] = None
    max_connections: Annotated[int, Field(ge=1, le=1_000_000, description="open connections of a worker; more get 503")] = 512
    header_seconds: Annotated[float, Field(gt=0, description="longest time for address and headers to arrive; then 408")] = 10.0

    threads: Annotated[int, Field(ge=1, le=256, description="library calls that run at once in a worker")] = min(
        32, 4 + (os.cpu_count() or 1)
    )
    read_threads: Annotated[int, Field(ge=1, le=256, description="of these, reads: more than there are cores take turns")] = min(
        32, 1 + (os.cpu_count() or 1)
    )
    queue_length: Annotated[int, Field(ge=0, le=100_000, description="requests that may wait for a thread; more get 429")] = 128
    deadline_seconds: Annotated[float, Field(gt=0, description="longest wait for a thread; then 503, and the work is dropped")] = 10.0
    search_seconds: Annotated[float, Field(gt=0, description="longest time for a search that has begun; then it ends with 503")] = 30.0
    body_seconds: Annotated[float, Field(gt=0, description="longest time for a body to arrive; then 408")] = 60.0
    drain_seconds: Annotated[int, Field(ge=1, description="time for requests in flight to be answered after SIGTERM")] = 25
    keep_alive_seconds: Annotated[int, Field(ge=1, description="an idle connection is closed after so long")] = 65

    max_index_body_bytes: Annotated[int, Field(ge=1_024, description="largest body of an add")] = 32 * MEBIBYTE
    max_query_body_bytes: Annotated[int, Field(ge=1_024, description="largest body of a query")] = 32 * MEBIBYTE
    max_body_bytes: Annotated[int, Field(ge=1_024, description="largest body of any other request")] = 4 * MEBIBYTE
    max_buffered_bytes: Annotated[int, Field(ge=1_024, description="bytes of bodies that a worker holds at once; more get 503")] = (
        256 * MEBIBYTE
    )
    max_answer_items: Annotated[int, Field(ge=1, description="k times queries of one request")] = 1_000_000
    max_answer_contents: Annotated[int, Field(ge=1, description="the same when payloads or vectors are included")] = 10_000

    metrics_collections: Annotated[
        int, Field(ge=0, le=100_000, description="collections that /metrics tells of by name: the first ones; 0 for none")
    ] = 100
    snapshots_dir: Annotated[
        Path | None, Field(description="directory of snapshots, best on another disk; default: snapshots in the data directory")
    ] = None
    max_restore_bytes: Annotated[int, Field(ge=1_024, description="largest snapshot that is uploaded to be restored")] = 65_536 * MEBIBYTE

    seal_rows: Annotated[int, Field(ge=1, le=1_000_000, description="new rows that are sealed into a run")] = 8_192
    quiet_seal_rows: Annotated[int, Field(ge=1, le=1_000_000, description="the same once writes have paused")] = 4_096
    link_rows: Annotated[int, Field(ge=1, le=1_000_000, description="smaller collections are not linked by themselves")] = 4_096
    quiet_seconds: Annotated[float, Field(gt=0, le=3_600, description="without a write for so long, writes have paused")] = 2.0
    link_bytes: Annotated[
        int | None,
        Field(
            ge=MEBIBYTE,
            le=1 << 40,
            description="bytes of memory that linking takes, the rest lies in files of the collection meanwhile; "
            "default: a quarter of what the process may use",
        ),
    ] = None

    traces: Annotated[bool, Field(description="send traces by OTLP over HTTP, as the OTEL_ variables say; needs kinbin[traces]")] = False
    access_log: Annotated[bool, Field(description="log one line a request (never its query string)")] = True
    log_format: Annotated[
        Literal["auto", "text", "json"], Field(description="text: lines for people; json: one object a line; auto: text on a terminal")
    ] = "auto"
    log_level: Annotated[Literal["debug", "info", "warning", "error"], Field(description="debug, info, warning or error")] = "info"

    @field_validator("api_key")
    @classmethod
    def _key_fits_a_header(cls, key: SecretStr | None) -> SecretStr | None:
        if key is not None and not (
            key.get_secret_value().isascii() and key.get_secret_value().isprintable() and key.get_secret_value().strip()
        ):
            raise ValueError("an API key is made of visible ASCII characters, as it travels in a header")
        return key

    @field_validator("allowed_hosts")
    @classmethod
    def _hosts_are_names(cls, hosts: str) -> str:
        names = [name.strip() for name in hosts.split(",") if name.strip()]
        for name in names:
            if not (_HOST_NAME.fullmatch(name) or _is_address(name)):
                raise ValueError(
                    f"{name[:80]!r} is no host: expected names or addresses without scheme and port, such as kinbin.example.org"
                )
        return ",".join(names)

    @model_validator(mode="after")
    def _one_source_of_the_key(self) -> Self:
        if self.api_key is not None and self.api_key_file is not None:
            raise ValueError("set KINBIN_API_KEY or KINBIN_API_KEY_FILE, not both")
        return self

    @model_validator(mode="after")
    def _a_key_has_a_certificate(self) -> Self:
        if self.tls_key_file is not None and self.tls_cert_file is None:
            raise ValueError("KINBIN_TLS_KEY_FILE is of no use without KINBIN_TLS_CERT_FILE")
        return self

    @cached_property
    def key(self) -> str | None:
        """The API key from wherever it is set. ValueError for a key file that holds none or cannot be read."""
        if self.api_key_file is None:
            return self.api_key.get_secret_value() if self.api_key else None
        try:
            key = self.api_key_file.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise ValueError(f"KINBIN_API_KEY_FILE names {self.api_key_file}, which cannot be read: {error.strerror}") from None
        if not (key and key.isascii() and key.isprintable()):
            raise ValueError(f"{self.api_key_file} holds no API key (one line of visible ASCII characters)")
        return key

    @property
    def upkeep(self) -> dict[str, float | None]:
        """What `kinbin.set_upkeep` is told."""
        return {name: getattr(self, name) for name in ("seal_rows", "quiet_seal_rows", "link_rows", "quiet_seconds", "link_bytes")}

    @property
    def hosts(self) -> frozenset[str]:
        """The names of `allowed_hosts`, as they are compared: without brackets, case and a last dot."""
        return frozenset(name.strip("[]").removesuffix(".").lower() for name in self.allowed_hosts.split(",") if name)

    @property
    def has_keys(self) -> bool:
        """Whether requests need a key. ValueError as for `key`."""
        return self.key is not None or self.api_keys_file is not None

    def check_exposure(self) -> None:
        """Refuse (ValueError) an address that others can reach when no key is set and nobody said that this is wanted."""
        if not self.has_keys and not self.insecure and not is_loopback(self.host):
            raise ValueError(
                f"without an API key the service listens on loopback addresses only, not on {self.host}: "
                "set KINBIN_API_KEY, KINBIN_API_KEY_FILE or KINBIN_API_KEYS_FILE, or KINBIN_INSECURE=true (--insecure) "
                "behind something that checks keys"
            )

    def check_folders(self) -> None:
        """Make the folder of snapshots. Refuse (ValueError) one that cannot be made or written to: else the first snapshot would tell."""
        if self.snapshots_dir is not None:
            try:
                there = next((path for path in (self.snapshots_dir, *self.snapshots_dir.absolute().parents) if path.exists()), None)
                if there is not None and not there.is_dir():
                    raise ValueError(f"KINBIN_SNAPSHOTS_DIR names {self.snapshots_dir}, but {there} is no directory")
                self.snapshots_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
            except OSError as error:
                raise ValueError(f"KINBIN_SNAPSHOTS_DIR names {self.snapshots_dir}, which cannot be made: {error.strerror}") from None
            if not os.access(self.snapshots_dir, os.W_OK | os.X_OK):
                raise ValueError(f"KINBIN_SNAPSHOTS_DIR names {self.snapshots_dir}, which this user may not write to")

    @classmethod
    def misspelt(cls, variables: Iterable[str]) -> dict[str, str]:
        """By variables of the prefix that set nothing, those that may be meant. What is near none may be another program's."""
        known = {name.upper() for name in cls.model_fields}
        given = {name: name.upper().removeprefix("KINBIN_") for name in variables if name.upper().startswith("KINBIN_")}
        others = {name: word for name, word in given.items() if word not in known | _OTHERS and not word.startswith("CLUSTER_")}
        return {name: f"KINBIN_{near}" for name, word in others.items() if (near := nearest(word, known)) is not None}

    def environment(self) -> dict[str, str | None]:
        """The variables from which a worker process reads these very settings; None: not set."""
        texts: dict[str, str | None] = {}
        for name in type(self).model_fields:
            value = getattr(self, name)
            text = value.get_secret_value() if isinstance(value, SecretStr) else str(value)
            texts[f"KINBIN_{name.upper()}"] = None if value is None else text
        return texts

    def export(self) -> None:
        """Put these settings into the environment of this process, which its workers inherit."""
        for name, text in self.environment().items():
            if text is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = text


def reached_at(host: str, port: int, *, tls: bool = False) -> str:
    """The address at which this machine reaches a server that listens there."""
    name = host.strip("[]")
    if is_wildcard(name):
        name = "::1" if ":" in name else "127.0.0.1"
    return f"http{'s' * tls}://{f'[{name}]' if ':' in name else name}:{port}"


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address (a name other than "localhost" counts as reachable by others)."""
    return host == "localhost" or (_is_address(host) and _address(host).is_loopback)


def is_wildcard(host: str) -> bool:
    """Whether this stands for all addresses of the machine, and so names none."""
    return host == "" or (_is_address(host) and _address(host).is_unspecified)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    return ipaddress.ip_address(host.strip("[]"))


def _is_address(host: str) -> bool:
    try:
        _address(host)
    except ValueError:
        return False
    return True
