"""What users are told of a bucket: each fault in one sentence, within seconds, and a secret never."""

from __future__ import annotations

import json
import logging
import pickle
import re
import sys
import time
import traceback
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import KafkaSegmentError, OptionError, PathError, StorageError
from kafka_segment_source.keywords import option_texts
from kafka_segment_source.options import parse_options
from kafka_segment_source.storage import object_client
from kafka_segment_source.storage.secrets import find_secret, hide_secrets, is_secret
from kafka_segment_source.storage.service_errors import translate
from kafka_segment_source.storage.settings import Settings, make_settings
from tests.cli.runner import LOGS, run
from tests.support import s3_server
from tests.support.buckets import CANARY, USER, Bucket, answering, make_bucket, options_of

SECONDS = 15  # for each sentence, on a busy machine
PATH = "s3://logs/x"

ANSWERS = [
    (
        403,
        "<Error><Code>InvalidAccessKeyId</Code></Error>",
        r"does not accept the credentials \(403 InvalidAccessKeyId\)",
    ),
    (403, "<Error><Code>SignatureDoesNotMatch</Code></Error>", "does not accept the credentials"),
    (400, "<Error><Code>ExpiredToken</Code></Error>", "the credentials are no longer valid"),
    (403, "<Error><Code>AccessDenied</Code></Error>", r"does not allow it \(403 AccessDenied\): check the credentials"),
    (403, "", r"does not allow it \(403\)"),
    (404, "<Error><Code>NoSuchBucket</Code></Error>", "there is no bucket 'logs'"),
    (
        301,
        "<Error><Code>PermanentRedirect</Code></Error>",
        "in another region .*: check aws_region and aws_endpoint_url",
    ),
    (301, "", r"in another region \(a redirect\): check aws_region"),
    (400, "<Error><Code>AuthorizationHeaderMalformed</Code></Error>", "in another region .*: check aws_region"),
    (503, "<Error><Code>SlowDown</Code></Error>", r"throttles \(503, after 4 tries\): ask for less"),
    (500, "<Error><Code>InternalError</Code></Error>", "answered 500, after 4 tries"),
]


def error_of(path: str = PATH, **options: str) -> KafkaSegmentError:
    """The error of a plan, which must come soon and without any trace of the secret."""
    begun = time.monotonic()
    with pytest.raises(KafkaSegmentError) as caught:
        kafkaseg.plan(path, storage_options=options)
    assert time.monotonic() - begun < SECONDS
    shown = "".join(traceback.format_exception(caught.value))
    assert CANARY not in shown + repr(caught.value) and "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(("status", "body", "said"), ANSWERS)
def test_what_a_server_answers(status: int, body: str, said: str) -> None:
    """The path, what to check, and nothing of the answer but its codes, as it may repeat what it was sent."""
    body = body.replace("</Error>", f"<Token-0>{CANARY}</Token-0><AWSAccessKeyId>{CANARY}</AWSAccessKeyId></Error>")
    with answering(status, body) as url:
        error = error_of("s3://logs/*", **options_of(url))
    assert str(error).startswith("file 's3://logs/*' cannot be read: ")
    assert isinstance(error, PathError if "no bucket" in said else StorageError)
    assert re.search(said, str(error)), str(error)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"aws_endpoint_url": "http://127.0.0.1:1"},
            "nothing listens at http://127.0.0.1:1, after 4 tries: check aws_r",
        ),
        ({"aws_endpoint_url": "http://no.such.host.invalid"}, "the host of http://no.such.host.invalid is not known"),
        ({"aws_endpoint_url": "https://{}"}, "does not speak TLS: check aws_region and aws_endpoint_url"),
        ({"aws_allow_http": "false"}, "is without TLS: give aws_allow_http=true if that is meant"),
    ],
)
def test_a_server_that_is_not_reached(changed: dict[str, str], said: str) -> None:
    """Refused, unknown, without TLS, and TLS that is missing."""
    with answering(200) as url:
        options = options_of(url) | {name: text.format(url[7:]) for name, text in changed.items()}
        error = error_of(**options)
    assert isinstance(error, StorageError) and said in str(error)
    assert str(error).startswith(f"file {PATH!r} cannot be read: ") and error.filename == PATH


