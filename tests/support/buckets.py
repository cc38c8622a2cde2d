"""Buckets for tests: in an S3 server, and servers that give the answers of a test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

import obstore
from obstore.store import S3Store

from tests.support import s3_server
from tests.support.store_servers import serving_s3proxy

USER = "test"
CANARY = "canary-5f2c9a7e"
"""The secret of the tests: it must never be seen anywhere."""

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
        return _make_client(self.name, self.options["aws_endpoint_url"])

    def put(self, key: str, data: bytes) -> None:
        obstore.put(self.client, key, data, use_multipart=False)

    def put_marker(self, prefix: str) -> None:
        """Puts an empty object `prefix/`, as consoles and Hadoop do for a directory. obstore cannot."""
        s3_server.send("PUT", self.options["aws_endpoint_url"], f"/{self.name}/{prefix}/", USER, CANARY)

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


@lru_cache
def _make_client(name: str, server: str) -> S3Store:
    return S3Store(
        name,
        endpoint=server,
        access_key_id=USER,
        secret_access_key=CANARY,
        region=s3_server.REGION,
        client_options={"allow_http": True},
    )


def options_of(url: str) -> dict[str, str]:
    """The options that lead to a server of the tests."""
    return {
        "aws_endpoint_url": url,
        "aws_region": s3_server.REGION,
        "aws_access_key_id": USER,
        "aws_secret_access_key": CANARY,
        "aws_allow_http": "true",
    }


def make_bucket(server: str) -> Bucket:
    """Makes a bucket of a name that no other has."""
    name = f"logs-{next(_numbers)}-{uuid4().hex[:8]}"
    s3_server.send("PUT", server, f"/{name}", USER, CANARY)
    return Bucket(name, options_of(server))


@contextmanager
def serving_s3() -> Iterator[str]:
    """Runs our S3 server, or s3proxy if KAFKASEG_STORES names it. The URL of it."""
    serve = serving_s3proxy if "s3proxy" in os.environ.get("KAFKASEG_STORES", "") else s3_server.serving
    with serve(USER, CANARY) as url:
        yield url


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
