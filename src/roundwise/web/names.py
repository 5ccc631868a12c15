"""Names of studies in addresses: any text, one segment of a path, also with a slash in it."""

from __future__ import annotations

from urllib.parse import unquote

from starlette.types import ASGIApp, Receive, Scope, Send

from roundwise.store.client import segment

__all__ = ["Segments", "decoded", "segment"]


def decoded(text: str) -> str:
    """The name of a study, from a path as `Segments` hands it on."""
    return unquote(text.removeprefix("~"))


class Segments:
    """ASGI middleware: a path is split before it is decoded, so that a slash in a name is no border.

    Every segment is decoded, and then only its per cent signs and slashes are written as %25 and %2F.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on with the path as routes read it."""
        if scope["type"] == "http" and b"%" in (raw := scope.get("raw_path") or b""):
            parts = [unquote(each.decode("ascii", "replace")) for each in raw.partition(b"?")[0].split(b"/")]
            safe = "/".join(each.replace("%", "%25").replace("/", "%2F") for each in parts)
            scope = {**scope, "path": safe}
        await self.app(scope, receive, send)
