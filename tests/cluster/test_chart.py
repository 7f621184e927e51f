"""The chart of a cluster: objects that Kubernetes knows, confined, that name what is there; its NATS servers and its job work."""

from __future__ import annotations

import copy
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from helm_subset import notes, render
from kinbin_client import Client
from kinbin_cluster.connecting import Connection
from kinbin_cluster.dev import DevCluster
from kinbin_cluster.log import Log
from kinbin_cluster.servers import NatsServers, Process, free_port
from kinbin_cluster.settings import ClusterSettings
from kinbin_service.cli import app
from kinbin_service.gate import OPEN_PATHS
from kinbin_service.settings import Settings
from kubernetes_schema import wrong
from self_signed import make_certificate

CHART = Path(__file__).resolve().parents[2] / "deploy/helm/kinbin-cluster"
VERSION = tomllib.loads((CHART.parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
RESHARD = {"reshard": {"collection": "photos", "shards": 6}}
ALL: dict[str, Any] = {
    **RESHARD,
    "imagePullSecrets": [{"name": "registry"}], "image": {"tag": "9.9.9"},
    "nats": {
        "storage": {"className": "fast", "size": "1Ti"}, "maxFile": "900G", "nodeSelector": {"disk": "nvme"},
        "tolerations": [{"operator": "Exists"}],
    },
    "nodes": {
        "replicas": 5, "keysSecret": "metrics-keys", "env": {"KINBIN_SEARCH_SECONDS": 60}, "nodeSelector": {"disk": "nvme"},
        "storage": {"className": "fast"}, "tolerations": [{"operator": "Exists"}],
    },
    "gateways": {"tlsSecret": "outside", "env": {"KINBIN_THREADS": 8}, "nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}]},
    "networkPolicy": {"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "egress": [{"ports": [{"port": 4318}]}]},
}  # fmt: skip


def chart(values: dict[str, Any] | None = None) -> dict[tuple[str, str], dict[str, Any]]:
    """The objects of a release `kinbin` in the namespace `search`, by kind and name; no two have the same."""
    objects = render(CHART, values, namespace="search")
    named = {(one["kind"], one["metadata"]["name"]): one for one in objects}
    assert len(named) == len(objects)
    return named


def pods(objects: dict[tuple[str, str], dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The pod templates by component."""
    found = [one["spec"]["template"] for (kind, _), one in objects.items() if kind in {"StatefulSet", "Deployment", "Job"}]
    return {one["metadata"]["labels"]["app.kubernetes.io/component"]: one for one in found}


def container(pod: dict[str, Any]) -> dict[str, Any]:
    """The one container of a pod."""
    (one,) = pod["spec"]["containers"]
    return one  # type: ignore[no-any-return]


def environment(pod: dict[str, Any]) -> dict[str, str]:
    """The variables of its container, as Kubernetes makes them: fields and keys of secrets by their path, names in $() replaced."""
    made: dict[str, str] = {}
    for one in container(pod)["env"]:
        if "value" in one:
            made[one["name"]] = re.sub(r"\$\((\w+)\)", lambda found: made.get(found[1], found[0]), one["value"])
        else:
            (source,) = one["valueFrom"].values()
            made[one["name"]] = source.get("fieldPath") or f"secret:{source['key']}"
    return made


@pytest.mark.parametrize("values", [{}, ALL, {"networkPolicy": {"enabled": False}, "nodes": {"zoneLabel": ""}}], ids=["own", "all", "less"])
def test_kubernetes_knows_every_field(values: dict[str, Any]) -> None:
    """Every object has the fields, types and required parts of its kind; one that is misspelt is found."""
    objects = chart(values)
    assert [text for one in objects.values() for text in wrong(one)] == []
    broken = copy.deepcopy(objects["StatefulSet", "kinbin-node"])
    broken["spec"]["template"]["spec"]["containers"][0]["securityContext"]["readOnlyRootFileSystem"] = True
    broken["spec"]["replicas"] = "3"
    assert len(wrong(broken)) == 2


@pytest.mark.parametrize("values", [RESHARD, ALL], ids=["own", "all"])
def test_pods_are_confined(values: dict[str, Any]) -> None:
    """No root, no capabilities, no token, no writable files but volumes of their own and /tmp; every mount has its volume."""
    objects = chart(values)
    claims = {"nats": {"store"}, "node": {"data"}, "gateway": set(), "command": set()}
    writable = {"nats": {"/nats"}, "node": {"/data", "/tmp"}, "gateway": {"/tmp"}, "command": {"/scratch", "/tmp"}}
    for component, pod in pods(objects).items():
        spec, one = pod["spec"], container(pod)
        assert spec["automountServiceAccountToken"] is False
        assert spec["serviceAccountName"] == objects["ServiceAccount", "kinbin"]["metadata"]["name"]
        assert spec["securityContext"] | {"runAsNonRoot": True, "runAsUser": 10001, "fsGroup": 10001} == spec["securityContext"]
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        confined = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
        assert one["securityContext"] == confined
        assert {mount["mountPath"] for mount in one["volumeMounts"] if not mount.get("readOnly")} == writable[component]
        volumes = {volume["name"] for volume in spec["volumes"]} | claims[component]
        assert {mount["name"] for mount in one["volumeMounts"]} == volumes
        assert {"cpu", "memory"} <= one["resources"]["requests"].keys()
        assert "memory" in one["resources"]["limits"]


def test_secrets_go_to_those_who_need_them() -> None:
    """The routes' password is the servers' alone, private keys lie where they are shown, and no secret stands in an object."""
    objects = chart(RESHARD)
    for component, pod in pods(objects).items():
        keys = {}
        for volume in pod["spec"]["volumes"]:
            if "secret" in volume:
                keys[volume["secret"]["secretName"]] = {item["key"] for item in volume["secret"].get("items", [])}
        assert ("secret:routes-password" in environment(pod).values()) == (component == "nats")
        expected = {
            "nats": {"kinbin-nats-tls": set()},
            "node": {"kinbin-credentials": {"nats-password", "cluster-key"}, "kinbin-node-tls": set()},
            "gateway": {"kinbin-credentials": {"nats-password", "cluster-key"}, "kinbin-node-tls": {"ca.crt"}, "kinbin-keys": set()},
            "command": {"kinbin-credentials": {"nats-password"}, "kinbin-node-tls": {"ca.crt"}},
        }
        assert keys == expected[component], component
    assert not any(kind == "Secret" for kind, _ in objects)


def test_variables_are_settings_and_addresses_are_names_that_there_are() -> None:
    """Nodes and gateways are told where NATS and they themselves are, by names of the services; what is set is a setting, over TLS."""
    objects = chart()
    made = pods(objects)
    known = {f"KINBIN_{name.upper()}" for name in Settings.model_fields} | {"POD_IP"}
    known |= {f"KINBIN_CLUSTER_{name.upper()}" for name in ClusterSettings.model_fields}
    servers = [
        f"kinbin-nats-{number}.kinbin-nats.search.svc" for number in range(objects["StatefulSet", "kinbin-nats"]["spec"]["replicas"])
    ]
    for component in ("node", "gateway"):
        variables = environment(made[component])
        assert variables.keys() <= known
        assert variables["KINBIN_CLUSTER_NATS"] == ",".join(f"tls://{server}:4222" for server in servers)
        assert container(made[component])["args"][:2] == ["kinbin", component]
        assert container(made[component])["image"] == f"kinbin:{VERSION}"
        assert made[component]["spec"]["terminationGracePeriodSeconds"] > Settings.model_fields["drain_seconds"].default
    node = environment(made["node"])
    assert node["KINBIN_CLUSTER_ADDRESS"] == "https://metadata.name.kinbin-node.search.svc:8081"
    assert node["KINBIN_CLUSTER_ZONE"] == "metadata.labels['topology.kubernetes.io/zone']"
    assert {node["KINBIN_TLS_CERT_FILE"], node["KINBIN_CLUSTER_CA_FILE"]} == {"/etc/kinbin-tls/tls.crt", "/etc/kinbin-tls/ca.crt"}
    assert ClusterSettings(zone="").zone == ""
    routes = {environment(made["nats"])[f"ROUTE_{number}"] for number in range(3)}
    assert routes == {f'"nats://routes:secret:routes-password@{server}:6222"' for server in servers}
    for name in ("nats", "node"):
        service = objects["Service", f"kinbin-{name}"]["spec"]
        assert (service["clusterIP"], service["publishNotReadyAddresses"]) == ("None", True)
        assert objects["StatefulSet", f"kinbin-{name}"]["spec"]["serviceName"] == f"kinbin-{name}"


def test_probes_ports_and_selectors_fit() -> None:
    """Services, budgets, policies and sets select the pods they are for and no others; probes ask open paths at ports that there are."""
    objects = chart(RESHARD)
    made = pods(objects)

    def selected(labels: dict[str, str]) -> set[str]:
        return {component for component, pod in made.items() if labels.items() <= pod["metadata"]["labels"].items()}

    for (kind, name), one in objects.items():
        component = name.removeprefix("kinbin-")
        if kind == "Service":
            assert selected(one["spec"]["selector"]) == {component}
            assert {port["targetPort"] for port in one["spec"]["ports"]} <= {port["name"] for port in container(made[component])["ports"]}
        elif kind in {"StatefulSet", "Deployment", "PodDisruptionBudget"}:
            assert selected(one["spec"]["selector"]["matchLabels"]) == {component}
        elif kind == "NetworkPolicy":
            assert selected(one["spec"]["podSelector"]["matchLabels"]) == {component}
    for component in ("node", "gateway"):
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            asked = container(made[component])[probe]["httpGet"]
            assert asked["path"].split("?")[0] in OPEN_PATHS
            assert asked["port"] in {port["name"] for port in container(made[component])["ports"]}
            assert asked.get("scheme", "HTTP") == ("HTTPS" if component == "node" else "HTTP")
    assert container(made["node"])["readinessProbe"]["httpGet"]["path"] == "/readyz?replicas=live"
    for component in ("nats", "node"):
        (rule,) = made[component]["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert (rule["topologyKey"], selected(rule["labelSelector"]["matchLabels"])) == ("kubernetes.io/hostname", {component})


def test_policies_let_through_what_is_needed_and_nothing_else() -> None:
    """Who may ask whom is: clients gateways, gateways nodes, all but NATS itself its clients' port, NATS its routes. Both ends agree."""
    objects = chart(RESHARD)
    made = {name.removeprefix("kinbin-"): one["spec"] for (kind, name), one in objects.items() if kind == "NetworkPolicy"}
    assert all(set(policy["policyTypes"]) == {"Ingress", "Egress"} for policy in made.values())

    def component(peer: dict[str, Any]) -> str:
        labels = peer["podSelector"]["matchLabels"]
        return str(labels.get("app.kubernetes.io/component") or labels.get("app.kubernetes.io/name") or "client")

    taken, sent = set(), set()
    for name, policy in made.items():
        for rule in policy["ingress"]:
            taken |= {(component(peer), name, port["port"]) for peer in rule["from"] for port in rule["ports"]}
        for rule in policy["egress"]:
            sent |= {(name, component(peer), port["port"]) for peer in rule.get("to", []) for port in rule["ports"]}
            assert "to" in rule or {port["port"] for port in rule["ports"]} == {53}
    inside = {
        ("node", "nats", 4222),
        ("gateway", "nats", 4222),
        ("command", "nats", 4222),
        ("nats", "nats", 6222),
        ("gateway", "node", 8081),
    }
    assert sent == inside
    assert taken == inside | {("client", "gateway", 8080), ("prometheus", "gateway", 8080), ("prometheus", "node", 8081)}


def test_values_reach_what_they_are_for() -> None:
    """Storage, images, TLS to clients, keys, variables, places and further sources follow the values; so does the job."""
    objects = chart(ALL)
    made = pods(objects)
    (claim,) = objects["StatefulSet", "kinbin-nats"]["spec"]["volumeClaimTemplates"]
    assert (claim["spec"]["storageClassName"], claim["spec"]["resources"]["requests"]["storage"]) == ("fast", "1Ti")
    assert "max_file: 900G" in objects["ConfigMap", "kinbin-nats"]["data"]["nats.conf"]
    assert objects["StatefulSet", "kinbin-node"]["spec"]["replicas"] == 5
    assert environment(made["node"])["KINBIN_API_KEYS_FILE"] == "/etc/kinbin/keys"
    assert environment(made["node"])["KINBIN_SEARCH_SECONDS"] == "60"
    assert environment(made["gateway"])["KINBIN_CLUSTER_ADDRESS"] == "https://status.podIP:8080"
    assert container(made["gateway"])["readinessProbe"]["httpGet"]["scheme"] == "HTTPS"
    assert container(made["command"])["args"] == ["kinbin", "cluster", "reshard", "photos", "--shards", "6", "--scratch", "/scratch"]
    for component, pod in made.items():
        assert pod["spec"]["imagePullSecrets"] == [{"name": "registry"}]
        if component != "command":
            assert pod["spec"]["tolerations"] == [{"operator": "Exists"}]
        if component != "nats":
            assert container(pod)["image"] == "kinbin:9.9.9"
    policy = objects["NetworkPolicy", "kinbin-gateway"]["spec"]
    assert {"ipBlock": {"cidr": "10.0.0.0/8"}} in policy["ingress"][0]["from"]
    assert {"ports": [{"port": 4318}]} in policy["egress"]
    assert not any(kind == "Job" for kind, _ in chart())
    assert yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))["appVersion"] == VERSION


@pytest.mark.parametrize("secret", ["", "our-tls"])
def test_who_installs_it_is_told_what_to_do(secret: str) -> None:
    """The names are those of the objects, and TLS is told where there is some."""
    text = notes(CHART, {"gateways": {"tlsSecret": secret}}, "near", "search")
    names = {(one["kind"].lower(), one["metadata"]["name"]) for one in render(CHART, release="near", namespace="search")}
    assert {("deployment", "near-gateway"), ("service", "near-gateway")} <= names
    assert "-n search exec deploy/near-gateway -- kinbin cluster status" in text
    assert "-n search port-forward service/near-gateway 8080" in text
    assert ("the certificate of our-tls" in text) == bool(secret)


@pytest.mark.parametrize("values", [{}, ALL], ids=["own", "all"])
def test_helm_makes_the_same(tmp_path: Path, values: dict[str, Any]) -> None:
    """Helm itself finds nothing wrong with the chart, and renders what these tests look at."""
    helm = shutil.which("helm")
    if helm is None:
        pytest.skip("the program helm is not here")
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))

    def told(*command: object) -> str:
        done = subprocess.run([str(helm), *map(str, command)], capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    told("lint", "--strict", CHART)
    rendered = told("template", "kinbin", CHART, "--namespace", "search", "--values", tmp_path / "values.yaml")
    made = [one for one in yaml.safe_load_all(rendered) if one]
    assert {(one["kind"], one["metadata"]["name"]): one for one in made} == chart(values)


# --------------------------------------------------------------------------------------- it works


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """Three NATS servers by the chart's configuration and variables, but for ports, names and paths; a password that is a number."""
    folder = tmp_path_factory.mktemp("chart")
    certificate, key = make_certificate(folder, "server")
    shutil.copy(certificate, folder / "ca.crt")
    shutil.copy(certificate, folder / "tls.crt")
    shutil.copy(key, folder / "tls.key")
    objects = chart()
    text = objects["ConfigMap", "kinbin-nats"]["data"]["nats.conf"].replace("/certs/", f"{folder}/").replace("http: 0.0.0.0:8222", "")
    variables = environment(pods(objects)["nats"])
    program = NatsServers(folder / "unused", 1).processes[0].command[0]
    ports, routes = [free_port() for _ in range(3)], [free_port() for _ in range(3)]

    def told(value: str) -> str:
        value = value.replace("secret:nats-password", "12345").replace("secret:routes-password", "67890")
        return re.sub(r"kinbin-nats-(\d)\.kinbin-nats\.search\.svc:6222", lambda found: f"localhost:{routes[int(found[1])]}", value)

    processes = []
    for number in range(3):
        own = text.replace("store_dir: /nats", f"store_dir: {folder}/store-{number}").replace("0.0.0.0", "127.0.0.1")
        own = own.replace(":4222", f":{ports[number]}").replace(":6222", f":{routes[number]}")
        (folder / f"{number}.conf").write_text(own, encoding="utf-8")
        environment_of = {name: told(value) for name, value in variables.items()} | {"SERVER": f'"kinbin-nats-{number}"'}
        processes.append(Process([program, "-c", str(folder / f"{number}.conf")], folder / f"{number}.log", environment_of))
    try:
        for process in processes:
            process.start()
        yield folder, ",".join(f"tls://localhost:{port}" for port in ports)
    finally:
        for process in processes:
            process.stop()


@pytest.mark.slow
async def test_the_servers_of_the_chart_hold_the_log(secured: tuple[Path, str]) -> None:
    """With TLS, the password of the secret and each other's, the three store an edit three times, on disk each time."""
    folder, addresses = secured
    (folder / "nats-password").write_text("12345\n", encoding="utf-8")
    settings = ClusterSettings(
        nats=addresses, nats_user="kinbin", nats_password_file=folder / "nats-password", nats_ca_file=folder / "ca.crt", nats_replicas=3
    )
    async with await Connection.open(settings, "test", seconds=60) as connection:
        log = Log(connection)
        await log.ensure_stream("0" * 12, 0, seconds=60)
        assert (await connection.js.stream_info("KB-" + "0" * 12 + "-0")).config.num_replicas == 3
    assert "sync_interval: always" in (folder / "0.conf").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_job_reshards_with_its_scratch_volume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the job runs cuts a collection into other shards, and writes nowhere but into the folder that stands for its volume."""
    arguments = container(pods(chart(RESHARD))["command"])["args"]
    scratch, elsewhere = tmp_path / "scratch", tmp_path / "elsewhere"
    scratch.mkdir()
    elsewhere.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(elsewhere))
    seen: set[str] = set()
    made = os.mkdir

    def watched(path: Any, *given: Any, **named: Any) -> None:
        seen.add(os.fspath(path))
        made(path, *given, **named)

    monkeypatch.setattr(os, "mkdir", watched)
    extra = {"KINBIN_CLUSTER_PUBLISH_SECONDS": "3", "KINBIN_CLUSTER_BEAT_SECONDS": "0.1"}
    with DevCluster(tmp_path / "cluster", nodes=2, servers=1, extra=extra) as cluster, Client(cluster.address) as client:
        client.create_collection("photos", kernel="minmax", dim=8)
        client.collection("photos").add([f"i{row}" for row in range(300)], np.random.default_rng(3).random((300, 8), dtype=np.float32))
        command = [word if word != "/scratch" else str(scratch) for word in arguments[1:]]
        answer = CliRunner().invoke(app, command, env=cluster.environment)
        assert answer.exit_code == 0, answer.output
        assert client.collection("photos").stats()["count"] == 300
        assert any(path.startswith(str(scratch)) for path in seen)
    assert not any(path.startswith(str(elsewhere)) for path in seen)
    assert list(scratch.iterdir()) == []
