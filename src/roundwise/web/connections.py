"""Limits on connections that Uvicorn has no settings for.

They concern a head that never ends, a body that trickles in, a response that is not read, and more connections than the
process has file descriptors.
"""

from __future__ import annotations

import asyncio
import socket
from typing import cast

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from roundwise.errors import InputError

HEAD = 10.0  # seconds in which the head of a request must come
LOOK = 10.0  # seconds between two checks of a connection
FEWEST = 10_000  # bytes of a body that must come from one check to the next
PIECE = 16 * 2**10  # bytes read at once; a head may be twice as long
IGNORED = 32 * 2**20  # bytes of a body that are dropped after the response
CONNECTIONS = 600  # at once; 500 of them may listen to events
RESERVED = 400  # descriptors for all the rest, and for connections that were accepted but not yet counted; at most half
BACKLOG = 100  # connections that wait to be accepted


class Connection(H11Protocol):
    """A connection that is closed when its client keeps the server waiting."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as Uvicorn has it
        """Begin; where there are too many connections, the one that has been idle longest is closed."""
        super().connection_made(transport)
        self._heard = self.loop.time()
        self._came = self._ignored = self._unsent = 0
        self._owing: object = None  # the request whose body was still to come at the last look
        self._head: asyncio.TimerHandle | None = self.loop.call_later(HEAD, transport.abort)
        self._next = self.loop.call_later(LOOK, self._look)
        if len(self.connections) > most_connections():
            waiting = (each for each in cast("set[Connection]", self.connections) if each.waiting)
            min(waiting, key=lambda each: each._heard, default=self).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers."""
        self._next.cancel()
        self._cancel_head()
        super().connection_lost(exc)

    @property
    def waiting(self) -> bool:
        """Whether it is open and the next move is the client's."""
        answered = self.cycle is None or self.cycle.response_complete
        return not self.transport.is_closing() and (answered or self.conn.their_state is h11.SEND_BODY)

    def data_received(self, data: bytes) -> None:
        """Read data a piece at a time, so that the limit on heads holds."""
        self._heard = self.loop.time()
        self._came += len(data)
        for start in range(0, len(data), PIECE):
            # many small chunks cost far more to read than to send: `security.Guard` refuses them
            chunked = self.cycle is not None and any(name == b"transfer-encoding" for name, _ in self.headers)
            if self.transport.is_closing() or chunked:
                return
            super().data_received(data[start : start + PIECE])
        if self.conn.their_state is not h11.IDLE:
            self._cancel_head()
        elif self._head is None:
            self._head = self.loop.call_later(HEAD, self.transport.abort)
        if self._late:
            self._ignored += len(data)
            if self._ignored > IGNORED:
                self.transport.abort()

    @property
    def _late(self) -> bool:
        """Whether a body is still coming after the response."""
        return self.cycle is not None and self.cycle.response_complete and self.conn.their_state is h11.SEND_BODY

    def _cancel_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _look(self) -> None:
        """Close the connection if a body trickles in, or the response is not read."""
        owing = self.cycle if self.conn.their_state is h11.SEND_BODY else None
        slow = self._late or (self._came < FEWEST and not self.flow.read_paused)
        unsent = self.transport.get_write_buffer_size()
        if (owing is not None and owing is self._owing and slow) or (unsent and unsent == self._unsent):
            self.transport.abort()
            return
        self._owing, self._unsent, self._came = owing, unsent, 0
        self._next = self.loop.call_later(LOOK, self._look)


def most_connections() -> int:
    """The largest number of connections, given the file descriptors of this process."""
    try:
        import resource
    except ImportError:  # Windows, which has no such limit
        return CONNECTIONS
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return CONNECTIONS if allowed == resource.RLIM_INFINITY else min(CONNECTIONS, max(allowed - RESERVED, allowed // 2))


def configure_server(application: ASGIApp, log_level: str, timeout_graceful_shutdown: int) -> uvicorn.Config:
    """The configuration of Uvicorn."""
    return uvicorn.Config(
        application,
        access_log=False,
        server_header=False,
        loop="asyncio",
        http=Connection,
        ws="none",
        lifespan="on",
        backlog=BACKLOG,
        log_level=log_level,
        timeout_graceful_shutdown=timeout_graceful_shutdown,
    )


def open_socket(host: str, port: int) -> socket.socket:
    """Open a listening socket, so that the address is known before it is printed."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # named as TCP: asyncio then sends every piece of an answer at once (TCP_NODELAY), and keep-alive costs no 40 ms
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
        found.listen(BACKLOG)
    except OSError as error:
        found.close()
        raise InputError(f"Cannot listen on {host}:{port} ({error.strerror}). Give another --port or --host.") from None
    return found