UNUSABLE = [
    ({"AWS_ENDPOINT_URL": "store:9000"}, "aws_endpoint_url has no scheme: expected https://HOST"),
    ({"AWS_ENDPOINT_URL": "http://"}, "aws_endpoint_url names no host"),
    ({"AWS_ENDPOINT_URL": f"http://user:{CANARY}@store"}, "aws_endpoint_url has a user name in it: credentials are op"),
    ({"AWS_ENDPOINT_URL": f"http://store?sig={CANARY}"}, "aws_endpoint_url has a query or a fragment"),
    ({"AWS_ENDPOINT_URL": "http://store/logs"}, "aws_endpoint_url ends in the bucket 'logs': leave it out there"),
    ({"AWS_SESSION_TOKEN": f"{CANARY}\n{CANARY}"}, "aws_session_token has a control character"),
    ({"AWS_REGION": "us\teast"}, "aws_region has a control character"),
    ({"AWS_ENDPOINT_URL": "http://a^b"}, "the client of object stores failed at a storage option, or at a variable"),
    ({"AWS_ALLOW_HTTP": "yes please"}, "aws_allow_http is neither true nor false"),
    ({"AWS_SECRET_ACCESS_KEY": ""}, "aws_access_key_id is given, and aws_secret_access_key is missing"),
    ({"AWS_ACCESS_KEY_ID": ""}, "aws_secret_access_key is given, and aws_access_key_id is missing"),
    ({"AWS_CA_BUNDLE": __file__}, "has no certificate: expected PEM"),
    ({"AWS_CONNECT_TIMEOUT": "soon"}, "no client can be made of the storage options"),
]


