"""Routes: FastAPI's to the document, plain functions of a request to whoever asks.

FastAPI finds the arguments of a route's function anew for each request, and looks for the route twice where it came with a router of its
own: together as long as a short search takes. Functions here take the request and names of the path, and answer with a response.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

__all__ = ["routes", "take_routes"]


class _Direct(APIRoute):
    """A route whose function is called with what it takes: the request, and names of the path."""

    def __init__(self, path: str, endpoint: Any, **more: Any) -> None:
        super().__init__(path, endpoint, **more)
        self.allowed = self.methods or set()
        """Methods of all routes of this path."""
        self._taken = frozenset(inspect.signature(endpoint).parameters)
        assert self._taken <= {"request", *self.param_convertors}, f"{endpoint.__name__} takes what is not in its path"

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; what is raised goes to the handlers of the application."""
        if scope["method"] not in (self.methods or ()):
            raise HTTPException(405, headers={"Allow": ", ".join(sorted(self.allowed))})
        given = {"request": Request(scope, receive, send), **scope["path_params"]}
        response = await self.endpoint(**{name: given[name] for name in self._taken})
        await response(scope, receive, send)


def routes(*tags: str, **more: Any) -> APIRouter:
    """A router for `take_routes`. Operations are named after their functions: generated clients call their methods so, and names stay."""
    return APIRouter(tags=list(tags), route_class=_Direct, generate_unique_id_function=lambda route: route.name, **more)


def take_routes(app: FastAPI, routers: Iterable[APIRouter]) -> None:
    """Give an application the routes of these, in their order: the first that matches is taken."""
    taken = [route for router in routers for route in router.routes if isinstance(route, _Direct)]
    for route in taken:
        route.allowed = {method for other in taken if other.path == route.path for method in other.methods or ()}
    app.router.routes.extend(taken)
