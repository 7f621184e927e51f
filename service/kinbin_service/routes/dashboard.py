"""The dashboard: its page and the files of it."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from kinbin_service import dashboard
from kinbin_service.routing import routes

__all__ = ["router"]

router = routes(include_in_schema=False)


@router.get("/dashboard")
async def page(request: Request) -> Response:
    """The page; it needs no key, as it holds no data."""
    return _answer(request)


@router.get("/dashboard/{file:path}")
async def asset(request: Request) -> Response:
    """A module, style sheet or picture of the page."""
    return _answer(request)


def _answer(request: Request) -> Response:
    # By the path as it was sent below the server: a slash at the end names no file.
    found = dashboard.answer(request.scope["path"], request.headers)
    if found is None:
        raise HTTPException(404)
    return found
