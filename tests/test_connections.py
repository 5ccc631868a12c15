"""Connections that keep a server waiting are closed, and there are never more of them than it has descriptors for."""

import asyncio
import socket
import time
from contextlib import ExitStack, closing
from urllib.parse import urlsplit

import pytest

import serving
from roundwise.web import connections
from roundwise.web.connections import most_connections, open_socket
from serving import ask

HALF = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
PATIENCE = 20.0


@pytest.fixture
def connected(tmp_path, monkeypatch):
    """What connects to a server that waits for a fraction of a second only."""
    monkeypatch.setattr(connections, "HEAD", 0.3)
    monkeypatch.setattr(connections, "LOOK", 0.2)
    with serving.serving(f"sqlite:///{tmp_path}/studies.db") as (url, _), ExitStack() as stack:
        found = urlsplit(url)

        def connect(*sent, small=False):
            one = stack.enter_context(closing(socket.socket()))
            if small:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.settimeout(PATIENCE)
            one.connect((found.hostname, found.port))
            for each in sent:
                one.sendall(each)
            return one

        connect.url = url
        yield connect


def closed(connection):
    """Whether the other end closed it, however much it sent before."""
    try:
        while connection.recv(65536):
            pass
    except ConnectionResetError:
        pass
    except TimeoutError:
        return False
    return True


def cut_off(connection, piece, pause):
    """Whether the other end closes it while this one goes on sending."""
    begun = time.monotonic()
    while time.monotonic() - begun < PATIENCE:
        try:
            connection.sendall(piece)
        except ConnectionError:
            return True
        time.sleep(pause)
    return False


def answered(connection):
    """Whether the server says that it is well."""
    found = b""
    while not found.endswith(b"ok"):
        found += connection.recv(65536)
    return found.startswith(b"HTTP/1.1 200")


class TestSlowOnes:
    @pytest.mark.parametrize("sent", [b"", b"G", HALF])
    def test_a_head_that_does_not_end(self, connected, sent):
        assert closed(connected(sent))

    def test_a_second_head_that_does_not_end(self, connected):
        one = connected(HALF, b"\r\n")
        assert answered(one)
        one.sendall(HALF)
        assert closed(one)

    @pytest.mark.parametrize(
        "start", [HALF, b"POST /api/v1/records HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000\r\n\r\n"]
    )
    def test_a_request_that_trickles_in(self, connected, start):
        one = connected(start)
        assert cut_off(one, b"X", 0.05)

    def test_an_answer_that_nobody_takes(self, connected):
        one = b"GET /static/htmx.min.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
        some = connected(one * 100, small=True)
        time.sleep(1.0)
        assert closed(some)

    def test_a_body_that_goes_on_after_the_answer(self, connected, monkeypatch):
        monkeypatch.setattr(connections, "LOOK", PATIENCE)
        monkeypatch.setattr(connections, "IGNORED", 100_000)
        one = connected(b"POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 30000000\r\n\r\n")
        assert one.recv(65536).startswith(b"HTTP/1.1 404")
        with pytest.raises(ConnectionError):
            one.sendall(b"x" * 29_000_000)

    @pytest.mark.parametrize("path", [b"/login", b"/api/v1/records", b"/api/v1/studies"])
    def test_somebody_who_leaves_is_not_in_the_log(self, connected, caplog, path):
        kind = b"Content-Type: application/x-www-form-urlencoded\r\n"
        one = connected(b"POST " + path + b" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 90\r\n" + kind + b"\r\nx=")
        time.sleep(0.1)  # until it is read
        one.close()
        assert ask(connected.url, "GET", "/health", raw=True)[2] == b"ok"
        time.sleep(0.1)
        assert caplog.records == []

    def test_others_are_not_closed(self, connected, monkeypatch):
        """A request in two pieces, a second one on the same connection, and an upload that takes its time."""
        monkeypatch.setattr(connections, "HEAD", PATIENCE)
        monkeypatch.setattr(connections, "LOOK", 1.0)
        monkeypatch.setattr(connections, "FEWEST", 1)
        head = b"POST /api/v1/records HTTP/1.1\r\nHost: localhost\r\nContent-Length: 12000\r\n\r\n"
        one, upload = connected(HALF), connected(head)
        one.sendall(b"\r\n")
        assert answered(one)
        monkeypatch.setattr(connections, "HEAD", 0.3)
        for _ in range(12):
            upload.sendall(b"x" * 1000)
            time.sleep(0.2)
        one.sendall(HALF + b"\r\n")  # after longer than a head may take
        assert answered(one)
        assert upload.recv(65536).startswith(b"HTTP/1.1 422")


class TestMany:
    def test_the_one_that_keeps_waiting_longest_makes_room(self, connected, monkeypatch):
        monkeypatch.setattr(connections, "HEAD", PATIENCE)
        monkeypatch.setattr(connections, "most_connections", lambda: 5)
        some = [connected(HALF) for _ in range(12)]
        assert ask(connected.url, "GET", "/health", raw=True)[2] == b"ok"
        assert [closed(each) for each in some[:7]] == [True] * 7
        some[-1].sendall(b"\r\n")
        assert answered(some[-1])

    def test_descriptors(self, monkeypatch):
        resource = pytest.importorskip("resource")
        for allowed, most in ((256, 128), (512, 256), (900, 500), (1024, 600), (65536, 600)):
            monkeypatch.setattr(resource, "getrlimit", lambda _, allowed=allowed: (allowed, allowed))
            assert most_connections() == most


def test_pieces_of_an_answer_are_sent_at_once():
    """Without TCP_NODELAY a request on a connection that is kept alive took 44 ms instead of 1."""
    found = []

    class Noted(asyncio.Protocol):
        def connection_made(self, transport):
            found.append(transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            transport.close()

    async def main():
        at = open_socket("127.0.0.1", 0)
        server = await asyncio.get_running_loop().create_server(Noted, sock=at)
        reader, writer = await asyncio.open_connection(*at.getsockname())
        await reader.read()
        writer.close()
        server.close()

    asyncio.run(main())
    assert found
    assert all(found)