@pytest.mark.parametrize("how", ["options", "environment"])
@pytest.mark.parametrize(("changed", "said"), UNUSABLE)
def test_values_that_cannot_be_used(
    changed: dict[str, str], said: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library fails at them without a reason, some times with a panic. Here each has a sentence, and no value."""
    options = options_of("http://127.0.0.1:1") | {name.lower(): text for name, text in changed.items()}
    if how == "environment":
        if "AWS_CONNECT_TIMEOUT" in changed:
            pytest.skip("it is an option only")
        with object_client._clients_lock:  # a thread of the test before may still make a client of the old environment
            for name, text in options.items():
                monkeypatch.setenv(name.upper(), text)
            monkeypatch.setattr(object_client, "_clients", {})  # one that was made is kept
        options = {}
    error = error_of(**options)
    assert isinstance(error, PathError) and said in str(error), str(error)


def test_values_with_blanks_around_them(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line break at the end comes with a value from a file. It is no part of the value."""
    url = bucket.put_tree(LOGS / "orders-0", "orders-0")
    padded = {name: f" {text}\n" for name, text in bucket.options.items()}
    assert kafkaseg.plan(url, storage_options=padded).splits
    monkeypatch.setattr(object_client, "_clients", {})
    for name, text in padded.items():
        monkeypatch.setenv(name.upper(), text)
    assert kafkaseg.plan(url).splits


def test_an_empty_endpoint_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is that of S3 itself, which a proxy that refuses everything stands in for here."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "")
    options = options_of("") | {"aws_proxy_url": "http://127.0.0.1:1", "aws_region": "eu-west-3"}
    assert "https://s3.eu-west-3.amazonaws.com" in str(error_of(**options))


def test_a_redirect_to_itself() -> None:
    """A loop is no broken connection."""
    with answering(307, headers={"Location": "/logs"}) as url:
        assert f"{url} redirects without an end: check aws_region" in str(error_of(**options_of(url)))


def test_temporary_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of a token that is missing, and a service that refuses: neither is a fault of the store."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    options = {name: text for name, text in options_of("http://127.0.0.1:1").items() if "access_key" not in name}
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/x")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setattr(object_client, "_clients", {})
    assert "the file of the web identity token (aws_web_identity_token_file) cannot be read" in str(error_of(**options))
    (tmp_path / "token").write_text(CANARY)
    monkeypatch.setattr(object_client, "_clients", {})
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", "https://127.0.0.1:1")
    assert "temporary credentials (STS) gave none (no answer): check aws_endpoint_url_sts" in str(error_of(**options))


def test_no_account() -> None:
    """A container of Azure needs one."""
    assert "abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/" in str(error_of("az://logs/x"))


def test_exit_codes(bucket: Bucket) -> None:
    """A wrong path is wrong use; a server that fails may be asked again."""
    assert run("ls", f"{bucket.url}/none", *bucket.flags).exit_code == 2
    with answering(500) as url:
        flags = [word for name, text in options_of(url).items() for word in ("--storage-option", f"{name}={text}")]
        done = run("ls", PATH, *flags)
    assert done.exit_code == 1 and done.stderr.count("\n") == 1 and CANARY not in done.output


@pytest.mark.parametrize("flag", ["no-equals-sign", f"={CANARY}"])
def test_a_storage_option_that_is_none(flag: str) -> None:
    """KEY=VALUE is expected; the error does not repeat what may be a secret."""
    done = run("ls", PATH, "--storage-option", flag)
    assert done.exit_code == 2 and "expected KEY=VALUE" in done.stderr and CANARY not in done.output


@pytest.mark.parametrize("end", ["", "/*", "/orders-0"])
def test_a_key_that_is_no_path(end: str) -> None:
    """The client lists nothing beside it. The sentence names the path and the key. Other directories are read.

    The server is always that of the tests: s3proxy joins `//` in keys.
    """
    with s3_server.serving(USER, CANARY) as url:
        bucket = make_bucket(url)
        bucket.put("odd/orders-0/00000000000000000000.log", b"")
        s3_server.send("PUT", url, f"/{bucket.name}/odd/orders-0//x", USER, CANARY)
        s3_server.send("PUT", url, f"/{bucket.name}/odd//x", USER, CANARY)
        error = error_of(f"{bucket.url}/odd{end}", **bucket.options)
    key = "odd/orders-0//" if end == "/orders-0" else "odd//"
    assert isinstance(error, PathError)
    assert str(error).startswith((f"path '{bucket.url}/odd{end}' cannot be", f"file '{bucket.url}/odd{end}' cannot be"))
    assert f'the key "{key}' in str(error) and "has an empty part" in str(error)


SIGNED = f"?sv=2024-01-01&sig={CANARY}"


@pytest.mark.parametrize(
    "path",
    [
        f"https://user:{CANARY}@host/logs",
        f"https://logs.blob.core.windows.net/c/x{SIGNED}",
        f"az://c/x{SIGNED}",
        f"s3://logs/x?X-Amz-Signature={CANARY}",
        f"s3://user:{CANARY}@logs/x",
        f"az://@{SIGNED}",
        f"hdfs://user:{CANARY}@host/x",
        f"wasbs://user:{CANARY}@host/x",
        f"s3://user:a/{CANARY}@logs/x",
        f"S3A://user%3A{CANARY}%40logs/x",
        f"abfss://container:{CANARY}@account.dfs.core.windows.net/x",
        f"az://c/x%3Fsv=2024-01-01&sig={CANARY}",
        f"gs://logs/x%253FX-Goog-Signature%253D{CANARY}",
        f"s3:/user:{CANARY}@logs/x",
    ],
)
def test_a_secret_in_a_path(path: str) -> None:
    """No message shows a password or a signature that somebody has left in a URL."""
    assert "path" in str(error_of(path))


def test_a_secret_of_a_proxy() -> None:
    """A server's or a proxy's URL is shown without the user's name and password."""
    proxy = f"http://user:{CANARY}@127.0.0.1:1"
    assert "127.0.0.1:9" in str(error_of(**options_of("http://127.0.0.1:9"), aws_proxy_url=proxy))
    said = (
        f"Error performing GET http://user:{CANARY}@store:9/logs?sig={CANARY} in 1s - HTTP error: error sending request"
    )
    assert "http://store:9" in str(translate(OSError(said), "s3://logs"))


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("aws_regoin", "aws_region"),
        ("region", "aws_region"),
        ("endpoint_url", "aws_endpoint_url"),
        ("fs.s3a.secretkey", "fs.s3a.secret.key"),
        ("azure_account_key", "azure_storage_account_key"),
    ],
)
def test_an_unknown_name(name: str, near: str) -> None:
    """It is an error with a near match, and without the value."""
    with pytest.raises(OptionError, match=f"'{name}' is unknown; did you mean '{near}'") as caught:
        kafkaseg.plan(PATH, storage_options={name: CANARY})
    assert CANARY not in str(caught.value)


