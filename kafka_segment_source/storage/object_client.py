"""Clients of object stores, made of the options and the environment. A process keeps the last ones.

A client is that of one bucket. A store that was used before a fork hangs after it, so each process makes its own.
"""

from __future__ import annotations

import errno
import os
import re
import threading
from datetime import timedelta
from typing import Any

from kafka_segment_source.storage.client_library import client_errors, load_library
from kafka_segment_source.storage.credentials import find_credentials
from kafka_segment_source.storage.secrets import ENDPOINTS
from kafka_segment_source.storage.settings import Settings, environment_of, find_endpoint_fault
from kafka_segment_source.storage.store import ServiceError

RETRIES = 3
BUDGET_SECONDS = 20  # from the first try of a request; a retry that begins before may still take a request's time
FIRST_PAUSE = 0.1  # s
_LONGEST_PAUSE = 2.0  # s
_CONNECT_SECONDS = 3
_REQUEST_SECONDS = 30  # a request with its whole answer
_MOST_CLIENTS = 16  # that are kept; each has 0.7 MB, and its connections
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

_clients: dict[tuple[int, str, Settings], Any] = {}
"""The last clients of this process, the one used last at the end. The process id is in the key, as a fork copies the
table but no client's threads."""

_clients_lock = threading.Lock()


def _renew_lock() -> None:
    """Makes a free lock in a process that was forked while a thread held it."""
    global _clients_lock  # noqa: PLW0603
    _clients_lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def find_client(root: str, settings: Settings) -> Any:
    """Returns the client of a bucket. It may be one that was used before."""
    key = os.getpid(), root, settings
    with _clients_lock:
        client = _clients.pop(key, None)
        if client is None:
            client = _make_client(root, settings)
        _clients[key] = client
        # those of a parent process are not dropped here, as their threads are not in this one
        ours = [client for client in _clients if client[0] == key[0]]
        for our in ours[:-_MOST_CLIENTS]:
            del _clients[our]  # requests under way keep theirs
    return client


def _make_client(root: str, settings: Settings) -> Any:
    """Makes the client of one bucket. It sends no request."""
    scheme, _, rest = root.partition("://")
    bucket, _, account = rest.partition("@")
    texts = settings.of_bucket(bucket)
    prefix = {"s3": "aws_", "gs": "google_"}.get(scheme, "azure_")
    config, client_options = _split_config(texts, prefix)
    _complete(config, prefix, bucket)
    store = load_library().store
    retries = {
        "max_retries": RETRIES,
        "retry_timeout": timedelta(seconds=BUDGET_SECONDS),
        "backoff": {
            "init_backoff": timedelta(seconds=FIRST_PAUSE),
            "max_backoff": timedelta(seconds=_LONGEST_PAUSE),
            "base": 2,
        },
    }
    common: dict[str, Any] = {"client_options": client_options, "retry_config": retries}
    if scheme == "s3":
        provider, region = find_credentials(config.pop("aws_profile", None), config)
        if provider is not None:
            common["credential_provider"] = provider
        if region is not None:
            config.setdefault("aws_region", region)
    try:
        if scheme == "s3":
            return store.S3Store(bucket, config=config, **common)
        if scheme == "gs":
            return store.GCSStore(bucket, config=config, **common)
        if account:
            config.setdefault("azure_storage_account_name", account.partition(".")[0])
            domain = account.partition(".")[2]
            if domain not in ("", "dfs.core.windows.net", "blob.core.windows.net"):
                config.setdefault("azure_storage_endpoint", f"https://{account.replace('.dfs.', '.blob.', 1)}")
        return store.AzureStore(bucket, config=config, **common)
    except (ValueError, client_errors()) as error:
        is_nameless = "MissingAccount" in str(error)
    if is_nameless:
        reason = (
            "the account is not known: write abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/…, or give the option"
            " azure_storage_account_name"
        )
    else:
        reason = f"no client can be made of the storage options {', '.join(sorted(texts)) or 'that are set'}"
    raise ServiceError(reason, errno.EINVAL, is_wrong_name=True)


def _split_config(texts: dict[str, str], prefix: str) -> tuple[dict[str, str], dict[str, Any]]:
    """Returns what a store is made of, and what its HTTP client is made of."""
    own = {name: text for name, text in texts.items() if name.startswith(prefix)}
    client: dict[str, Any] = {
        "connect_timeout": own.pop(f"{prefix}connect_timeout", f"{_CONNECT_SECONDS}s"),
        "timeout": own.pop(f"{prefix}timeout", f"{_REQUEST_SECONDS}s"),
    }
    for name in ("allow_http", "allow_invalid_certificates"):
        text = own.pop(prefix + name, os.environ.get(f"{prefix}{name}".upper()))
        if text is not None:
            client[name] = _parse_flag(text, prefix + name)
    proxy = own.pop(f"{prefix}proxy_url", None)
    if proxy is not None:
        client["proxy_url"] = proxy
    bundle = own.pop(f"{prefix}ca_bundle", os.environ.get("AWS_CA_BUNDLE") if prefix == "aws_" else None)
    if bundle:
        client["root_certificate"] = _read_bundle(bundle, f"{prefix}ca_bundle")
    return own, client


def _parse_flag(text: str, option: str) -> bool:
    word = text.strip().lower()
    if word not in ("", "true", "false", "1", "0"):
        raise _refuse(f"{option} is neither true nor false")
    return word in ("true", "1")


def _complete(config: dict[str, str], prefix: str, bucket: str) -> None:
    """Checks what a client is made of, and adds what the environment says in a form that the library cannot use.

    The library fails at the first request, without a reason, at an endpoint without a scheme and at a line break that
    came with a value from a file. Raises ServiceError, which has no value.
    """
    given = environment_of(prefix) | config
    for name, text in given.items():
        clean = text.strip()
        if _CONTROL.search(clean):
            raise _refuse(f"{name} has a control character, such as a line break")
        if clean != text:
            config[name] = clean
        given[name] = clean
    for name in ENDPOINTS & given.keys():
        if given[name]:
            fault = find_endpoint_fault(given[name], bucket)
            if fault is not None:
                raise _refuse(f"{name} {fault}")
            continue
        config.pop(name, None)
        if (
            name == "aws_endpoint_url" and os.environ.get(name.upper()) is not None
        ):  # the library would take the empty one
            config[name] = f"https://s3.{given.get('aws_region') or 'us-east-1'}.amazonaws.com"
    if prefix == "aws_" and "aws_profile" not in config:
        key, secret = "aws_access_key_id", "aws_secret_access_key"
        for has, lacks in ((key, secret), (secret, key)):
            if given.get(has) and not given.get(lacks):
                raise _refuse(f"{has} is given, and {lacks} is missing")


def _refuse(reason: str) -> ServiceError:
    return ServiceError(f"{reason} (a storage option, or a variable of the environment)", errno.EINVAL, True)


def _read_bundle(path: str, option: str) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise ServiceError(
            f"the file {path!r} ({option}) cannot be read: {error.strerror}", error.errno, is_wrong_name=True
        ) from None
    if b"-----BEGIN CERTIFICATE-----" not in data:
        raise ServiceError(
            f"the file {path!r} ({option}) has no certificate: expected PEM", errno.EINVAL, is_wrong_name=True
        )
    return data
