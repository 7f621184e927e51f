"""Examples of deployments: they are of this version, confined, name what exists, and their own programs take them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from helm_subset import notes, render
from kinbin_service.collection_metrics import COLLECTION_METRICS
from kinbin_service.connections import DETAILS
from kinbin_service.gate import OPEN_PATHS
from kinbin_service.metrics import METRICS
from kinbin_service.problems import CODES
from kinbin_service.settings import Settings
from self_signed import make_certificate

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
MONITORING = DEPLOY / "monitoring"
CHART = DEPLOY / "helm/kinbin"
VERSION = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


def program(name: str) -> str:
    """The path of a program; the test is skipped where it is missing."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if found is None:
        pytest.skip(f"the program {name} is not here")
    return found


def take(*command: object) -> str:
    """What a program prints that ends with success."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def read(path: Path) -> Any:
    """A YAML file of one document."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))


# ----------------------------------------------------------------------------------- Prometheus, Grafana

SAMPLES = {
    f"kinbin_{one.name}{suffix}"
    for one in (*METRICS, *COLLECTION_METRICS)
    for suffix in {"counter": ["_total"], "gauge": [""], "histogram": ["_bucket", "_sum", "_count"]}[one.kind]
}


def expressions() -> list[str]:
    """Everything that the dashboard and the alerts ask for."""
    dashboard = json.loads((MONITORING / "grafana/dashboards/kinbin.json").read_text(encoding="utf-8"))
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    return asked + [rule["expr"] for group in read(MONITORING / "alerts.yml")["groups"] for rule in group["rules"]]


def test_dashboard_and_alerts_ask_for_metrics_that_are_there() -> None:
    """Every name in an expression is a sample of /metrics, every code a code, and the dashboard leaves no metric out of sight."""
    asked = {name for text in expressions() for name in re.findall(r"kinbin_\w+", text)}
    assert asked <= SAMPLES
    codes = {code for text in expressions() for codes in re.findall(r'code=~"([^"]*)"', text) for code in codes.split("|")}
    assert codes <= CODES.keys()
    shown = {one.name for one in (*METRICS, *COLLECTION_METRICS) if any(name.startswith(f"kinbin_{one.name}") for name in asked)}
    assert {one.name for one in METRICS} <= shown


def test_the_dashboard_lies_where_grafana_is_told_to_look() -> None:
    """Provisioning, volumes and the source of data name each other."""
    services = read(DEPLOY / "compose.monitoring.yaml")["services"]
    mounted = dict(volume.split(":")[:2] for volume in services["grafana"]["volumes"])
    (provider,) = read(MONITORING / "grafana/provisioning/dashboards/kinbin.yaml")["providers"]
    assert mounted["./monitoring/grafana/dashboards"] == provider["options"]["path"]
    assert mounted["./monitoring/grafana/provisioning"] == "/etc/grafana/provisioning"
    (source,) = read(MONITORING / "grafana/provisioning/datasources/prometheus.yaml")["datasources"]
    dashboard = json.loads((MONITORING / "grafana/dashboards/kinbin.json").read_text(encoding="utf-8"))
    assert {target["datasource"]["uid"] for panel in dashboard["panels"] for target in panel["targets"]} == {source["uid"]}
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    for path in (path for path in mounted if path.startswith("./")):
        assert (DEPLOY / path).exists()


def test_monitoring_is_for_this_machine_only_and_confined() -> None:
    """Ports are loopback's, capabilities are dropped, images have versions, and nothing is reached without a password."""
    for name, service in read(DEPLOY / "compose.monitoring.yaml")["services"].items():
        if name == "kinbin":  # it adds to that of compose.yaml
            assert service.keys() == {"environment", "volumes"}
            continue
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert re.search(r":v?\d+\.\d+\.\d+$", service["image"])
    assert "GRAFANA_PASSWORD:?" in (DEPLOY / "compose.monitoring.yaml").read_text(encoding="utf-8")


def test_prometheus_asks_the_service_where_it_is() -> None:
    """It asks the container by its name and port for /metrics, with the key that compose puts there."""
    (job,) = read(MONITORING / "prometheus.yml")["scrape_configs"]
    services = read(DEPLOY / "compose.monitoring.yaml")["services"] | read(DEPLOY / "compose.yaml")["services"]
    ((target,),) = [config["targets"] for config in job["static_configs"]]
    name, port = target.split(":")
    assert name in services
    assert services[name]["ports"][0].endswith(f":{port}")
    (config,) = services["prometheus"]["configs"]
    assert config["target"] == f"/etc/prometheus/{job['authorization']['credentials_file']}"


