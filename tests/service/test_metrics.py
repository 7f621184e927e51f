"""Metrics: what they count, what their labels may hold, and that several workers answer as one."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import ssl
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

import kinbin
from kinbin_service import connections
from kinbin_service.collection_metrics import COLLECTION_METRICS
from kinbin_service.expiry import expiry_of
from kinbin_service.metrics import METRICS, Metrics
from self_signed import make_certificate
from service_app import App, HeldDatabase, eventually, running_app

ITEMS = {"items": [{"id": f"secret-{i}", "vector": [1.0, i, 3.0], "payload": {"p": "hidden"}} for i in range(5)]}

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def read(text: str) -> Samples:
    """Samples by name and sorted labels."""
    families = text_string_to_metric_families(text)
    return {(sample.name, tuple(sorted(sample.labels.items()))): sample.value for family in families for sample in family.samples}


async def metrics(app: App) -> Samples:
    """What /metrics tells; collections are read anew."""
    app.service.stored._read_at = -1e9
    response = await app.client.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    return read(response.text)


def value(samples: Samples, name: str, **labels: str) -> float:
    """One sample; 0 if there is none."""
    return samples.get((f"kinbin_{name}", tuple(sorted(labels.items()))), 0.0)


async def test_requests_and_refusals_are_counted_by_route(app: App) -> None:
    """Requests count by method, route and status, with their times; refusals by code; unknown routes and methods are one label."""
    await app.post("/index", ITEMS)
    await app.post("/v1/collections/secret-name/query", {"vector": [1, 2, 3]}, status=404)
    await app.get("/secret-path", status=404)
    await app.client.request("BREW", "/secret-path")
    told = await metrics(app)
    assert value(told, "requests_total", method="POST", route="/index", status="200") == 1
    assert value(told, "requests_total", method="POST", route="/v1/collections/{name}/query", status="404") == 1
    assert value(told, "requests_total", method="other", route="other", status="404") == 2
    assert value(told, "request_seconds_count", method="POST", route="/index") == 1
    assert value(told, "refusals_total", code="collection_not_found") == 1
    assert value(told, "refusals_total", code="not_found") == 2
    assert "secret" not in str(told)
    assert "hidden" not in str(told)


async def test_answers_are_counted_by_what_is_certain_of_them(app: App) -> None:
    """Each answer counts once, those of a batch too, by its mode and by whether its recall is certified, or why not."""
    await app.post("/index", ITEMS)
    one = await app.post("/query", {"vector": [1, 2, 3], "k": 2})
    await app.post("/query", {"queries": [[1, 2, 3], [3, 2, 1]], "mode": "exact", "k": 2})
    told = await metrics(app)
    assert value(told, "answers_total", mode="exact", bound="certified") == 2 + (one["mode"] == "exact")
    assert sum(number for (name, _), number in told.items() if name == "kinbin_answers_total") == 3


async def test_commits_and_collections_are_told(app: App) -> None:
    """Commits count with their times; a collection tells items, rows, fresh rows, runs, links, bytes and commits, a field its own."""
    before = value(await metrics(app), "commit_seconds_count")
    await app.post("/index", ITEMS)
    await app.put("/v1/collections/two", {"fields": {"a": {"dim": 2}, "b": {"dim": 2}}})
    await app.post("/v1/collections/two/index", {"items": [{"id": "x", "vectors": {"a": [1, 2], "b": [3, 4]}}]})
    told = await metrics(app)
    assert value(told, "commit_seconds_count") >= before + 2
    assert 0 < value(told, "commit_seconds_sum") < 10
    default = {"collection": "default", "field": ""}
    assert value(told, "collection_items", **default) == value(told, "collection_rows", **default) == 5
    assert value(told, "collection_fresh_rows", **default) == 5
    assert value(told, "collection_bytes", **default) > 4096
    assert value(told, "collection_commits_total", **default) >= 1
    assert ("kinbin_collection_linked_ratio", tuple(default.items())) in told
    assert value(told, "collection_items", collection="two", field="") == 1
    assert value(told, "collection_rows", collection="two", field="b") == 1
    assert value(told, "collections") == 2
    assert value(told, "collections_unread") == 0


async def test_disk_snapshots_and_certificate_are_told(tmp_path: Path) -> None:
    """Free disk where collections and snapshots lie, when the newest snapshot was begun, and the end of the certificate."""
    certificate, key = make_certificate(tmp_path, "here")
    kept = tmp_path / "elsewhere" / "kept"
    async with running_app(tmp_path / "data", tls_cert_file=certificate, tls_key_file=key, snapshots_dir=kept) as app:
        for name in ("with", "without"):
            await app.put(f"/v1/collections/{name}", {"dim": 2})
        told = await metrics(app)
        assert ("kinbin_snapshot_time_seconds", (("collection", "with"),)) not in told
        free = shutil.disk_usage(tmp_path).free
        for place in ("collections", "snapshots"):
            assert abs(value(told, "disk_free_bytes", place=place) - free) < 1 << 30
        before = time.time()
        await app.post("/v1/collections/with/snapshots", {}, status=201)
        made = await app.post("/v1/collections/with/snapshots", {}, status=201)
        told = await metrics(app)
    newest = value(told, "snapshot_time_seconds", collection="with")
    assert before - 1 < newest <= time.time()
    assert made["id"].startswith(f"{datetime.fromtimestamp(newest, UTC):%Y%m%dT%H%M%S}")
    assert ("kinbin_snapshot_time_seconds", (("collection", "without"),)) not in told
    ends = value(told, "certificate_expires_seconds") - time.time()
    assert 86_400 < ends <= 2 * 86_400 + 60


def test_the_end_of_a_certificate_is_read(tmp_path: Path) -> None:
    """Of every kind of key, with a chain behind it and text before it, as openssl says; of what is no certificate it is not told."""
    for kind in ("ec", "rsa"):
        certificate, _ = make_certificate(tmp_path, kind, kind=kind)
        said = subprocess.run(["openssl", "x509", "-enddate", "-noout", "-in", certificate], check=True, capture_output=True, text=True)
        right = ssl.cert_time_to_seconds(said.stdout.partition("=")[2].strip())
        assert expiry_of(certificate) == right
        chain = tmp_path / f"{kind}-chain.pem"
        chain.write_text("some text\n" + certificate.read_text() + certificate.read_text())
        assert expiry_of(chain) == right
        content = certificate.read_text()
        empty = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"
        for number, bad in enumerate((content[:300], content.replace("M", "A"), "", empty)):
            (tmp_path / f"bad-{number}").write_text(bad)
            assert expiry_of(tmp_path / f"bad-{number}") is None
    assert expiry_of(tmp_path / "none.pem") is None


async def test_only_the_first_collections_are_told_by_name(tmp_path: Path) -> None:
    """Collections beyond the setting are a number, so that many of them do not open all files nor fill the answer."""
    async with running_app(tmp_path / "data", metrics_collections=1) as app:
        for name in ("a", "b", "c"):
            await app.put(f"/v1/collections/{name}", {"dim": 2})
        told = await metrics(app)
    assert {dict(labels).get("collection") for (name, labels) in told if name == "kinbin_collection_items"} == {"a"}
    assert (value(told, "collections"), value(told, "collections_unread")) == (3, 2)


async def test_damaged_collections_are_counted(tmp_path: Path) -> None:
    """Of a collection whose file is gone nothing is told but that there is one, and of the others everything."""
    async with running_app(tmp_path / "data") as app:
        for name in ("a", "b"):
            await app.put(f"/v1/collections/{name}", {"dim": 2})
        assert value(await metrics(app), "collections_damaged") == 0
    (tmp_path / "data" / "collections" / "a" / "data.mdb").unlink()
    async with running_app(tmp_path / "data") as app:
        told = await metrics(app)
    assert (value(told, "collections"), value(told, "collections_unread"), value(told, "collections_damaged")) == (2, 1, 1)
    assert value(told, "collection_items", collection="b", field="") == 0


async def test_files_that_are_taken_from_a_running_server_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Searches still answer, so nobody else would notice before it is restarted; the log tells of it then, too."""
    async with running_app(tmp_path / "data") as app:
        for name in ("a", "b"):
            await app.put(f"/v1/collections/{name}", {"dim": 3})
            await app.post(f"/v1/collections/{name}/index", ITEMS)
        (tmp_path / "data" / "collections" / "a" / "data.mdb").unlink()
        told = await metrics(app)
        assert (value(told, "collections_unread"), value(told, "collections_damaged")) == (0, 1)
        assert value(told, "collection_items", collection="a", field="") == 5
        caplog.clear()
    assert [vars(record)["fields"]["collection"] for record in caplog.records if "are lost" in record.message] == ["a"]


