"""Write docs/reference.md: tables of kernels, limits, settings, costs and errors, from the code that enforces them.

`make docs` writes it; `make docs-check` and the test suite compare it with the file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path

import kinbin
from kinbin.spaces.registry import space_of
from kinbin_cluster.measures import GATEWAY_METRICS, NODE_METRICS
from kinbin_cluster.settings import ClusterSettings
from kinbin_service.cli.output import EXIT_CODES
from kinbin_service.collection_metrics import COLLECTION_METRICS
from kinbin_service.limits import all_limits
from kinbin_service.metrics import METRICS
from kinbin_service.problems import CODES
from kinbin_service.settings import Settings

TARGET = Path(__file__).resolve().parent / "reference.md"


def _table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> Iterator[str]:
    names = list(head)
    yield "| " + " | ".join(names) + " |"
    yield "|" + "---|" * len(names)
    for row in rows:
        yield "| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |"
    yield ""


def _number(value: float) -> str:
    if value == 2**63 - 1:
        return "2⁶³ − 1"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def reference() -> str:
    """The document."""
    settings = Settings.model_construct()
    fields = Settings.model_fields
    lines = ["# Reference", "", "This page is written from the code (`make docs`).", "", "## Kernels", ""]
    lines += _table(
        ("name", "kernel", "definition", "signed values"),
        ((f"`{k.name}`", k.title, k.formula, "yes" if k.signed else "refused") for k in (*kinbin.KERNELS.values(), space_of("nested"))),
    )
    lines += ["## Kinds of items", "", "What collections hold, and by which kernels or distances; the first is the default.", ""]
    lines += _table(
        ("items", "key over REST", "kernels"),
        (
            (f"`{name}`", f"`{kind.one}`", ", ".join(f"`{one}`" for one in kind.kernels) or "those above")
            for name, kind in kinbin.KINDS.items()
        ),
    )
    lines += _table(("distance", "is", "definition"), ((f"`{k.name}`", k.title, k.formula) for k in kinbin.OBJECT_KERNELS.values()))
    lines += ["## Limits", "", "`GET /v1/limits` returns this table. An error names the limit that was passed.", ""]
    lines += _table(
        ("name", "value", "unit", "why"),
        (
            (f"`{x.name}`", "by the number of cores" if x.name == "threads" else _number(x.value), x.unit, x.reason)
            for x in all_limits(settings).values()
        ),
    )
    lines += ["## Settings of the service", "", "Environment variables; `kinbin serve` has options for some of them.", ""]
    lines += _table(
        ("variable", "default", "what it is"),
        (
            (
                f"`KINBIN_{name.upper()}`",
                "by the number of cores" if name in ("threads", "read_threads") else f"`{field.default}`",
                field.description,
            )
            for name, field in fields.items()
        ),
    )
    lines += ["## Settings of a cluster", "", "Environment variables of nodes, gateways and `kinbin cluster`.", ""]
    lines += _table(
        ("variable", "default", "what it is"),
        (
            (f"`KINBIN_CLUSTER_{name.upper()}`", "none" if field.default is None else f"`{field.default}`", field.description)
            for name, field in ClusterSettings.model_fields.items()
        ),
    )
    lines += ["## Metrics of the service", "", "`GET /metrics`, in the text format of Prometheus. Counters end in `_total`.", ""]
    lines += _table(
        ("name", "kind", "what it is", "labels"),
        ((f"`kinbin_{x.name}`", x.kind, x.text, ", ".join(f"`{one}`" for one in x.labels)) for x in (*METRICS, *COLLECTION_METRICS)),
    )
    for part, table in (("node", NODE_METRICS), ("gateway", GATEWAY_METRICS)):
        lines += [f"## Metrics of a {part}", "", f"`GET /metrics` of a {part} of a cluster has these besides.", ""]
        lines += _table(
            ("name", "kind", "what it is", "labels"),
            ((f"`kinbin_{x.name}`", x.kind, x.text, ", ".join(f"`{one}`" for one in x.labels)) for x in table),
        )
    lines += ["## Costs", "", "What things take, in nanoseconds: ways to answer a query are weighed by it. `kinbin calibrate` measures"]
    lines += ["these on a machine. `KINBIN_COSTS` names a JSON file of costs by name, read when the library is first used, in any"]
    lines += ["process; what the file does not name stays as it is here.", ""]
    lines += _table(
        ("cost", "nanoseconds", "what it is", "how it was measured"),
        ((f"`{x.name}`", f"{x.default:,g}", x.metadata["text"], x.metadata["measured"]) for x in dataclasses.fields(kinbin.Costs)),
    )
    lines += ["## Errors of the service", "", "The `code` of a problem document, its status, and its title.", ""]
    lines += _table(("code", "status", "title"), ((f"`{name}`", code.status, code.title) for name, code in CODES.items()))
    lines += [
        "## Options of a query",
        "",
        "The same in `query`, in `POST /query` and in the client; the command line has all but `include` (it prints payloads) and `cursor`",
        "(it has `--offset`).",
        "",
    ]
    lines += _table(("option", "default", "what it does", "what it has to be"), (_option(*one) for one in kinbin.OPTIONS.items()))
    lines += [
        "## Exit codes of the command line",
        "",
        "0: done. 1: any error that is not listed here. 3: of `kinbin serve`, no port or no database. 128 + n: ended by signal n.",
        "",
    ]
    lines += _table(("code of the error", "exit code"), ((f"`{name}`", code) for name, code in EXIT_CODES.items()))
    return "\n".join(lines)


OF_KERNEL = {"min_score", "max_distance"}
"""Options whose bounds a collection knows: those of what its kernel prints."""


def _option(name: str, option: kinbin.Option) -> Iterator[str]:
    default = "nothing" if option.default == () else "null" if option.default is None else f"`{option.default}`".lower()
    most = "" if option.limit is None else f", at most the limit `{option.limit}`"
    says = option.says.replace(", or null", ", within the range of the kernel, or null") if name in OF_KERNEL else option.says
    yield from (f"`{name}`", default, option.text, says + most)


if __name__ == "__main__":
    TARGET.write_text(reference(), encoding="utf-8")
