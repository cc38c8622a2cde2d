"""A small S3 server for tests and for the demo: buckets in memory, on a port of this machine, in a thread.

It knows what this package and the tests ask of a store: to make a bucket; to put (also in parts), copy, get, look at,
list and delete objects; ranges, If-Match and If-None-Match. It checks signatures (version 4) as S3 does. It has one
user, one region.
It can speak as Google Cloud Storage does (XML API), too: a bearer token, and a generation for each state of an object.
moto in its place brings an environment of 317 MB. `make test-stores` runs the same tests with s3proxy,
so that nothing depends on what this server alone believes.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import formatdate
from functools import lru_cache
from threading import Event, Thread
from urllib.parse import parse_qsl, quote, unquote
from xml.sax.saxutils import escape, unescape

REGION = "us-east-1"
_MOST_KEYS = 1000  # of one answer to a listing, as S3 gives
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")
_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<user>[^/]+)/(?P<day>\d+)/(?P<region>[^/]+)/s3/aws4_request,"
    r" ?SignedHeaders=(?P<names>[^,]+), ?Signature=(?P<signature>\w+)"
)
_REASONS = {200: "OK", 204: "No Content", 206: "Partial Content"}
_STATUS = {
    "AccessDenied": 403,
    "AuthorizationHeaderMalformed": 400,
    "InvalidAccessKeyId": 403,
    "InvalidRange": 416,
    "MethodNotAllowed": 405,
    "NoSuchBucket": 404,
    "NoSuchKey": 404,
    "PreconditionFailed": 412,
    "SignatureDoesNotMatch": 403,
}


@dataclass(frozen=True)
class _Object:
    data: bytes
    tag: str
    changed: float
    generation: int


@dataclass(frozen=True)
class _Request:
    """A request: its path and query as they were sent, names of headers in small letters."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class _Answer:
    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


class _RefusedError(Exception):
    """A request that fails, with the code that S3 gives."""


