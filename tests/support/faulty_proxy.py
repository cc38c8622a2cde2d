"""A proxy in front of a store's server, which adds latency and the faults of networks and of busy servers.

Each request has a connection of its own, at both sides: so the end of an answer is the end of its connection.
"""

from __future__ import annotations

import re
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Event, Lock, Thread, Timer
from urllib.parse import urlsplit

Fault = Callable[["Exchange"], None]
"""What is done instead of passing a request on."""


@dataclass
class _Rule:
    fault: Fault
    pattern: re.Pattern[str]
    times: int


@dataclass
class Exchange:
    """One request, and the connection that its answer goes to."""

    client: socket.socket
    request: bytes
    upstream: tuple[str, int]
    ending: Event

    @property
    def line(self) -> str:
        """The method, and the path with its query, as they were sent."""
        return self.request.partition(b" HTTP/")[0].decode("latin-1")

    def ask(self) -> bytes:
        """The whole answer of the server behind the proxy."""
        first, _, rest = self.request.partition(b"\r\n")
        with socket.create_connection(self.upstream) as server:
            server.sendall(first + b"\r\nConnection: close\r\n" + rest)
            return b"".join(iter(lambda: server.recv(2**16), b""))


@dataclass
class Proxy:
    """A proxy that runs.

    latency: seconds, before each request is passed on. seen: the method and the target of each request.
    """

    url: str
    latency: float = 0.0
    seen: list[str] = field(default_factory=list)
    _rules: list[_Rule] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def fail(self, fault: Fault, pattern: str = "", times: int = 10**9) -> None:
        """Does `fault` to the next `times` requests whose method and target the regular expression finds."""
        self._rules.append(_Rule(fault, re.compile(pattern), times))

    def take_fault(self, line: str) -> Fault | None:
        """What to do to a request."""
        with self._lock:
            self.seen.append(line)
            for rule in self._rules:
                if rule.times and rule.pattern.search(line):
                    rule.times -= 1
                    return rule.fault
        return None


def answer(status: int, code: str) -> Fault:
    """Answers with a status, and a code as S3 has them."""

    def send(exchange: Exchange) -> None:
        body = b"" if exchange.request.startswith(b"HEAD") else f"<Error><Code>{code}</Code></Error>".encode()
        head = f"HTTP/1.1 {status} Failed\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        exchange.client.sendall(head.encode() + body)

    return send


def say(body: str) -> Fault:
    """Answers with 200 and any body, whatever was asked."""

    def send(exchange: Exchange) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n"
        exchange.client.sendall(head.encode() + body.encode())

    return send


def change(pattern: bytes, text: bytes) -> Fault:
    """Sends the server's answer, with `text` for all that the regular expression finds in its body."""

    def send(exchange: Exchange) -> None:
        head, _, body = exchange.ask().partition(b"\r\n\r\n")
        body = re.sub(pattern, text, body)
        head = re.sub(rb"(?im)^content-length:.*$", b"Content-Length: %d\r" % len(body), head + b"\r\n")
        exchange.client.sendall(head + b"\r\n" + body)

    return send


def reset(exchange: Exchange) -> None:
    """Resets the connection."""
    exchange.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def end_early(exchange: Exchange) -> None:
    """Sends the head of the answer and half of its body."""
    head, _, body = exchange.ask().partition(b"\r\n\r\n")
    exchange.client.sendall(head + b"\r\n\r\n" + body[: len(body) // 2])


def hang(exchange: Exchange) -> None:
    """Sends the head of the answer and half of its body, then nothing until the client or the test ends."""
    end_early(exchange)
    exchange.ending.wait(60)


def be_silent(exchange: Exchange) -> None:
    """Sends nothing until the client or the test ends."""
    exchange.ending.wait(60)


@contextmanager
def proxying(server: str, listen_after: float = 0.0, tls: ssl.SSLContext | None = None) -> Iterator[Proxy]:
    """Runs a proxy in front of a server, on a free port of this machine.

    listen_after: seconds in which connections are refused. tls: the proxy's certificate, if it is to speak TLS.
    """
    upstream = urlsplit(server)
    assert upstream.hostname and upstream.port
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    host, port = listener.getsockname()
    proxy = Proxy(f"{'https' if tls else 'http'}://{host}:{port}")
    ending = Event()

    def serve(client: socket.socket) -> None:
        with suppress(OSError), client, tls.wrap_socket(client, server_side=True) if tls else client as wrapped:
            request = _read_request(wrapped)
            exchange = Exchange(wrapped, request, (str(upstream.hostname), int(upstream.port or 0)), ending)
            fault = proxy.take_fault(exchange.line)
            ending.wait(proxy.latency)
            if fault is not None:
                fault(exchange)
            else:
                wrapped.sendall(exchange.ask())
                if isinstance(wrapped, ssl.SSLSocket):
                    wrapped.unwrap()

    def accept() -> None:
        with suppress(OSError):
            while not ending.is_set():
                Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    def listen() -> None:
        listener.listen(128)
        Thread(target=accept, daemon=True).start()

    if listen_after:
        timer = Timer(listen_after, listen)
        timer.start()
    else:
        listen()
    try:
        yield proxy
    finally:
        ending.set()
        if listen_after:
            timer.join()
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def _read_request(client: socket.socket) -> bytes:
    received = b""
    while b"\r\n\r\n" not in received:
        part = client.recv(2**16)
        if not part:
            raise ConnectionResetError
        received += part
    head, _, body = received.partition(b"\r\n\r\n")
    size = re.search(rb"(?im)^content-length: *(\d+)", head)
    left = int(size[1]) - len(body) if size else 0
    while left > 0:
        part = client.recv(2**16)
        received += part
        left -= len(part)
    return received
