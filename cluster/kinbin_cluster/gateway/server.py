"""Serving a gateway: `python -m kinbin_cluster.gateway`, with the settings of the environment."""

from __future__ import annotations

import sys

from starlette.types import ASGIApp

from kinbin_cluster.gateway.app import create_app
from kinbin_cluster.joining import NO_KEY
from kinbin_cluster.settings import ClusterSettings
from kinbin_cluster.starting import SayingWhy
from kinbin_service.server import SWITCH_SECONDS, serve, spare_the_collector
from kinbin_service.settings import Settings

__all__ = ["gateway_app", "run"]


def run(settings: Settings | None = None) -> None:
    """Serve until a signal. Raises and exits as `kinbin_service.server.run` does; with status 3 also when NATS does not answer.

    ValueError without the key between gateways and nodes.
    """
    if not ClusterSettings().internal_key:
        raise ValueError(NO_KEY.format(kind="gateway"))
    serve(settings or Settings(), "kinbin_cluster.gateway.server:gateway_app")


def gateway_app() -> ASGIApp:
    """The application of a gateway process, made from its environment."""
    sys.setswitchinterval(SWITCH_SECONDS)
    return SayingWhy(create_app(Settings(), ClusterSettings(), ready=spare_the_collector), "gateway")
