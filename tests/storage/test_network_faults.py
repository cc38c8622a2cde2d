"""Faults of networks and of busy servers: those that pass are retried, those that last end in one sentence soon."""

from __future__ import annotations

import os
import re
import ssl
import time
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import PathError, StorageError
from kafka_segment_source.storage import object_client, object_memory
from kafka_segment_source.storage.object_store import ObjectStorage
from kafka_segment_source.storage.settings import make_settings
from kafka_segment_source.storage.store import ServiceError
from tests.cli.runner import LOGS, run
from tests.support.batches import data
from tests.support.buckets import CANARY, Bucket, options_of
from tests.support.certificates import make_certificate
from tests.support.faulty_proxy import Fault, Proxy, answer, be_silent, change, end_early, hang, proxying, reset, say
from tests.support.logs import simple_log, simple_segment
from tests.support.writer import segment_name

TRANSACTIONS = Path(__file__).parents[1] / "fixtures" / "transactions" / "data"
SECONDS = 20  # for a read that is retried, or for the error of one, on a busy machine
FAULTS: dict[str, tuple[Fault, str]] = {
    "503": (answer(503, "SlowDown"), r"throttles (503 SlowDown, after 4 tries): ask for less at a time"),
    "429": (answer(429, "TooManyRequests"), r"throttles (429 TooManyRequests, after 4 tries): ask for less at a time"),
    "500": (answer(500, "InternalError"), "answered 500 InternalError, after 4 tries"),
    "reset": (reset, "broke, after 4 tries"),
    "early end": (end_early, "the connection to the store broke"),
    "no answer": (be_silent, "does not answer in time"),
    "half an answer": (hang, "does not answer in time"),
}
LISTING, READING = "GET .*list-type=2", rf"GET .*/{segment_name(10)}"


@pytest.fixture
def proxy(s3_server: str) -> Iterator[Proxy]:
    with proxying(s3_server) as running:
        yield running


@pytest.fixture
def behind(bucket: Bucket, proxy: Proxy, tmp_path: Path) -> Bucket:
    """The bucket as it is seen through the proxy. It has a log: orders-0, offsets 0 to 39 in four segments."""
    segments = [simple_segment([data(at, 10 * at) for at in range(base, base + 10)]) for base in (0, 10, 20, 30)]
    simple_log(*segments).write(tmp_path)
    bucket.put_tree(tmp_path, "logs")
    return replace(bucket, options=options_of(proxy.url))


def offsets(bucket: Bucket, **options: Any) -> list[int]:
    given = bucket.options | {"aws_timeout": "1s"}
    reader = kafkaseg.scan(f"{bucket.url}/logs", ["offset"], storage_options=given, **options)
    return reader.read_all()["offset"].to_pylist()  # type: ignore[no-any-return]


def error_of(bucket: Bucket, **options: Any) -> StorageError:
    """The error of a scan, which must come soon and without any trace of the secret."""
    begun = time.monotonic()
    with pytest.raises(StorageError) as caught:
        offsets(bucket, **options)
    assert time.monotonic() - begun < SECONDS
    shown = "".join(traceback.format_exception(caught.value))
    assert CANARY not in shown + repr(caught.value) and "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("where", [LISTING, READING], ids=["listing", "reading"])
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_that_passes(name: str, where: str, behind: Bucket, proxy: Proxy) -> None:
    """Two tries fail, the third one does not: all rows, once each."""
    proxy.fail(FAULTS[name][0], where, times=1 if "answer" in name else 2)
    assert offsets(behind) == list(range(40))


@pytest.mark.parametrize("where", [LISTING, READING], ids=["listing", "reading"])
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_that_lasts(name: str, where: str, behind: Bucket, proxy: Proxy) -> None:
    """One sentence with the path and the server, after a few tries."""
    fault, said = FAULTS[name]
    proxy.fail(fault, where)
    path = f"{behind.url}/logs" + (f"/orders-0/{segment_name(10)}" if where == READING else "")
    error = error_of(behind)
    assert str(error).startswith((f"file {path!r} cannot be read: ", f"path {path!r} cannot be listed: "))
    assert said in str(error) and (proxy.url in str(error) or "the store" in str(error)), str(error)


def test_an_exit_code(behind: Bucket, proxy: Proxy) -> None:
    """A fault in the middle of `cat` ends it with 1 and one line."""
    proxy.fail(answer(503, "SlowDown"), READING)
    done = run("cat", f"{behind.url}/logs", *behind.flags)
    assert done.exit_code == 1 and done.stderr.count("\n") == 1 and CANARY not in done.output
    assert f"{segment_name(10)}' cannot be read: {proxy.url} throttles" in done.stderr