async def test_the_queue_is_told_while_it_is_full(tmp_path: Path) -> None:
    """/metrics answers while all threads are held, and tells how many requests run and wait."""
    async with running_app(tmp_path / "data", threads=1, queue_length=3) as app:
        await app.post("/index", ITEMS)
        held = HeldDatabase(app.service.database)
        app.service.database = held  # type: ignore[assignment]
        asked = [asyncio.create_task(app.client.post("/query", json={"vector": [1, 2, 3]})) for _ in range(6)]
        await eventually(lambda: sum(one.done() for one in asked) == 2)
        told = await metrics(app)
        held.gate.set()
        await asyncio.gather(*asked)
    assert (value(told, "requests_running"), value(told, "requests_waiting"), value(told, "workers_ready")) == (1, 3, 1)
    assert value(told, "refusals_total", code="overloaded") == 2


def report(failures: int, in_a_row: int) -> dict[str, Any]:
    """What the library reports of background work."""
    return {"failures": failures, "in_a_row": in_a_row, "last_failure": None}


def test_background_failures_add_up() -> None:
    """Failures of all collections and fields are one count for each work, which never falls; failing ones are a number."""

    class Reporting:
        told: dict[str, dict[str, Any]]

        def measures(self) -> dict[str, float]:
            return {}

        def failures(self) -> dict[str, dict[str, Any]]:
            return self.told

        def closed(self) -> dict[str, int]:
            return {"head_timeout": 3}

    counted, service = Metrics(), Reporting()
    service.told = {"a": {"upkeep": report(2, 1), "links": report(0, 0)}, "b": {"upkeep colour": report(3, 0)}}
    counted.sample(service)
    counted.sample(service)
    service.told = {"a": {"upkeep": report(4, 1), "links": report(1, 1)}}
    counted.sample(service)
    told = read(counted.text().decode())
    assert value(told, "background_failures_total", work="upkeep") == 5
    assert value(told, "background_failures_total", work="links") == 1
    assert value(told, "background_failing", work="upkeep") == 1
    assert value(told, "connections_closed_total", code="head_timeout") == 3


