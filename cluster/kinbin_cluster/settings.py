"""The one table of settings of a cluster's parts. Each is an environment variable with the prefix KINBIN_CLUSTER_."""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

__all__ = ["ClusterSettings"]

_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}", re.ASCII)


class ClusterSettings(BaseSettings):
    """Everything that can be set about a node's or a gateway's place in its cluster, beside the settings of the service.

    An empty variable counts as not set; unknown ones are left alone.
    """

    model_config = SettingsConfigDict(
        env_prefix="KINBIN_CLUSTER_", env_ignore_empty=True, extra="ignore", frozen=True, hide_input_in_errors=True
    )

    nats: Annotated[str, Field(description="addresses of the NATS servers, with commas: nats://host:4222, or tls://host:4222")] = (
        "nats://127.0.0.1:4222"
    )
    nats_user: Annotated[str | None, Field(description="user name at the NATS servers")] = None
    nats_password: Annotated[SecretStr | None, Field(description="password of that user")] = None
    nats_password_file: Annotated[Path | None, Field(description="file that holds the password, instead of nats_password")] = None
    nats_credentials_file: Annotated[Path | None, Field(description="file of NATS credentials (JWT and seed), instead of a user")] = None
    nats_ca_file: Annotated[Path | None, Field(description="PEM file of who signed the NATS servers' certificates: TLS")] = None
    nats_cert_file: Annotated[Path | None, Field(description="PEM file of this program's own certificate, where NATS asks for one")] = None
    nats_key_file: Annotated[Path | None, Field(description="PEM file of its key, if it does not stand in the same file")] = None
    nats_replicas: Annotated[int, Field(ge=1, le=5, description="NATS servers that hold each message; 1 where there is one server")] = 3

    key: Annotated[SecretStr | None, Field(description="key between gateways and nodes; the same for all")] = None
    key_file: Annotated[Path | None, Field(description="file that holds the key, instead of key")] = None
    ca_file: Annotated[Path | None, Field(description="PEM file of who signed the nodes' certificates, for gateways and nodes")] = None

    node: Annotated[str, Field(description="name of this node: letters, digits, - and _; the same after every restart")] = "node"
    address: Annotated[str | None, Field(description="where gateways reach this node, as http://host:port; default: host and port")] = None
    zone: Annotated[str, Field(description="what fails together: a rack, a room; replicas go to different ones")] = ""
    weight: Annotated[float, Field(gt=0, le=1_000, description="share of the shards that this node takes, against others'")] = 1.0

    beat_seconds: Annotated[float, Field(gt=0, le=10, description="how often a node tells that it lives, and what it has applied")] = 0.5
    lost_seconds: Annotated[float, Field(gt=0, le=60, description="a node that is silent for so long is not asked any more")] = 3.0
    replace_after_seconds: Annotated[float, Field(gt=0, description="a node that is gone for so long is replaced by others")] = 300.0
    publish_seconds: Annotated[float, Field(gt=0, le=600, description="longest wait for NATS to acknowledge a write; then 503")] = 15.0
    digest_seconds: Annotated[float, Field(gt=0, description="how often replicas of a shard compare their contents")] = 3_600.0
    snapshot_messages: Annotated[int, Field(ge=1, description="messages of a shard after which a snapshot is asked for")] = 10_000
    snapshot_bytes: Annotated[int, Field(ge=1_024, description="bytes of a shard's log after which one is asked for, too")] = 1_073_741_824
    max_log_bytes: Annotated[
        int | None, Field(ge=65_536, description="largest log of a shard, which NATS sets aside; writes are refused when it is full")
    ] = None

    @field_validator("node")
    @classmethod
    def _a_plain_name(cls, value: str) -> str:
        if not _NODE.fullmatch(value):
            raise ValueError("a node's name is 1 to 63 letters, digits, - and _")
        return value

    @model_validator(mode="after")
    def _one_of_each(self) -> Self:
        for name in ("nats_password", "key"):
            if getattr(self, name) is not None and getattr(self, f"{name}_file") is not None:
                raise ValueError(f"set {name} or {name}_file, not both")
        if self.nats_key_file is not None and self.nats_cert_file is None:
            raise ValueError("nats_key_file needs nats_cert_file")
        return self

    @property
    def servers(self) -> list[str]:
        """Addresses of the NATS servers."""
        return [server.strip() for server in self.nats.split(",") if server.strip()]

    @property
    def password(self) -> str | None:
        """The password at NATS, from wherever it was set."""
        return _secret(self.nats_password, self.nats_password_file)

    @property
    def internal_key(self) -> str | None:
        """The key between gateways and nodes, from wherever it was set."""
        return _secret(self.key, self.key_file)

    def knows_key(self, presented: str) -> bool:
        """Whether a request carries the internal key. Without a key, none does."""
        key = self.internal_key
        return key is not None and secrets.compare_digest(key.encode(), presented.encode())


def _secret(value: SecretStr | None, file: Path | None) -> str | None:
    if value is not None:
        return value.get_secret_value()
    return None if file is None else file.read_text(encoding="utf-8").strip(f"{os.linesep} \t")
