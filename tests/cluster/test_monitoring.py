"""Alerts and the dashboard of a cluster: they ask for metrics that are there, show all of them, and go off when they have to."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from kinbin_cluster.measures import GATEWAY_METRICS, NODE_METRICS

MONITORING = Path(__file__).resolve().parents[2] / "deploy/monitoring"
SAMPLES = {f"kinbin_{one.name}{'_total' if one.kind == 'counter' else ''}": one for one in (*NODE_METRICS, *GATEWAY_METRICS)}
LABELS = {label for one in SAMPLES.values() for label in one.labels} | {"instance", "job"}


def dashboard() -> list[dict[str, Any]]:
    """Its panels."""
    text = (MONITORING / "grafana/dashboards/kinbin-cluster.json").read_text(encoding="utf-8")
    return json.loads(text)["panels"]  # type: ignore[no-any-return]


def rules() -> list[dict[str, Any]]:
    """The alerts."""
    groups = yaml.safe_load((MONITORING / "cluster-alerts.yml").read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_what_is_asked_for_is_there_and_all_is_shown() -> None:
    """Every name in an expression is a metric of a node or gateway, every label one of its labels, and the dashboard has all of them."""
    shown = [target["expr"] for panel in dashboard() for target in panel["targets"]]
    for text in (*shown, *(rule["expr"] for rule in rules())):
        names = set(re.findall(r"kinbin_\w+", text))
        assert names <= SAMPLES.keys(), text
        for group in re.findall(r"by \(([^)]*)\)", text):
            assert set(group.split(", ")) <= {label for name in names for label in SAMPLES[name].labels} | {"instance"}, text
        for name, selector in re.findall(r"(kinbin_\w+)\{(\w+)=", text):
            assert selector in SAMPLES[name].labels, text
    assert {name for text in shown for name in re.findall(r"kinbin_\w+", text)} == SAMPLES.keys()
    assert len({panel["id"] for panel in dashboard()}) == len(dashboard())


def test_counters_are_rates_and_gauges_are_not() -> None:
    """A sum that only rises is asked for by its rate or increase, and nothing else is."""
    for text in (*(target["expr"] for panel in dashboard() for target in panel["targets"]), *(rule["expr"] for rule in rules())):
        for before, name in re.findall(r"(rate\(|increase\()?(kinbin_\w+)", text):
            assert bool(before) == (SAMPLES[name].kind == "counter"), text


def test_each_alert_is_tested_and_says_what_to_do() -> None:
    """Each goes off in the tests of promtool at one time, and is seen not to at another or is one that needs no time."""
    (test,) = yaml.safe_load((MONITORING / "cluster-alerts.test.yml").read_text(encoding="utf-8"))["tests"]
    off = {one["alertname"] for one in test["alert_rule_test"] if one["exp_alerts"]}
    assert off == {rule["alert"] for rule in rules()}
    for rule in rules():
        assert rule["annotations"].keys() == {"summary", "action"}
        assert rule["labels"]["severity"] in {"warning", "critical"}


def test_prometheus_takes_configuration_and_alerts(tmp_path: Path) -> None:
    """promtool finds nothing wrong with either, and every alert goes off when it has to, and not before."""
    promtool = shutil.which("promtool", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if promtool is None:
        pytest.skip("the program promtool is not here")
    folder = shutil.copytree(MONITORING, tmp_path / "monitoring")
    for name in ("metrics-key", "ca.crt"):
        (folder / name).write_text("key")
    for command in (["check", "config", "prometheus.cluster.yml"], ["test", "rules", "cluster-alerts.test.yml"]):
        done = subprocess.run([promtool, *command], cwd=folder, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