def test_a_name_twice() -> None:
    """Two spellings of a name in capitals and small letters: the error has neither value."""
    with pytest.raises(OptionError, match="given twice, with two values") as caught:
        make_settings({"AWS_SECRET_ACCESS_KEY": CANARY, "aws_secret_access_key": "other"})
    assert CANARY not in str(caught.value)


def test_spellings_of_hadoop() -> None:
    """S3A's names, one bucket's before those of all, and object_store's before both."""
    settings = make_settings(
        {
            "fs.s3a.endpoint": "store:9000",
            "fs.s3a.connection.ssl.enabled": "false",
            "fs.s3a.access.key": "all",
            "fs.s3a.bucket.my.logs.access.key": "one",
            "fs.s3a.bucket.my.logs.endpoint.region": "eu-central-1",
            "AWS_SESSION_TOKEN": "t",
        }
    )
    general = {"aws_endpoint_url": "http://store:9000", "aws_allow_http": "true", "aws_session_token": "t"}
    assert settings.of_bucket("other") == general | {"aws_access_key_id": "all"}
    assert settings.of_bucket("my.logs") == general | {"aws_access_key_id": "one", "aws_region": "eu-central-1"}
    anonymous = {"fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"}
    assert make_settings(anonymous).of_bucket("b") == {"aws_skip_signature": "true"}


def test_which_names_are_secret() -> None:
    """What gives access is; where things are is not."""
    secret = ["aws_secret_access_key", "aws_session_token", "fs.s3a.secret.key", "fs.s3a.bucket.b.session.token"]
    secret += ["azure_storage_account_key", "azure_storage_sas_token", "google_service_account_key"]
    assert all(map(is_secret, secret))
    assert not any(
        map(is_secret, ["aws_region", "aws_endpoint_url", "aws_web_identity_token_file", "topic", "keyspace"])
    )


HOSTS = {  # a URL with a user, and the same without
    f"s3://AKIA:{CANARY}@logs/x": "s3://logs/x",
    f"s3a://AKIA:{CANARY}/more@logs": "s3a://logs",
    f"gs://user:{CANARY}@logs/a@b:c": "gs://logs/a@b:c",
    f"{CANARY}@": "",
    f"abfss://c:{CANARY}@a.dfs.core.windows.net/x": "abfss://c@a.dfs.core.windows.net/x",
    f"https://user:{CANARY}@a.blob.core.windows.net/c": "https://a.blob.core.windows.net:443/c",
}
QUERIES = {
    f"az://c/logs?sig={CANARY}": "az://c/logs?/sig=1",
    f"abfss://c@a.dfs.core.windows.net/x?se=2026&sp=r&sig={CANARY}": "abfss://c@a.dfs.core.windows.net/x?",
    f"https://a.blob.core.windows.net/c?sv=2024-01-01&SIG={CANARY}": "https://a.blob.core.windows.net/c",
    f"s3://logs/x?AWSAccessKeyId=AKIA&Signature={CANARY}": "s3://logs/x?/orders-[01]",
    f"gs://logs/x?X-Goog-Credential={CANARY}": "gs://logs/credential=x",
}


@pytest.mark.parametrize("option", ["path", "PATHS", "zoneMaps", "fs.s3a.endpoint"])
@pytest.mark.parametrize("encoded", range(3))
@pytest.mark.parametrize(("secret", "plain"), [*HOSTS.items(), *QUERIES.items()])
def test_where_a_secret_stands(secret: str, plain: str, encoded: int, option: str) -> None:
    """In any option, in a list, in capitals, and percent-encoded once or twice; the same URL without it is none."""
    if "://" not in secret:
        option = "fs.s3a.bucket.logs.endpoint"  # the scheme may be missing there, and nowhere else
    scheme, _, rest = secret.rpartition("://")
    for _ in range(encoded):
        rest = quote(rest)
    text = f"{scheme}://{rest}" if scheme else rest
    for given in (text, text.replace(scheme, scheme.upper(), 1), json.dumps(["/x", text])):
        place = find_secret(option, given)
        assert place is not None
        assert CANARY not in place
    assert CANARY not in hide_secrets(text) or "://" not in text
    if "endpoint" not in option:
        assert find_secret(option, plain) is None
        assert find_secret(option, json.dumps([plain, "file:///a@b:c", "/d:e@f?sig=g", "x:y@z"])) is None


