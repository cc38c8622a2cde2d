"""Buckets for tests: an S3 server that pip installs (moto), and another one that gives the answers of a test."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

import obstore
from obstore.store import S3Store

CANARY = "canary-5f2c9a7e"
"""The secret of the tests: it must never be seen anywhere."""

_SECONDS = 60  # for the server to start, on a busy machine
_numbers = count()


@dataclass(frozen=True)
class Bucket:
    """One bucket. options: as a user gives them."""

    name: str
    options: dict[str, str]

    @property
    def url(self) -> str:
        return f"s3://{self.name}"

    @property
    def flags(self) -> list[str]:
        """The options on a command line."""
        return [word for name, text in self.options.items() for word in ("--storage-option", f"{name}={text}")]

    @property
    def client(self) -> S3Store:
        """A client of the tests' own."""
        return S3Store(
            self.name,
            endpoint=self.options["aws_endpoint_url"],
            access_key_id="test",
            secret_access_key=CANARY,
            region="us-east-1",
            client_options={"allow_http": True},
        )

    def put(self, key: str, data: bytes) -> None:
        obstore.put(self.client, key, data)

    def get(self, key: str) -> bytes:
        return bytes(obstore.get(self.client, key).bytes())

    def delete(self, key: str) -> None:
        obstore.delete(self.client, key)

    def list_keys(self) -> list[str]:
        return [each["path"] for each in obstore.list(self.client).collect()]

    def put_tree(self, root: Path, prefix: str) -> str:
        """Copies the files below a directory into the bucket. Returns the URL of the copy."""
        for path in sorted(root.rglob("*")):
            if path.is_file():
                self.put(f"{prefix}/{path.relative_to(root).as_posix()}", path.read_bytes())
        return f"{self.url}/{prefix}"


def options_of(url: str) -> dict[str, str]:
    """The options that lead to a server of the tests."""
    return {
        "aws_endpoint_url": url,
        "aws_region": "us-east-1",
        "aws_access_key_id": "test",
        "aws_secret_access_key": CANARY,
        "aws_allow_http": "true",
    }


def make_bucket(server: str) -> Bucket:
    """Makes a bucket of a name that no other has."""
    name = f"logs-{next(_numbers)}-{uuid4().hex[:8]}"
    urllib.request.urlopen(urllib.request.Request(f"{server}/{name}", method="PUT")).read()
    return Bucket(name, options_of(server))


@contextmanager
def serving_s3() -> Iterator[str]:
    """Runs moto in a process of its own, on a free port of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(port, server)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            assert server.poll() is None and time.monotonic() < end, "moto does not start"
            time.sleep(0.05)
        else:
            return


@contextmanager
def answering(status: int, body: str = "", headers: dict[str, str] | None = None) -> Iterator[str]:
    """Runs a server that gives one answer to every request. Its URL."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.send_response(status)
            for name, text in (headers or {}).items():
                self.send_header(name, text)
            self.send_header("Content-Length", str(len(body.encode())))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body.encode())

        do_GET = do_HEAD = do_PUT = _answer  # noqa: N815

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