class _Buckets:
    """All buckets of a server, and the answers to requests."""

    def __init__(self, user: str, secret: str) -> None:
        self._user, self._secret = user, secret
        self._buckets: dict[str, dict[str, _Object]] = {}
        self._uploads: dict[str, dict[int, bytes]] = {}
        self._generation = 0

    def answer(self, request: _Request) -> _Answer:
        try:
            self._check_sender(request)
            bucket, _, key = unquote(request.path[1:]).partition("/")
            return self._answer_bucket(request, bucket) if not key else self._answer_key(request, bucket, key)
        except _RefusedError as error:
            code = str(error)
            return _Answer(_STATUS[code], f"<Error><Code>{code}</Code></Error>".encode())

    def _check_sender(self, request: _Request) -> None:
        found = _AUTHORIZATION.fullmatch(request.headers.get("authorization", ""))
        if found is None:
            raise _RefusedError("AccessDenied")
        if found["user"] != self._user:
            raise _RefusedError("InvalidAccessKeyId")
        if found["region"] != REGION:
            raise _RefusedError("AuthorizationHeaderMalformed")
        if found["signature"] != _sign(request, found["names"].split(";"), self._secret):
            raise _RefusedError("SignatureDoesNotMatch")

    def _answer_bucket(self, request: _Request, bucket: str) -> _Answer:
        if request.method == "PUT":
            self._buckets.setdefault(bucket, {})
            return _Answer(200)
        if request.method == "POST" and request.query == "delete":
            keys = re.findall(r"<Key>(.*?)</Key>", request.body.decode())
            for key in keys:
                self._find(bucket).pop(unescape(key), None)
            done = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
            return _Answer(200, f"<DeleteResult>{done}</DeleteResult>".encode())
        if request.method != "GET":
            raise _RefusedError("MethodNotAllowed")
        return self._list(self._find(bucket), dict(parse_qsl(request.query, keep_blank_values=True)))

    def _find(self, bucket: str) -> dict[str, _Object]:
        if bucket not in self._buckets:
            raise _RefusedError("NoSuchBucket")
        return self._buckets[bucket]

    def _list(self, objects: dict[str, _Object], query: dict[str, str]) -> _Answer:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("continuation-token") or query.get("start-after", "")
        most = min(int(query.get("max-keys", _MOST_KEYS)), _MOST_KEYS)
        parts: list[str] = []
        last, prefixes, is_cut = "", set[str](), False
        for key in sorted(each for each in objects if each.startswith(prefix)):
            rest = key[len(prefix) :]
            is_below = bool(delimiter) and delimiter in rest
            name = prefix + rest.partition(delimiter)[0] + delimiter if is_below else key
            if name <= after or name in prefixes:
                continue
            if len(parts) == most:
                is_cut = True
                break
            last = name
            if is_below:
                prefixes.add(name)
                parts.append(f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>")
            else:
                found = objects[key]
                when = datetime.fromtimestamp(found.changed, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
                parts.append(
                    f"<Contents><Key>{escape(key)}</Key><LastModified>{when}</LastModified><ETag>{escape(found.tag)}"
                    f"</ETag><Size>{len(found.data)}</Size></Contents>"
                )
        more = f"<NextContinuationToken>{escape(last)}</NextContinuationToken>" if is_cut else ""
        body = f"<ListBucketResult><IsTruncated>{str(is_cut).lower()}</IsTruncated>{''.join(parts)}{more}"
        return _Answer(200, f"{body}</ListBucketResult>".encode(), {"Content-Type": "application/xml"})

    def _answer_key(self, request: _Request, bucket: str, key: str) -> _Answer:
        objects = self._find(bucket)
        found = objects.get(key)
        if request.method == "DELETE":
            objects.pop(key, None)
            return _Answer(204)
        query = dict(parse_qsl(request.query, keep_blank_values=True))
        if "uploads" in query or "uploadId" in query:
            return self._answer_upload(request, objects, key, query)
        if request.method == "PUT":
            self._check_condition(request, found)
            source = unquote(request.headers.get("x-amz-copy-source", "")).lstrip("/")
            if not source:
                return _Answer(200, headers=self._put(objects, key, request.body))
            bucket, _, of = source.partition("/")
            if of not in self._find(bucket):
                raise _RefusedError("NoSuchKey")
            tag = self._put(objects, key, self._find(bucket)[of].data)["ETag"]
            when = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
            body = f"<CopyObjectResult><ETag>{escape(tag)}</ETag><LastModified>{when}</LastModified></CopyObjectResult>"
            return _Answer(200, body.encode(), {"Content-Type": "application/xml"})
        if request.method not in ("GET", "HEAD"):
            raise _RefusedError("MethodNotAllowed")
        if found is None:
            raise _RefusedError("NoSuchKey")
        if request.headers.get("if-match", found.tag) != found.tag:
            raise _RefusedError("PreconditionFailed")
        headers = self._name_version(found) | {"Last-Modified": formatdate(found.changed, usegmt=True)}
        wanted = _RANGE.fullmatch(request.headers.get("range", ""))
        if wanted is None:
            return _Answer(200, found.data, headers)
        size = len(found.data)
        begin = int(wanted[1]) if wanted[1] else max(0, size - int(wanted[2]))
        end = min(int(wanted[2]) + 1 if wanted[1] and wanted[2] else size, size)
        if begin >= size:
            raise _RefusedError("InvalidRange")
        headers["Content-Range"] = f"bytes {begin}-{end - 1}/{size}"
        return _Answer(206, found.data[begin:end], headers)

    def _put(self, objects: dict[str, _Object], key: str, data: bytes) -> dict[str, str]:
        self._generation += 1
        tag = f'"{hashlib.md5(data).hexdigest()}"'
        objects[key] = _Object(data, tag, datetime.now(UTC).timestamp(), self._generation)
        return self._name_version(objects[key])

    def _answer_upload(
        self, request: _Request, objects: dict[str, _Object], key: str, query: dict[str, str]
    ) -> _Answer:
        """An object that comes in parts."""
        if "uploads" in query:
            number = str(len(self._uploads))
            self._uploads[number] = {}
            return _Answer(
                200,
                f"<InitiateMultipartUploadResult><Bucket>b</Bucket><Key>{escape(key)}</Key><UploadId>{number}</UploadId>"
                "</InitiateMultipartUploadResult>".encode(),
                {"Content-Type": "application/xml"},
            )
        parts = self._uploads[query["uploadId"]]
        if request.method == "PUT":
            parts[int(query["partNumber"])] = request.body
            return _Answer(200, headers={"ETag": f'"{hashlib.md5(request.body).hexdigest()}"'})
        if request.method == "POST":
            tag = self._put(objects, key, b"".join(parts[number] for number in sorted(parts)))["ETag"]
            body = f"<CompleteMultipartUploadResult><Key>{escape(key)}</Key><ETag>{escape(tag)}</ETag>"
            return _Answer(200, f"{body}</CompleteMultipartUploadResult>".encode(), {"Content-Type": "application/xml"})
        self._uploads[query["uploadId"]] = {}
        return _Answer(204)

    def _check_condition(self, request: _Request, found: _Object | None) -> None:
        wanted = request.headers.get("if-match")
        if (wanted is not None and (found is None or found.tag != wanted)) or (
            found is not None and request.headers.get("if-none-match") == "*"
        ):
            raise _RefusedError("PreconditionFailed")

    def _name_version(self, found: _Object) -> dict[str, str]:
        return {"ETag": found.tag}


class _GoogleBuckets(_Buckets):
    """Answers as Google Cloud Storage does. It writes under conditions of generations alone."""

    def _check_sender(self, request: _Request) -> None:
        if request.headers.get("authorization") != f"Bearer {self._secret}":
            raise _RefusedError("AccessDenied")

    def _check_condition(self, request: _Request, found: _Object | None) -> None:
        wanted = request.headers.get("x-goog-if-generation-match")
        if wanted is not None and int(wanted) != (0 if found is None else found.generation):
            raise _RefusedError("PreconditionFailed")

    def _name_version(self, found: _Object) -> dict[str, str]:
        return {"ETag": found.tag, "x-goog-generation": str(found.generation)}


class _Connection(asyncio.Protocol):
    """One connection: whole requests in, answers out, in order."""

    def __init__(self, buckets: _Buckets) -> None:
        self._buckets = buckets
        self._received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (request := self._take()) is not None:
            answer = self._buckets.answer(request)
            headers = {"Content-Length": str(len(answer.body))} | answer.headers
            is_last = request.headers.get("connection", "").lower() == "close"
            lines = [f"HTTP/1.1 {answer.status} {_REASONS.get(answer.status, 'Failed')}"]
            lines += [f"{name}: {text}" for name, text in headers.items()] + ["Connection: close"] * is_last
            head = "\r\n".join(lines).encode() + b"\r\n\r\n"
            self._transport.write(head if request.method == "HEAD" else head + answer.body)
            if is_last:
                self._transport.close()

    def _take(self) -> _Request | None:
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return None
        first, *lines = self._received[:end].decode("latin-1").split("\r\n")
        headers = {name.lower(): text.strip() for name, _, text in (line.partition(":") for line in lines)}
        size = int(headers.get("content-length", 0))
        if len(self._received) < end + 4 + size:
            return None
        body = bytes(self._received[end + 4 : end + 4 + size])
        del self._received[: end + 4 + size]
        method, target, _ = first.split(" ")
        path, _, query = target.partition("?")
        return _Request(method, path, query, headers, body)


@contextmanager
def serving(user: str, secret: str, is_google: bool = False) -> Iterator[str]:
    """Runs a server. The URL of it."""
    started = Event()
    loop = asyncio.new_event_loop()
    ports: list[int] = []

    async def start() -> asyncio.Server:
        buckets = (_GoogleBuckets if is_google else _Buckets)(user, secret)
        server = await loop.create_server(lambda: _Connection(buckets), "127.0.0.1", 0)
        ports.append(server.sockets[0].getsockname()[1])
        return server

    def run() -> None:
        server = loop.run_until_complete(start())
        started.set()
        loop.run_forever()
        server.close()
        loop.close()

    thread = Thread(target=run, daemon=True)
    thread.start()
    started.wait()
    try:
        yield f"http://127.0.0.1:{ports[0]}"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def send(method: str, server: str, path: str, user: str, secret: str, body: bytes = b"") -> None:
    """Sends a signed request, of any path, to any S3 server. Raises HTTPError if it fails."""
    now = datetime.now(UTC)
    headers = {
        "host": server.partition("://")[2],
        "x-amz-content-sha256": hashlib.sha256(body).hexdigest(),
        "x-amz-date": now.strftime("%Y%m%dT%H%M%SZ"),
    }
    request = _Request(method, quote(path), "", headers, body)
    scope = f"{now:%Y%m%d}/{REGION}/s3/aws4_request"
    authorization = (
        f"AWS4-HMAC-SHA256 Credential={user}/{scope}, SignedHeaders={';'.join(headers)},"
        f" Signature={_sign(request, list(headers), secret)}"
    )
    sent = {**headers, "Authorization": authorization, "Content-Type": "application/octet-stream"}
    urllib.request.urlopen(urllib.request.Request(server + request.path, body, sent, method=method)).read()


def _sign(request: _Request, names: list[str], secret: str) -> str:
    """The signature of a request, version 4, over the headers of these names."""
    headers = request.headers
    pairs = parse_qsl(request.query, keep_blank_values=True)
    query = sorted(f"{quote(name, safe='')}={quote(text, safe='')}" for name, text in pairs)
    lines = [
        request.method,
        quote(unquote(request.path)),
        "&".join(query),
        *(f"{name}:{headers.get(name, '')}" for name in names),
        "",
    ]
    lines += [";".join(names), headers.get("x-amz-content-sha256", "UNSIGNED-PAYLOAD")]
    date = headers.get("x-amz-date", "")
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    text = f"AWS4-HMAC-SHA256\n{date}\n{date[:8]}/{REGION}/s3/aws4_request\n{digest}"
    return _hash(_key_of(secret, date[:8]), text).hex()


@lru_cache
def _key_of(secret: str, day: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (day, REGION, "s3", "aws4_request"):
        key = _hash(key, part)
    return key


def _hash(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()