@pytest.mark.parametrize(
    "endpoint",
    ["https://store", "http://127.0.0.1:9000/", "store:9000", "http://[::1]:9000", "https://s3.example.org/a:b"],
)
def test_a_servers_url_without_a_secret(endpoint: str) -> None:
    """A port is no password."""
    for name in ("aws_endpoint_url", "FS.S3A.ENDPOINT", "azure_storage_endpoint", "google_base_url"):
        assert find_secret(name, endpoint) is None


# --- profiles --------------------------------------------------------------------------------------------------------


@pytest.fixture
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`~/.aws` with a profile named backups, and nothing in the environment."""
    (tmp_path / "credentials").write_text(f"[backups]\naws_access_key_id = test\naws_secret_access_key = {CANARY}\n")
    (tmp_path / "config").write_text("[profile backups]\nregion = us-east-1\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("profiles")
@pytest.mark.parametrize("how", ["option", "environment"])
def test_a_profile(how: str, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """boto3 reads it. Without boto3, the error says what to install."""
    url = bucket.put_tree(LOGS / "orders-0", "orders-0")
    options = {name: bucket.options[name] for name in ("aws_endpoint_url", "aws_allow_http")}
    if how == "option":
        options["aws_profile"] = "backups"
    else:
        monkeypatch.setenv("AWS_PROFILE", "backups")
    assert kafkaseg.scan(url, ["offset"], storage_options=options).read_all().num_rows == 1164
    with pytest.raises(OptionError, match="AWS profile 'nobody' cannot be used: ProfileNotFound"):
        kafkaseg.plan(url, storage_options=options | {"aws_profile": "nobody"})
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(OptionError, match="'backups' is named, but only boto3 reads profiles: pip install boto3"):
        kafkaseg.plan(f"s3://other-{bucket.name}/x", storage_options=options)


# --- secrets ---------------------------------------------------------------------------------------------------------


def test_a_secret_is_nowhere(bucket: Bucket, caplog: pytest.LogCaptureFixture) -> None:
    """Not in a plan, its texts and JSON, its splits, its options, a warning, a log, a finding, or a zone map."""
    caplog.set_level(logging.DEBUG)
    url = bucket.put_tree(LOGS, "orders")
    given: dict[str, Any] = {"storage_options": bucket.options}
    kafkaseg.update_zone_maps_locally(url, f"{bucket.url}/maps", **given)
    plan = kafkaseg.plan(url, zoneMaps=f"{bucket.url}/maps", since="2026-03-10T09:30", until=1_773_136_000_000, **given)
    shown = [repr(plan), str(plan), plan._repr_html_(), plan.to_dict(), plan.options, plan.splits, plan.warnings]
    shown += [kafkaseg.verify(url, **given), kafkaseg.list_partitions(url, **given), plan.options.source.storage]
    shown += [bucket.get(key) for key in bucket.list_keys() if key.startswith("maps/")]
    assert CANARY not in "".join(map(repr, shown)) + caplog.text
    assert CANARY.encode() in pickle.dumps(plan.splits[0])  # a task needs it
    assert "aws_secret_access_key" in repr(plan.options)


def test_storages_are_equal_by_their_options() -> None:
    """Two reads with the same options share clients."""
    one, same, other = (
        parse_options(option_texts(PATH, {"storage_options": {"aws_region": region}}))[0].source.storage
        for region in ("a", "a", "b")
    )
    assert one == same != other and hash(one) == hash(same) and pickle.loads(pickle.dumps(one)) == one
    assert repr(Settings((("aws_token", CANARY),))) == "Settings(aws_token)"
