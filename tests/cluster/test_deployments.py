"""The example of a deployment on three machines: NATS with TLS and passwords, and containers whose settings are known."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from kinbin_cluster.connecting import Connection
from kinbin_cluster.errors import LogUnavailable
from kinbin_cluster.log import Log
from kinbin_cluster.servers import NatsServers, Process, free_port
from kinbin_cluster.settings import ClusterSettings
from kinbin_service.settings import Settings
from self_signed import make_certificate

DEPLOY = Path(__file__).resolve().parents[2] / "deploy/cluster"
PASSWORDS = {"NATS_PASSWORD": "12345", "ROUTES_PASSWORD": "0e9"}
"""Texts that are numbers elsewhere."""


def given(machine: int, ports: list[int]) -> dict[str, str]:
    """The variables of a NATS container, as compose makes them of a machine's own."""
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]
    own = {**PASSWORDS, "MACHINE": f"{machine}", **{f"MACHINE_{number}": "localhost" for number in (1, 2, 3)}}
    pattern = re.compile(r"\$\{(\w+):(?:\?|-([^}]+))\}")
    made = {name: pattern.sub(lambda found: own.get(found[1], found[2]), value) for name, value in services["nats"]["environment"].items()}
    return {name: value.replace(":6222", f":{ports[int(name[-1]) - 1]}") if name[-1].isdecimal() else value for name, value in made.items()}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """Three servers by the file that is deployed, but for ports and paths: the folder of certificates, and the servers' addresses."""
    folder = tmp_path_factory.mktemp("secured")
    certificate, key = make_certificate(folder, "server")
    certificate.rename(folder / "server.crt")
    key.rename(folder / "server.key")
    (folder / "ca.crt").write_bytes((folder / "server.crt").read_bytes())
    program = NatsServers(folder / "unused", 1).processes[0].command[0]
    ports, routes = [free_port() for _ in range(3)], [free_port() for _ in range(3)]
    text = (DEPLOY / "nats.conf").read_text(encoding="utf-8").replace("/certs/", f"{folder}/").replace("http: 127.0.0.1:8222", "")
    processes = []
    for number in range(3):
        own = (
            text.replace("/nats\n", f"{folder}/store-{number}\n")
            .replace(":4222", f":{ports[number]}")
            .replace(":6222", f":{routes[number]}")
        )
        (folder / f"{number}.conf").write_text(own.replace("0.0.0.0", "127.0.0.1"), encoding="utf-8")
        command = [program, "-c", str(folder / f"{number}.conf")]
        processes.append(Process(command, folder / f"{number}.log", given(number + 1, routes)))
    try:
        for process in processes:
            process.start()
        yield folder, ",".join(f"tls://localhost:{port}" for port in ports)
    finally:
        for process in processes:
            process.stop()


async def test_deployed_servers_work_with_tls_and_a_password(secured: tuple[Path, str]) -> None:
    """Three servers of the deployed file store an edit three times for who trusts their certificate and has the password, be it digits."""
    folder, addresses = secured
    (folder / "password").write_text(f"{PASSWORDS['NATS_PASSWORD']}\n", encoding="utf-8")
    settings = ClusterSettings(
        nats=addresses, nats_user="kinbin", nats_password_file=folder / "password", nats_ca_file=folder / "ca.crt", nats_replicas=3
    )
    async with await Connection.open(settings, "test", seconds=60) as connection:
        log = Log(connection)
        await log.ensure_stream("0" * 12, 0, seconds=60)
        assert await log.last("0" * 12, 0) == 0
        info = await connection.js.stream_info("KB-" + "0" * 12 + "-0")
        assert info.config.num_replicas == 3
        assert connection.client.connected_url is not None


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ["password", "authority"])
async def test_deployed_servers_refuse_others(secured: tuple[Path, str], tmp_path: Path, wrong: str) -> None:
    """Who has another password, or trusts another authority, gets no connection."""
    folder, addresses = secured
    other, _ = make_certificate(tmp_path, "other")
    settings = ClusterSettings(
        nats=addresses, nats_user="kinbin", nats_password="guess" if wrong == "password" else PASSWORDS["NATS_PASSWORD"],
        nats_ca_file=other if wrong == "authority" else folder / "ca.crt",
    )  # fmt: skip
    with pytest.raises(LogUnavailable):
        await Connection.open(settings, "test", seconds=3)


def test_containers_have_settings_that_there_are() -> None:
    """Every variable of the containers is a setting of the service or of the cluster, and their programs are commands."""
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]
    known = {f"KINBIN_{name.upper()}" for name in Settings.model_fields}
    known |= {f"KINBIN_CLUSTER_{name.upper()}" for name in ClusterSettings.model_fields}
    for name in ("node", "gateway"):
        assert set(services[name]["environment"]) <= known, name
        assert services[name]["command"][:2] == ["kinbin", name]
        assert services[name]["read_only"] is True
    # The health check of the image asks the port that the environment names; the folder of the server is its user's.
    assert services["node"]["environment"]["KINBIN_PORT"] in services["node"]["environment"]["KINBIN_CLUSTER_ADDRESS"]
    assert "--port" not in services["node"]["command"]
    assert services["nats"]["user"] in services["nats-folder"]["entrypoint"]
    assert services["nats-folder"]["volumes"][0] in services["nats"]["volumes"]
    used = set(re.findall(r"\$([A-Z_0-9]+)", (DEPLOY / "nats.conf").read_text(encoding="utf-8")))
    assert used == set(services["nats"]["environment"])
