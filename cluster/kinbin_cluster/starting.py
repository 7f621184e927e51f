"""What is said when a node or a gateway cannot join its cluster: why, in one line, where the server would print a traceback."""

from __future__ import annotations

import logging

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kinbin_cluster.errors import ClusterError

__all__ = ["SayingWhy"]

_STARTED = "lifespan.startup."
log = logging.getLogger("kinbin.cluster")


class SayingWhy:
    """ASGI application around that of a node or a gateway. Its process ends with status 3, as of any that does not start."""

    def __init__(self, app: ASGIApp, kind: str) -> None:
        self._app = app
        self._kind = kind

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on but the traceback of what its cluster refused."""
        if scope["type"] != "lifespan":
            await self._app(scope, receive, send)
            return
        failed: list[Message] = []

        async def sending(message: Message) -> None:
            if message["type"] == f"{_STARTED}failed":
                failed.append(message)
            else:
                await send(message)

        try:
            await self._app(scope, receive, sending)
        except ClusterError as error:
            if not failed:
                raise
            log.critical("the %s does not start", self._kind, extra={"fields": {"reason": " ".join(str(error).split())}})
            logging.getLogger("uvicorn.error").addFilter(_says_more)
            await send({"type": f"{_STARTED}failed", "message": ""})
        except BaseException:
            for message in failed:
                await send(message)
            raise


def _says_more(record: logging.LogRecord) -> bool:
    """Whether a line of the server says anything that was not said."""
    return not record.getMessage().startswith("Application startup failed")