def test_one_object_that_may_not_be_read(behind: Bucket, proxy: Proxy) -> None:
    """It is named. It is not tried again."""
    proxy.fail(answer(403, "AccessDenied"), READING)
    error = error_of(behind)
    assert f"{segment_name(10)}' cannot be read: the store does not allow it (403 AccessDenied)" in str(error)
    assert sum(segment_name(10) in line for line in proxy.seen) == 1


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"aws_access_key_id": "nobody"}, r"does not accept the credentials (403 InvalidAccessKeyId)"),
        ({"aws_secret_access_key": "wrong"}, "does not accept the credentials (403 SignatureDoesNotMatch)"),
        ({"aws_region": "eu-central-1"}, "in another region (400 AuthorizationHeaderMalformed): check aws_region"),
    ],
)
def test_wrong_options(changed: dict[str, str], said: str, behind: Bucket) -> None:
    """A server that checks them refuses each once, and nothing is tried again."""
    if "aws_region" in changed and "s3proxy" in os.environ.get("KAFKASEG_STORES", ""):
        pytest.skip("s3proxy takes every region")
    assert said in str(error_of(replace(behind, options=behind.options | changed)))


def test_a_server_that_comes_up(s3_server: str, behind: Bucket) -> None:
    """Connections are refused at first."""
    with proxying(s3_server, listen_after=0.2) as late:
        assert offsets(replace(behind, options=options_of(late.url))) == list(range(40))


def test_a_server_that_ignores_ranges(behind: Bucket, proxy: Proxy) -> None:
    """It is named for that: an answer without the range that was asked for."""
    proxy.fail(say("x" * 100), READING)
    assert "does not answer with the range that was asked for: check aws_region" in str(error_of(behind))


def test_small_files_that_hang(behind: Bucket, proxy: Proxy) -> None:
    """One of them costs all tries. The others are left out at once, and the rows are the same."""
    url, beside = behind.put_tree(LOGS, "small"), "GET .*(index|checkpoint|snapshot)"
    rows = kafkaseg.scan(LOGS).read_all().num_rows
    proxy.fail(be_silent, beside)
    given = behind.options | {"aws_timeout": "1s"}
    assert kafkaseg.scan(url, storage_options=given).read_all().num_rows == rows
    hung = {line.rpartition("/")[2] for line in proxy.seen if re.search(beside, line)}
    assert len(hung) == 4 and all(name.endswith("-checkpoint") for name in hung)  # they were asked for together