def test_the_service_that_is_monitored_knows_keys_of_roles() -> None:
    """Beside Prometheus it reads a file of keys, in a folder that is mounted for reading only, and Prometheus is given none but its own."""
    document = read(DEPLOY / "compose.monitoring.yaml")
    service = document["services"]["kinbin"]
    (mount,) = service["volumes"]
    (variable,) = service["environment"]
    assert variable.removeprefix("KINBIN_").lower() in Settings.model_fields
    assert Path(service["environment"][variable]).parent == Path(mount["target"])
    assert mount["read_only"] is True
    assert document["configs"]["metrics-key"]["content"].startswith("${METRICS_KEY:?")


def test_overload_is_asked_for_where_it_is_counted() -> None:
    """No expression asks one metric for a code that only the other one has."""
    asked = [found for text in expressions() for found in re.findall(r'(kinbin_\w+)\{code=~?"([^"]*)"', text)]
    assert {name for name, _ in asked} >= {"kinbin_refusals_total", "kinbin_connections_closed_total"}
    for name, codes in asked:
        of_connections = set(codes.split("|")) & DETAILS.keys()
        assert bool(of_connections) == (name == "kinbin_connections_closed_total"), (name, codes)


def test_prometheus_takes_its_configuration(tmp_path: Path) -> None:
    """promtool finds nothing wrong with the configuration and the alerts, and these go off when they have to."""
    promtool = program("promtool")
    folder = shutil.copytree(MONITORING, tmp_path / "monitoring")
    (folder / "metrics-key").write_text("key")
    take(promtool, "check", "config", folder / "prometheus.yml")
    take(promtool, "test", "rules", folder / "alerts.test.yml")


# ------------------------------------------------------------------------------------------ Kubernetes


def manifests() -> list[dict[str, Any]]:
    """The objects of the plain manifests."""
    return list(yaml.safe_load_all((DEPLOY / "kubernetes/kinbin.yaml").read_text(encoding="utf-8")))


