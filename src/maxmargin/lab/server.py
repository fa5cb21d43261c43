"""The lab as a page: on loopback only, for this machine's browser only, and no other request."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
import webbrowser
from collections import deque
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from maxmargin.lab import presets
from maxmargin.lab.protocol import MAX_TRACE_BYTES, Refusal, Reply, encode, parse
from maxmargin.lab.session import Session

try:
    import anyio
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import FileResponse, PlainTextResponse, Response
    from starlette.routing import Route, WebSocketRoute
    from starlette.websockets import WebSocket, WebSocketDisconnect
except ImportError as error:
    raise ImportError(f"the lab needs {error.name}: pip install 'maxmargin[lab]'.") from None

__all__ = ["make_app", "serve"]

STATIC = Path(__file__).with_name("static")
HOST = "127.0.0.1"

_VISITORS = 16
_WAITING = 32  # messages of one visitor
_RATE, _BURST = 250.0, 500.0  # messages a second, and at once
_FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/lab.js": ("lab.js", "text/javascript; charset=utf-8"),
    "/lab.css": ("lab.css", "text/css; charset=utf-8"),
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

log = logging.getLogger("maxmargin")


class Visit:
    """One websocket: what came in waits here, what is stale by then is dropped."""

    def __init__(self, websocket: WebSocket) -> None:
        self.websocket = websocket
        self.waiting: deque[dict[str, Any]] = deque()
        self.arrived = anyio.Event()
        self.tokens, self.counted = _BURST, time.monotonic()
        self.closed = False

    async def run(self) -> None:
        """Read while a thread solves; end when the page is gone."""
        async with anyio.create_task_group() as group:
            group.start_soon(self.work)
            await self.read()
            self.closed = True
            group.cancel_scope.cancel()

    async def read(self) -> None:
        """Check each message as it comes; refusals are told at once."""
        while True:
            event = await self.websocket.receive()
            if event["type"] == "websocket.disconnect":
                return
            try:
                self.admit()
                text = event.get("text")
                if text is None:
                    raise Refusal("the lab reads text, not bytes.")
                message = parse(text)
                if len(self.waiting) >= _WAITING:
                    raise Refusal("too many messages are waiting; this one is dropped.")
            except Refusal as refusal:
                await self.send(Reply({"type": "error", "text": str(refusal), "re": None}))
                continue
            self.waiting.append(message)
            self.arrived.set()

    def admit(self) -> None:
        """Take a token; they come back at a steady rate."""
        now = time.monotonic()
        self.tokens = min(_BURST, self.tokens + _RATE * (now - self.counted))
        self.counted = now
        if self.tokens < 1:
            raise Refusal(f"more than {_RATE:g} messages a second; this one is dropped.")
        self.tokens -= 1

    async def work(self) -> None:
        """Answer one message after the other; the event loop stays free."""
        session: Session | None = None
        while True:
            while not self.waiting:
                self.arrived = anyio.Event()
                await self.arrived.wait()
            message = self.next()
            if session is None:
                session = await in_thread(Session)
            for reply in await in_thread(session.handle, message):
                await self.send(reply)

    def next(self) -> dict[str, Any]:
        """Return the next message; of a drag only the newest position."""
        message = self.waiting.popleft()
        while self.waiting and _supersedes(self.waiting[0], message):
            message = self.waiting.popleft()
        return message

    async def send(self, reply: Reply) -> None:
        """Send a reply, unless the page is gone."""
        if not self.closed:
            with contextlib.suppress(WebSocketDisconnect, RuntimeError):
                await self.websocket.send_bytes(encode(reply))


async def in_thread(act: Callable[..., Any], *arguments: Any) -> Any:
    """Run in a thread; what is still running when the page goes is a slice of a second."""
    return await anyio.to_thread.run_sync(act, *arguments, abandon_on_cancel=True)


def _supersedes(newer: dict[str, Any], older: dict[str, Any]) -> bool:
    if not older.get("live") or newer["type"] != older["type"]:
        return False
    if newer["type"] == "move":
        return bool(newer["index"] == older["index"])
    return set(newer["settings"]) == set(older["settings"])


def make_app(port: int) -> Starlette:
    """Make the application for a port: host and origin must be this machine at this port.

    Parameters
    ----------
    port : int
    """
    hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
    origins = {f"http://{host}" for host in hosts}
    visits: set[Visit] = set()

    async def static(request: Request) -> Response:
        if request.headers.get("host") not in hosts:
            return PlainTextResponse("The lab answers to localhost only.", status_code=421)
        name, kind = _FILES[request.url.path]
        return FileResponse(STATIC / name, media_type=kind, headers=_HEADERS)

    async def socket_(websocket: WebSocket) -> None:
        headers = websocket.headers
        if headers.get("host") not in hosts or headers.get("origin") not in origins:
            await websocket.close(1008)  # before accept: HTTP 403
            return
        await websocket.accept()
        if len(visits) >= _VISITORS:
            text = f"{_VISITORS} pages are open already; close one of them."
            await websocket.send_bytes(encode(Reply({"type": "error", "text": text, "re": None})))
            await websocket.close(1013)
            return
        visit = Visit(websocket)
        visits.add(visit)
        try:
            await visit.run()
        finally:
            visits.discard(visit)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        # The first page should not wait for imports and the first solve, nor Iris for scikit-learn.
        later = threading.Timer(3.0, presets.load, ["iris"])
        later.daemon = True
        threading.Thread(target=Session, daemon=True).start()
        later.start()
        yield
        later.cancel()

    routes = [Route(path, static, methods=["GET"]) for path in _FILES]
    return Starlette(routes=[*routes, WebSocketRoute("/ws", socket_)], lifespan=lifespan)


def serve(*, port: int = 8765, open_browser: bool = True) -> None:
    """Open the lab in the browser and serve it until Ctrl-C.

    Parameters
    ----------
    port : int, default=8765
        On 127.0.0.1; 0 takes a free one.
    open_browser : bool, default=True

    Raises
    ------
    OSError
        If the port is taken.

    Examples
    --------
    >>> serve(port=0)  # doctest: +SKIP
    The lab is at http://127.0.0.1:43215/ (Ctrl-C ends it)
    """
    listening = _listen(port)
    port = listening.getsockname()[1]
    url = f"http://{HOST}:{port}/"
    config = uvicorn.Config(
        make_app(port),
        log_level="warning",
        ws="websockets-sansio" if _modern() else "websockets",
        ws_max_size=MAX_TRACE_BYTES,
        ws_per_message_deflate=False,  # to the same machine
        timeout_graceful_shutdown=1,
        limit_concurrency=64,
        server_header=False,
    )
    print(f"The lab is at {url} (Ctrl-C ends it)", flush=True)  # noqa: T201
    if open_browser:
        threading.Timer(0.3, webbrowser.open, [url]).start()
    server = uvicorn.Server(config)
    with contextlib.suppress(KeyboardInterrupt), listening:
        server.run(sockets=[listening])


def _modern() -> bool:
    """Whether this uvicorn has the websocket protocol that is not deprecated."""
    return "websockets-sansio" in uvicorn.config.WS_PROTOCOLS


def _listen(port: int) -> socket.socket:
    """Take the port, or say who may have it."""
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((HOST, port))
        found.listen(128)  # from here on a browser that is quicker than the server only waits
    except OSError as error:
        found.close()
        raise OSError(
            error.errno,
            f"port {port} is taken, perhaps by another lab; choose another with --port, "
            "or --port 0 for any free one",
        ) from None
    return found
