"""A small S3 server: the files below a directory are the objects of one bucket, read-only, with added latency.

It answers ranges, If-Match and ListObjectsV2, checks no signature, and keeps a list of its requests. It is no test of
a client: the real servers of `tests/` are. `python -m benchmarks.object_server DIRECTORY` runs it in a process of its
own, prints its port, and takes one command a line: a latency in milliseconds, after which it prints what was asked
since the last command.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "logs"
_LISTING_PAGE = 1000
_TIME = "2026-11-21T00:00:00.000Z"


class Request(NamedTuple):
    """One request. kind: GET, HEAD or LIST; start, size: of the answer, in bytes."""

    kind: str
    key: str
    start: int = 0
    size: int = 0


class ObjectServer(ThreadingHTTPServer):
    """Serves the files below a directory, on a free port of this machine."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, directory: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.directory = directory
        self.latency = 0.0  # s, before each answer
        self.requests: list[Request] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def options(self) -> dict[str, str]:
        """The options that lead to this server."""
        return options_of(self.server_address[1])

    def before_answer(self, request: Request) -> None:
        """Is called by the thread of each request, after it is counted and before its answer."""
        if self.latency:
            time.sleep(self.latency)

    @cache  # noqa: B019  # as long as the server, which is as long as the process or a test
    def keys(self, prefix: str, delimiter: str) -> list[tuple[str, int | None]]:
        """The keys that begin with a prefix, in order, with their sizes. A common prefix has None."""
        folder, _, start = prefix.rpartition("/")
        found: list[tuple[str, int | None]] = []
        try:
            with os.scandir(self.directory / folder) as entries:
                for entry in entries:
                    key = f"{folder}/{entry.name}" if folder else entry.name
                    if not entry.name.startswith(start):
                        continue
                    if not entry.is_dir():
                        found.append((key, entry.stat().st_size))
                    elif delimiter:
                        found.append((f"{key}/", None))
                    else:
                        found += self.keys(f"{key}/", delimiter)
        except OSError:
            return []
        return sorted(found)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # one packet for the headers
    server: ObjectServer

    def do_HEAD(self) -> None:
        self._answer_object("HEAD")

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if "list-type" in query:
            self._answer_listing(query)
        else:
            self._answer_object("GET")

    def _answer_object(self, kind: str) -> None:
        key = unquote(urlsplit(self.path).path).removeprefix(f"/{BUCKET}/")
        start, end = 0, None
        if self.headers.get("Range"):
            first, _, last = self.headers["Range"].removeprefix("bytes=").partition("-")
            start, end = int(first), int(last) + 1
        path = self.server.directory / key
        size = path.stat().st_size if path.is_file() else 0
        count = max(size - start if end is None else min(end, size) - start, 0)
        request = Request(kind, key, start, count if kind == "GET" else 0)
        self.server.requests.append(request)
        self.server.before_answer(request)
        try:
            file = open(path, "rb")  # noqa: SIM115  # closed below
            found = os.fstat(file.fileno())
        except OSError:
            self._send(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        with file:
            size, tag = found.st_size, f'"{found.st_mtime_ns}-{found.st_size}"'
            if self.headers.get("If-Match", tag) != tag:
                self._send(412, b"<Error><Code>PreconditionFailed</Code></Error>")
                return
            if start >= size and end is not None:
                self._send(416, b"<Error><Code>InvalidRange</Code></Error>")
                return
            stop = size if end is None else min(end, size)
            self.send_response(200 if end is None else 206)
            self.send_header("Content-Length", str(stop - start))
            self.send_header("ETag", tag)
            self.send_header("Last-Modified", "Sat, 21 Nov 2026 00:00:00 GMT")
            if end is not None:
                self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{size}")
            self.end_headers()
            self.wfile.flush()
            if kind == "GET" and stop > start:
                self.connection.sendfile(file, start, stop - start)

    def _answer_listing(self, query: dict[str, str]) -> None:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        request = Request("LIST", prefix)
        self.server.requests.append(request)
        self.server.before_answer(request)
        after = query.get("continuation-token", query.get("start-after", ""))
        most = min(int(query.get("max-keys", _LISTING_PAGE)), _LISTING_PAGE)
        found = [each for each in self.server.keys(prefix, delimiter) if each[0] > after]
        parts = ['<?xml version="1.0" encoding="UTF-8"?><ListBucketResult>']
        for key, size in found[:most]:
            name = escape(key)
            if size is None:
                parts.append(f"<CommonPrefixes><Prefix>{name}</Prefix></CommonPrefixes>")
            else:
                tag = f'"{os.stat(self.server.directory / key).st_mtime_ns}-{size}"'
                parts.append(
                    f"<Contents><Key>{name}</Key><LastModified>{_TIME}</LastModified>"
                    f"<ETag>{escape(tag)}</ETag><Size>{size}</Size></Contents>"
                )
        more = len(found) > most
        parts.append(f"<KeyCount>{len(found[:most])}</KeyCount><IsTruncated>{str(more).lower()}</IsTruncated>")
        if more:
            parts.append(f"<NextContinuationToken>{escape(found[most - 1][0])}</NextContinuationToken>")
        self._send(200, "".join([*parts, "</ListBucketResult>"]).encode())

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


def options_of(port: int) -> dict[str, str]:
    """The storage options that lead to a server."""
    return {
        "aws_endpoint_url": f"http://127.0.0.1:{port}",
        "aws_region": "us-east-1",
        "aws_access_key_id": "test",
        "aws_secret_access_key": "test",
        "aws_allow_http": "true",
    }


class Remote:
    """A server in a process of its own, so that its work is not in the figures of this one."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.options = options_of(int(self._read()))

    def set_latency(self, milliseconds: float) -> dict[str, int]:
        """Sets the added latency. Returns what the server did since the last call: its requests by kind, their
        `bytes`, and its processor time in `cpu_ms`."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{milliseconds}\n")
        self._process.stdin.flush()
        counts: dict[str, int] = json.loads(self._read())
        return counts

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


@contextmanager
def serving(directory: Path) -> Iterator[Remote]:
    """Runs a server of the files below a directory."""
    command = [sys.executable, "-m", "benchmarks.object_server", str(directory)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1]
    ) as process:
        yield Remote(process)
        process.terminate()


def main() -> None:
    """Serves until its input ends."""
    server = ObjectServer(Path(sys.argv[1]))
    print(server.server_address[1], flush=True)
    before = time.process_time()
    for line in sys.stdin:
        server.latency = float(line) / 1000
        taken, before = time.process_time() - before, time.process_time()
        seen, server.requests = server.requests, []
        counts = {kind: sum(each.kind == kind for each in seen) for kind in ("GET", "HEAD", "LIST")}
        bytes_sent = sum(each.size for each in seen)
        print(json.dumps({**counts, "bytes": bytes_sent, "cpu_ms": round(taken * 1000)}), flush=True)


if __name__ == "__main__":
    main()