def test_what_hangs_is_asked_for_again_once_another_file_answers(
    behind: Bucket, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log counts alone, all other files of a bucket together."""
    monkeypatch.setattr(object_client, "RETRIES", 0)
    storage = ObjectStorage(make_settings(behind.options | {"aws_timeout": "1s"}))
    for name in ("one.index", "two.index", "one.log", "two.log"):
        behind.put(name, b"x")

    def read(name: str) -> bytes:
        return storage.open(f"{behind.url}/{name}").read_at(0, 1)

    proxy.seen.clear()
    proxy.fail(be_silent, "one", times=4)
    for name in ("one.index", "two.index", "one.log", "one.log"):
        with pytest.raises(ServiceError, match="does not answer in time"):
            read(name)
    assert read("two.log") == b"x"
    assert [line.rpartition("/")[2] for line in proxy.seen] == ["one.index", "one.log", "two.log"]
    monkeypatch.setattr(object_memory.time, "monotonic", lambda: 10.0**9)
    assert [read(name) for name in ("two.index", "two.log")] == [b"x"] * 2


@pytest.mark.parametrize("status", [404, 412, 416])
def test_a_version_that_is_listed_and_never_there(status: int, bucket: Bucket, proxy: Proxy) -> None:
    """It ends the read after a few listings. A plan of another listing is made only while that may help."""
    url = bucket.put_tree(LOGS, "logs")
    name = sorted(path.name for path in (LOGS / "orders-0").glob("*.log"))[1]
    code = {404: "NoSuchKey", 412: "PreconditionFailed", 416: "InvalidRange"}[status]
    proxy.fail(answer(status, code), f"orders-0/{name}")
    with pytest.raises(
        StorageError, match=f"{name}' cannot be read: the store lists it, and does not have the version"
    ):
        kafkaseg.scan(url, storage_options=options_of(proxy.url)).read_all()
    assert len([line for line in proxy.seen if name in line]) <= 4 * object_memory.MOST_REFUSALS


def test_e_tags_of_two_forms(bucket: Bucket, proxy: Proxy) -> None:
    """A store that lists ETags without quotes, as Azure does, has the same versions: nothing was replaced."""
    url = bucket.put_tree(TRANSACTIONS, "logs")
    expected = kafkaseg.scan(TRANSACTIONS, isolationLevel="read_committed").read_all()
    proxy.fail(change(rb"<ETag>(?:\"|&quot;)(\w+)(?:\"|&quot;)</ETag>", rb"<ETag>\1</ETag>"), LISTING)
    options = options_of(proxy.url)
    assert kafkaseg.scan(url, isolationLevel="read_committed", storage_options=options).read_all() == expected


NO_LISTINGS = ["<html><body>Please log in</body></html>", "<Error><Code>InternalError</Code></Error>", "<a/>"]


@pytest.mark.parametrize("body", NO_LISTINGS, ids=["page", "error", "XML"])
@pytest.mark.parametrize("passed", [0, 1], ids=["one directory", "all after the first listing"])
def test_an_answer_that_is_no_listing(body: str, passed: int, behind: Bucket, proxy: Proxy) -> None:
    """A directory that a listing has named is never taken for an empty one: its rows would be missing."""
    if passed:
        proxy.fail(lambda exchange: exchange.client.sendall(exchange.ask()), "delimiter=", times=1)
    proxy.fail(say(body), "delimiter=" if passed else "delimiter=.*orders-0")
    error = error_of(behind)
    path = f"{behind.url}/logs/orders-0"
    assert str(error).startswith(f"path {path!r} cannot be listed: the store lists nothing below it, after 4 tries")


@pytest.mark.parametrize("body", NO_LISTINGS, ids=["page", "error", "XML"])
def test_an_answer_that_is_no_listing_once(body: str, behind: Bucket, proxy: Proxy) -> None:
    """The next answer is one: all rows."""
    proxy.fail(say(body), "delimiter=.*orders-0", times=2)
    assert offsets(behind) == list(range(40))


def test_no_listing_of_what_a_glob_names(behind: Bucket, proxy: Proxy) -> None:
    """A partition that a glob should find is not left out. A path whose own listing is empty is said to be absent."""
    proxy.fail(say(NO_LISTINGS[0]), "prefix=logs%2Forders-0", times=2)  # whether it has keys, and which
    given = behind.options
    reader = kafkaseg.scan(f"{behind.url}/l*/orders-0", ["offset"], storage_options=given)
    assert reader.read_all()["offset"].to_pylist() == list(range(40))
    proxy.fail(say(NO_LISTINGS[0]), LISTING)
    with pytest.raises(PathError, match="/logs' does not exist, or the store's answer was no listing"):
        kafkaseg.plan(f"{behind.url}/logs", storage_options=given)
    with pytest.raises(PathError, match=r"nothing matches the path .*, or the store's answer was no listing"):
        kafkaseg.plan(f"{behind.url}/l*", storage_options=given)


def test_latency(behind: Bucket, proxy: Proxy) -> None:
    """A server that is far away gives the same rows, and is asked for the same."""
    assert offsets(behind) == list(range(40))
    near = len(proxy.seen)
    proxy.latency = 0.02
    assert offsets(behind) == list(range(40)) and len(proxy.seen) == 2 * near


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the key and the certificate of 127.0.0.1, and one with that of its authority."""
    return make_certificate(tmp_path_factory.mktemp("tls"))


def test_tls(s3_server: str, behind: Bucket, certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A certificate of an own authority is trusted by its file, named in an option or in the environment."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    authority = str(certificate.with_name("authority.pem"))
    with proxying(s3_server, tls=context) as secure:
        there = replace(behind, options=options_of(secure.url) | {"aws_allow_http": "false"})
        said = f"the certificate of {secure.url} is not trusted: give the file of its authority as aws_ca_bundle"
        assert said in str(error_of(there))
        assert offsets(replace(there, options=there.options | {"aws_ca_bundle": authority})) == list(range(40))
        monkeypatch.setenv("AWS_CA_BUNDLE", authority)
        named = replace(
            there, options=there.options | {"aws_endpoint_url": secure.url.replace("127.0.0.1", "localhost")}
        )
        assert "certificate" in str(error_of(named))  # it is that of another host