async def test_every_metric_of_the_tables_is_there_and_no_other(app: App) -> None:
    """/metrics has just the metrics of the two tables, each with its kind, its text and its labels."""
    await app.post("/index", ITEMS)
    await app.post("/query", {"vector": [1, 2, 3]})
    await app.get("/secret-path", status=404)
    await app.post("/v1/collections/default/snapshots", {}, status=201)
    app.service.metrics.sample(app.service)
    connections.closed["head_timeout"] += 1
    text = (await app.client.get("/metrics")).text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    tables = {f"kinbin_{one.name}": one for one in (*METRICS, *COLLECTION_METRICS)}
    assert families.keys() == tables.keys()
    for name, one in tables.items():
        assert families[name].type == one.kind
        assert one.text[1:] in families[name].documentation
        assert {label for sample in families[name].samples for label in sample.labels} - {"le"} == set(one.labels), name


async def test_metrics_need_the_key(tmp_path: Path) -> None:
    """Where a key is set, /metrics is refused without it."""
    async with running_app(tmp_path / "data", api_key="right") as app:
        assert (await app.get("/metrics", status=401))["code"] == "unauthorized"
        assert (await app.client.get("/metrics", headers={"x-api-key": "right"})).status_code == 200


def test_a_watcher_of_commits_that_fails_harms_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What a watcher raises is logged; the commit stands, other watchers are told, and none is told after it ended."""
    times: list[float] = []

    def broken(seconds: float) -> None:
        raise RuntimeError("no room to count")

    ends = [kinbin.watch_commits(broken), kinbin.watch_commits(times.append)]
    try:
        with kinbin.open(tmp_path / "data") as database:
            collection = database.create_collection("a", dim=2)
            collection.add(["x"], [[1, 2]])
            assert collection.count() == 1
            counted = len(times)
            for end in ends:
                end()
            collection.add(["y"], [[2, 2]])
    finally:
        for end in ends:
            end()
    assert counted == len(times) >= 1
    assert all(0 < seconds < 10 for seconds in times)
    assert "no room to count" in caplog.text
    with pytest.raises(kinbin.InvalidInput, match="watcher is a function of seconds, not int"):
        kinbin.watch_commits(3)  # type: ignore[arg-type]


SHARING = """
import sys
from kinbin_service.metrics import Metrics
metrics = Metrics()
class Service:
    def measures(self): return {"requests_waiting": 2}
    def failures(self): return {}
    def closed(self): return {}
metrics.sample(Service())
metrics.request("GET", "/livez", 200, 0.003)
print(metrics.text().decode() if sys.argv[1] == "tell" else "", flush=True)
sys.stdin.readline()
"""


def test_workers_tell_the_sums_of_all_and_forget_what_dead_ones_held(tmp_path: Path) -> None:
    """Counts of all workers add up, those of killed ones too; what a killed worker held just then is held no more."""

    def start(mode: str) -> subprocess.Popen[str]:
        environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
        return subprocess.Popen(
            [sys.executable, "-c", SHARING, mode], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    others = [start("count") for _ in range(2)]
    for other in others:
        assert other.stdout is not None
        assert other.stdout.readline() == "\n"
    others[0].send_signal(signal.SIGKILL)
    others[0].communicate(timeout=20)
    text, _ = start("tell").communicate("\n", 60)
    others[1].communicate("\n", 60)
    told = read(text)
    assert value(told, "requests_total", method="GET", route="/livez", status="200") == 3
    assert value(told, "request_seconds_bucket", method="GET", route="/livez", le="0.005") == 3
    assert value(told, "requests_waiting") == 4
