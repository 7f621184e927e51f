"""A killed server: from starting it again until its first correct answer, with every acknowledged write there."""

from __future__ import annotations

import subprocess
import threading
import time
from typing import Any

import httpx
from numpy.typing import NDArray

import kinbin
from common import SPREAD, K, Options, data_set, ids_of, run, spread, workspace
from databases import fill
from report import paragraphs, table
from servers import PATIENCE, serving

COLLECTION = "histograms"
BATCH = 20
"""Items of an add; adds follow each other without a pause until the server dies."""
IDS_AT_ONCE = 1_000
PAUSE = 0.002
"""Between two tries."""
STEPS = {"listening": "it listens", "ready": "`/readyz` says ready", "answered": "its first correct answer"}


def measure(options: Options) -> dict[str, Any]:
    """Kill the server in the middle of adds, start it again, ask at once; then look for what it had acknowledged."""
    data = data_set("cifar10_rgbhist512")
    rows, written = data["X_train"][: options.pick(50_000, 3_000)], data["X_test"]
    kinbin.warm_up()
    with workspace(options) as folder:
        database = folder / "data"
        with kinbin.open(database) as opened:
            fill(opened.create_collection(COLLECTION, dim=rows.shape[1], seed=0), rows)
        rounds = []
        acknowledged: list[str] = []
        for turn in range(options.rounds(5)):
            with serving(database, folder / "log") as (process, client, _, _):
                _wait(process, client, rows)
                acknowledged += _write_until_killed(process, client, written, f"w{turn}-", options.pick(2.0, 0.5))
            with serving(database, folder / "log") as (process, client, _, started):
                times = _wait(process, client, rows)
                rounds.append({step: 1e3 * (at - started) for step, at in times.items()})
                _check_everything(client, rows, acknowledged)
        size = sum(file.stat().st_blocks * 512 for file in database.rglob("*") if file.is_file())
    return {
        "rows": len(rows), "acknowledged": len(acknowledged), "bytes": size,
        "ms": {step: spread([each[step] for each in rounds]) for step in rounds[0]},
    }  # fmt: skip


# ---------------------------------------------------------------------------------------- the server


def _wait(process: subprocess.Popen[bytes], client: httpx.Client, rows: NDArray[Any]) -> dict[str, float]:
    """Ask until the server listens, is ready and answers right; when each happened first."""
    question = {"vector": rows[0].tolist(), "k": K, "mode": "bands"}
    reached: dict[str, float] = {}
    give_up = time.monotonic() + PATIENCE
    while "answered" not in reached:
        if process.poll() is not None or time.monotonic() > give_up:
            raise RuntimeError(f"the server did not come up (exit status {process.poll()})")
        try:
            if "ready" not in reached:
                ready = client.get("/readyz").status_code == 200
                reached.setdefault("listening", time.perf_counter())
                if ready:
                    reached["ready"] = time.perf_counter()
            else:
                answer = client.post(f"/v1/collections/{COLLECTION}/query", json=question)
                # The row itself shares every band with its vector: whatever the bands are, it is the first answer.
                best = answer.json()["results"][0] if answer.status_code == 200 else None
                if best is not None and best["id"] == "0" and best["score"] > 1 - 1e-6:
                    reached["answered"] = time.perf_counter()
                    continue
        except httpx.TransportError:
            pass
        time.sleep(PAUSE)
    return reached


def _write_until_killed(
    process: subprocess.Popen[bytes], client: httpx.Client, vectors: NDArray[Any], prefix: str, seconds: float
) -> list[str]:
    """Add items without a pause, kill the server meanwhile; the ids that were acknowledged."""
    threading.Timer(seconds, process.kill).start()
    acknowledged: list[str] = []
    while True:
        numbers = range(len(acknowledged), len(acknowledged) + BATCH)
        items = [{"id": f"{prefix}{i}", "vector": vectors[i % len(vectors)].tolist()} for i in numbers]
        try:
            client.post(f"/v1/collections/{COLLECTION}/index", json={"items": items}).raise_for_status()
        except httpx.TransportError:
            process.wait()
            return acknowledged
        acknowledged += [item["id"] for item in items]


def _check_everything(client: httpx.Client, rows: NDArray[Any], acknowledged: list[str]) -> None:
    """Every acknowledged item is there, and rows are found by their own vectors. RuntimeError otherwise."""
    ids = [*ids_of(0, len(rows)), *acknowledged]
    for first in range(0, len(ids), IDS_AT_ONCE):
        asked = {"ids": ids[first : first + IDS_AT_ONCE], "include": []}
        missing = client.post(f"/v1/collections/{COLLECTION}/get", json=asked).raise_for_status().json()["missing"]
        if missing:
            raise RuntimeError(f"{len(missing)} acknowledged items are gone, {missing[0]} among them")
    some = {"queries": [row.tolist() for row in rows[:50]], "k": 1, "mode": "exact"}
    answers = client.post(f"/v1/collections/{COLLECTION}/query", json=some).raise_for_status().json()["answers"]
    if any(answer["results"][0]["score"] < 1 - 1e-6 for answer in answers):
        raise RuntimeError("a row is not found by its own vector any more")


def render(result: dict[str, Any]) -> str:
    """One table."""
    lines = [(f"until {what}", *(result["ms"][step][which] for which in SPREAD)) for step, what in STEPS.items()]
    mebibytes = result["bytes"] >> 20
    return paragraphs(
        f"{result['rows']:,} rows, {mebibytes:,} MiB of files; killed with SIGKILL while adds of {BATCH} came in without a pause.",
        table(("from starting the server again, ms", *SPREAD), lines),
        f"All {result['acknowledged']:,} items that were acknowledged before the kills were there afterwards.",
    )


if __name__ == "__main__":
    run("restart", measure, render)
