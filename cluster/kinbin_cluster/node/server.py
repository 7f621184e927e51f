"""Serving a node: `python -m kinbin_cluster.node`, with the settings of the environment."""

from __future__ import annotations

import shutil
import sys

from starlette.types import ASGIApp

from kinbin_cluster.joining import NO_KEY
from kinbin_cluster.node.app import create_node_app
from kinbin_cluster.node.quick import Quick
from kinbin_cluster.node.running import leftover_files
from kinbin_cluster.settings import ClusterSettings
from kinbin_cluster.starting import SayingWhy
from kinbin_service.server import SWITCH_SECONDS, check_data, serve, spare_the_collector
from kinbin_service.settings import Settings

__all__ = ["node_app", "run"]


def run(settings: Settings | None = None) -> None:
    """Serve until a signal. Raises and exits as `kinbin_service.server.run` does; with status 3 also when NATS does not answer.

    ValueError without the key between gateways and nodes.
    """
    settings, cluster = settings or Settings(), ClusterSettings()
    if not cluster.internal_key:
        raise ValueError(NO_KEY.format(kind="node"))
    # One process applies; others would only read what it writes.
    fixed = {"workers": 1, "api_key": cluster.internal_key, "api_key_file": None}
    serve(Settings(**{**settings.model_dump(), **fixed}), "kinbin_cluster.node.server:node_app", _check)


def _check(settings: Settings) -> None:
    check_data(settings)
    for one in leftover_files(settings.data_dir):
        shutil.rmtree(one) if one.is_dir() else one.unlink(missing_ok=True)


def node_app() -> ASGIApp:
    """The application of a node's process, made from its environment."""
    sys.setswitchinterval(SWITCH_SECONDS)
    settings = Settings()
    app = create_node_app(settings, ClusterSettings(), ready=spare_the_collector)
    return SayingWhy(Quick(app, settings), "node")