def of_kind(objects: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """The one object of this kind."""
    (found,) = [one for one in objects if one["kind"] == kind]
    return found


@pytest.mark.parametrize("objects", [manifests(), render(CHART)], ids=["manifests", "chart"])
def test_the_pod_is_confined_and_keeps_its_data(objects: list[dict[str, Any]]) -> None:
    """No root, no writable files but data and /tmp, no capabilities, no token; one replica, with a volume of its own; nothing goes out."""
    stateful = of_kind(objects, "StatefulSet")["spec"]
    pod = stateful["template"]["spec"]
    (container,) = pod["containers"]
    assert stateful["replicas"] == 1
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"] | {"runAsNonRoot": True, "runAsUser": 10001, "fsGroup": 10001} == pod["securityContext"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    confined = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    assert container["securityContext"] == confined
    (claim,) = stateful["volumeClaimTemplates"]
    names = {volume["name"] for volume in pod["volumes"]} | {claim["metadata"]["name"]}
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == names
    assert {path for path, mount in mounts.items() if not mount.get("readOnly")} == {"/data", "/tmp"}
    assert mounts["/data"]["name"] == claim["metadata"]["name"]
    policy = of_kind(objects, "NetworkPolicy")["spec"]
    assert (policy["egress"], policy["policyTypes"]) == ([], ["Ingress", "Egress"])


@pytest.mark.parametrize("objects", [manifests(), render(CHART)], ids=["manifests", "chart"])
def test_labels_ports_probes_and_variables_fit(objects: list[dict[str, Any]]) -> None:
    """Selectors select the pod, ports lead to it, probes ask open paths, variables are settings, and it may drain before it is killed."""
    stateful = of_kind(objects, "StatefulSet")["spec"]
    labels, pod = stateful["template"]["metadata"]["labels"], stateful["template"]["spec"]
    (container,) = pod["containers"]
    service, policy = of_kind(objects, "Service"), of_kind(objects, "NetworkPolicy")["spec"]
    for selector in (stateful["selector"]["matchLabels"], service["spec"]["selector"], policy["podSelector"]["matchLabels"]):
        assert selector == labels
    assert stateful["serviceName"] == service["metadata"]["name"]
    assert pod["serviceAccountName"] == of_kind(objects, "ServiceAccount")["metadata"]["name"]
    (port,) = container["ports"]
    assert service["spec"]["ports"][0]["targetPort"] == port["name"]
    assert policy["ingress"][0]["ports"] == [{"protocol": "TCP", "port": port["containerPort"]}]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["path"] in OPEN_PATHS
        assert container[probe]["httpGet"]["port"] == port["name"]
    variables = {variable["name"].removeprefix("KINBIN_").lower(): variable["value"] for variable in container["env"]}
    settings = Settings(**variables)
    assert settings.has_keys
    assert pod["terminationGracePeriodSeconds"] > settings.drain_seconds
    assert container["image"] == f"kinbin:{VERSION}"


def without_instance(value: Any) -> Any:
    """A value without the labels that only releases have."""
    if isinstance(value, dict):
        return {name: without_instance(one) for name, one in value.items() if name != "app.kubernetes.io/instance"}
    return [without_instance(one) for one in value] if isinstance(value, list) else value


def test_the_chart_is_what_the_manifests_are() -> None:
    """With its own values the chart makes the objects of the manifests, but for the labels of a release."""
    kinds = {one["kind"] for one in manifests()}
    for kind in kinds:
        assert without_instance(of_kind(render(CHART), kind)) == of_kind(manifests(), kind)
    assert len(render(CHART)) == len(kinds)
    assert read(CHART / "Chart.yaml")["appVersion"] == read(CHART / "Chart.yaml")["version"] == VERSION


VALUES: dict[str, Any] = {
    "tlsSecret": "certificate", "env": {"KINBIN_SEARCH_SECONDS": 60}, "storage": {"className": "fast", "size": "1Ti"}, "workers": 8,
    "image": {"tag": "9.9.9"}, "imagePullSecrets": [{"name": "registry"}],
    "nodeSelector": {"disk": "nvme"}, "tolerations": [{"operator": "Exists"}], "affinity": {"nodeAffinity": {}},
    "networkPolicy": {"enabled": False},
}  # fmt: skip


def test_the_values_of_the_chart_reach_what_they_are_for() -> None:
    """TLS, variables, storage, image, places of pods and the policy follow the values."""
    objects = render(CHART, VALUES, release="mine")
    assert {one["kind"] for one in objects} == {"StatefulSet", "Service", "ServiceAccount"}
    stateful = of_kind(objects, "StatefulSet")
    pod = stateful["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    variables = {variable["name"]: variable["value"] for variable in container["env"]}
    assert variables["KINBIN_SEARCH_SECONDS"] == "60"
    assert variables["KINBIN_WORKERS"] == "8"
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert variables["KINBIN_TLS_CERT_FILE"].startswith(mounted["tls"])
    assert container["livenessProbe"]["httpGet"]["scheme"] == "HTTPS"
    assert container["image"] == "kinbin:9.9.9"
    (claim,) = stateful["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["storageClassName"] == "fast"
    assert claim["spec"]["resources"]["requests"]["storage"] == "1Ti"
    assert (pod["nodeSelector"], pod["tolerations"], pod["affinity"]) == (VALUES["nodeSelector"], VALUES["tolerations"], VALUES["affinity"])
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert stateful["metadata"]["name"] == "mine"


def test_the_policy_takes_more_sources_and_ways_out() -> None:
    """What the values add stands beside what is always there."""
    added: dict[str, Any] = {"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "egress": [{"ports": [{"port": 4318}]}]}
    policy = of_kind(render(CHART, {"networkPolicy": added}), "NetworkPolicy")["spec"]
    own = of_kind(manifests(), "NetworkPolicy")["spec"]
    assert policy["ingress"][0]["from"] == own["ingress"][0]["from"] + added["from"]
    assert policy["ingress"][0]["ports"] == own["ingress"][0]["ports"]
    assert policy["egress"] == added["egress"]


def test_who_installs_the_chart_is_told_what_to_do() -> None:
    """The service that is named is there."""
    text = notes(CHART, release="near", namespace="search")
    assert "-n search port-forward service/near 8080" in text
    assert ("Service", "near") in {(one["kind"], one["metadata"]["name"]) for one in render(CHART, release="near", namespace="search")}


@pytest.mark.parametrize("values", [{}, VALUES], ids=["own", "all"])
def test_helm_makes_the_same(tmp_path: Path, values: dict[str, Any]) -> None:
    """Helm itself finds nothing wrong with the chart, and renders what these tests look at."""
    helm = program("helm")
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    take(helm, "lint", "--strict", CHART)
    rendered = take(helm, "template", "kinbin", CHART, "--values", tmp_path / "values.yaml")
    made = {one["kind"]: one for one in yaml.safe_load_all(rendered) if one}
    assert made == {one["kind"]: one for one in render(CHART, values)}


def test_kubectl_builds_the_manifests() -> None:
    """`kubectl kustomize` makes the objects of the manifests, each once."""
    built = list(yaml.safe_load_all(take(program("kubectl"), "kustomize", DEPLOY / "kubernetes")))
    assert sorted(one["kind"] for one in built) == sorted(one["kind"] for one in manifests())


# --------------------------------------------------------------------------------------- systemd, nginx


@pytest.mark.parametrize(
    ("kept", "started"), [("kinbin.service", "kinbin.service"), ("kinbin-cluster@.service", "kinbin-cluster@node.service")]
)
def test_systemd_takes_the_unit(kept: str, started: str, tmp_path: Path) -> None:
    """systemd-analyze finds nothing wrong with the unit, and calls it confined."""
    analyze = program("systemd-analyze")
    text = (DEPLOY / "systemd" / kept).read_text(encoding="utf-8")
    unit = tmp_path / started
    unit.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", text, flags=re.MULTILINE))
    told = take(analyze, "verify", "--man=no", "--recursive-errors=no", unit)
    assert started not in told
    level = re.search(rf"Overall exposure level for {started}: ([\d.]+)", take(analyze, "security", "--offline=true", unit))
    assert level is not None
    assert float(level[1]) < 2.5


@pytest.mark.parametrize("name", ["kinbin.service", "kinbin-cluster@.service"])
def test_the_unit_names_what_there_is(name: str) -> None:
    """Its variables are settings of the server or of numba, and it may drain before it is killed."""
    text = (DEPLOY / "systemd" / name).read_text(encoding="utf-8")
    settings = {name.removeprefix("KINBIN_").lower() for name in re.findall(r"\b(KINBIN_\w+)=", text)}
    assert settings <= Settings.model_fields.keys()
    stop = re.search(r"^TimeoutStopSec=(\d+)$", text, re.MULTILINE)
    assert stop is not None
    assert int(stop[1]) > Settings.model_fields["drain_seconds"].default


def test_nginx_takes_the_example(tmp_path: Path) -> None:
    """nginx -t finds nothing wrong with the example, inside of a configuration that has nothing else."""
    nginx = program("nginx")
    certificate, key = make_certificate(tmp_path, "kinbin")
    text = (DEPLOY / "nginx/kinbin.conf").read_text(encoding="utf-8")
    text = text.replace("/etc/nginx/tls/kinbin.pem", str(certificate)).replace("/etc/nginx/tls/kinbin.key", str(key))
    (tmp_path / "kinbin.conf").write_text(
        text.replace("listen 443", "listen 127.0.0.1:20443").replace("listen [::]:443", "listen [::1]:20443")
    )
    paths = "".join(f"{kind}_temp_path {tmp_path}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    main = f"pid {tmp_path}/pid; error_log stderr; events {{}} http {{ access_log off; {paths} include {tmp_path}/kinbin.conf; }}"
    (tmp_path / "nginx.conf").write_text(main)
    assert "test is successful" in take(nginx, "-t", "-c", tmp_path / "nginx.conf", "-e", "stderr")


def test_nginx_waits_for_work_of_minutes() -> None:
    """What has no limit of time or size in the service has its location, without buffers and with an hour; what has stays outside."""
    text = (DEPLOY / "nginx/kinbin.conf").read_text(encoding="utf-8")
    ((pattern, inside),) = re.findall(r"location ~ (\S+) \{(.*?)\n    \}", text, re.DOTALL)
    for line in ("client_max_body_size 0;", "proxy_request_buffering off;", "proxy_buffering off;", "proxy_read_timeout 3600s;"):
        assert line in inside, line
    words = ("index", "snapshots", "snapshots/x/verify", "compact", "duplicates", "map", "rebuild", "recall", "tune")
    for path in ("/index", "/v1/restore", *(f"/v1/collections/a/{word}" for word in words)):
        assert re.search(pattern, path), path
    for path in ("/query", "/v1/collections", "/v1/collections/a", "/v1/collections/a/query", "/v1/collections/a/indexes"):
        assert not re.search(pattern, path), path


def test_the_limits_of_nginx_are_those_of_the_service() -> None:
    """It lets the largest body through, and keeps connections to the service for a shorter time than the service does."""
    text = (DEPLOY / "nginx/kinbin.conf").read_text(encoding="utf-8")
    fields = Settings.model_fields
    body, kept = re.search(r"client_max_body_size (\d+)m;", text), re.search(r"keepalive 64;\s+keepalive_timeout (\d+)s;", text)
    assert body is not None
    assert int(body[1]) << 20 == max(fields["max_index_body_bytes"].default, fields["max_query_body_bytes"].default)
    assert kept is not None
    assert int(kept[1]) < fields["keep_alive_seconds"].default
    read_timeout = re.search(r"proxy_read_timeout (\d+)s;", text)
    assert read_timeout is not None
    assert int(read_timeout[1]) > fields["deadline_seconds"].default + fields["search_seconds"].default
