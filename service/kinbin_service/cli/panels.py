"""Under which headings `kinbin COMMAND --help` lists the options of commands that have many. The order is that of the options."""

from __future__ import annotations

__all__ = ["MANY", "PANELS", "panel_of"]

MANY = 7
"""Commands with so many options, or more, have headings."""

_SHARED = {"data": "Where", "url": "Where", "collection": "Where", "as_json": "Output"}
"""Of all commands that have headings."""
_ASKED = ("vector", "string", "series", "points", "image")
_COLUMNS = ("id_column", "payload_columns", "ignore_columns", "feature_columns")

PANELS: dict[str, dict[str, tuple[str, ...]]] = {
    "create": {
        "What the items are": ("items", "distance", "kernel", "parameter", "dim", "field", "feature_names"),
        "Index": ("sampler", "bands", "rows", "index"),
        "In a cluster": ("shards", "replicas"),
    },
    "import": {
        "A new collection": ("kernel", "distance", "parameter", "dim", "index"),
        "How files are read": (
            "file_format", *_COLUMNS, "id_format", "string", "delimiter", "header", "array", "index_base", "thumbnails",
        ),
        "How items are written": ("batch", "mode", "skip_bad", "bad_rows", "resume", "compact"),
    },
    "dedup": {
        "What is near": ("text", "words", "chars", "segments", "min_score", "miss", "seed"),
        "Output": ("out", "mark"),
        "Work": ("memory", "work", "restart"),
    },
    "query": {
        "What is asked for": (*_ASKED, "identifier", "positive", "negative", "vectors", "weights", "combine", "file"),
        "Which items may answer": ("condition", "exclude", "include_self", "min_score", "max_distance"),
        "How it is searched": ("target_recall", "mode", "certify"),
        "What is told": ("k", "offset", "group_by", "debug"),
    },
    "duplicates": {
        "What is near": ("min_score", "max_distance", "miss", "field"),
        "What is told": ("clusters", "condition", "limit"),
    },
    "explain": {
        "What it is compared with": (*_ASKED, "query_id", "field"),
        "What is told": ("limit", "name"),
    },
    "map": {
        "What is drawn": ("sample", "condition", "fields", "field"),
        "How": ("method", "seed"),
    },
    "recall": {
        "What is measured": ("queries", "k", "target_recall", "modes", "seed"),
    },
    "tune": {
        "What is wanted": ("k", "target_recall", "choices", "field"),
        "Rows that are drawn": ("sample", "seed"),
        "Of a file": ("most", "file_format", "link", "kernel", "parameters", *_COLUMNS),
    },
    "rebuild": {
        "How rows are laid out": ("rows", "bands", "field"),
    },
    "serve": {
        "Address": ("host", "port"),
        "Who may ask": ("insecure", "allowed_hosts"),
        "Processes": ("workers",),
    },
    "node": {
        "Address": ("host", "port", "address"),
        "In the cluster": ("name", "nats", "zone", "weight"),
    },
}  # fmt: skip
"""By command and heading, the parameters of the command's function."""


def panel_of(command: str, parameter: str) -> str | None:
    """The heading of an option; None: the common one."""
    if command not in PANELS:
        return None
    own = (heading for heading, parameters in PANELS[command].items() if parameter in parameters)
    return next(own, _SHARED.get(parameter))
