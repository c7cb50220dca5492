"""The path below which a proxy serves the service, whether or not the proxy removes it from requests."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: Response headers that are a path, and one that has paths between angle brackets.
_PATHS, _LINKS = (b"location", b"content-location", b"hx-redirect"), b"link"


def without_root(path: str, root: str) -> str:
    """A path of a request as the service's own path."""
    below = path.removeprefix(root)
    return path if root == "" or below[:1] not in ("", "/") else below or "/"


class RootPath:
    """ASGI middleware around all others: inside there are only paths of the service, and outside those of the proxy.

    Paths in pages have the ``app_root_path`` of the scope, as in Starlette; those in headers are extended here.
    """

    def __init__(self, app: ASGIApp, root: str) -> None:
        self._app = app
        self._root = root

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_below(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [(name, self._extended(name, value)) for name, value in message["headers"]]
            await send(message)

        scope["path"], scope["app_root_path"] = without_root(scope["path"], self._root), self._root
        await self._app(scope, receive, send_below)

    def _extended(self, name: bytes, value: bytes) -> bytes:
        root, name = self._root.encode(), name.lower()
        if name in _PATHS and value.startswith(b"/"):
            return root + value
        return value.replace(b"</", b"<" + root + b"/") if name == _LINKS else value
