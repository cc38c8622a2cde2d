"""Objects in buckets as files: S3 and what speaks its protocol, Google Cloud Storage, Azure Blob Storage.

A key is a path: its parts between slashes are names, and a prefix is a directory. An object never changes: to write it
again makes another one, with another ETag. So a version is a size and an ETag. Every read asks for the version that was
listed, or for that of the first read (If-Match), and fails if the object is another one now.

A request takes a round trip, and a second one for the next bytes takes another. So a small read fetches a block, and
the last blocks of an open object stay in memory. What will be read in order is fetched ahead (`ahead.py`).

A request that fails is tried again: at most `_RETRIES` times, and not after `_BUDGET_SECONDS`. Then it is an error.
"""

from __future__ import annotations

import errno
import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from fnmatch import translate as glob_to_regex
from typing import Any, TypeVar

from kafka_segment_source.kafka_format import LOG_SUFFIX
from kafka_segment_source.storage.ahead import RangeReader, map_ahead
from kafka_segment_source.storage.client_library import load_library
from kafka_segment_source.storage.credentials import find_credentials
from kafka_segment_source.storage.paths import join_path, name_of, parent_of, split_remote
from kafka_segment_source.storage.service_errors import (
    endpoint_options,
    is_broken_listing,
    is_missing,
    is_missing_bucket,
    is_past_end,
    is_refusal,
    translate,
)
from kafka_segment_source.storage.settings import ENDPOINTS, Settings, environment_of, find_endpoint_fault
from kafka_segment_source.storage.store import (
    NO_VERSION,
    Entries,
    Entry,
    FileVersion,
    Kind,
    OpenFile,
    Paths,
    ReadCost,
    ReplacedError,
    ServiceError,
)

_RETRIES = 3
_BUDGET_SECONDS = 20  # from the first try of a request; a retry that begins before may still take a request's time
_FIRST_PAUSE = 0.1  # s
_LONGEST_PAUSE = 2.0  # s
_CONNECT_SECONDS = 3
_REQUEST_SECONDS = 30  # a request with its whole answer
_COST = ReadCost(at_once=64, block=64 * 1024)
_BEFORE = 32 * 1024  # bytes of a block before the first place that is looked at: a search often goes back a batch
_MOST_BLOCKS = 4  # of an open object that stay in memory
_KEYS_A_REQUEST = 1000  # of a listing
_MOST_REFUSALS = 6  # listings of one version that cannot be read
_MOST_CLIENTS = 16  # that are kept; each has 0.7 MB, and its connections
_MODIFIED = "modified "  # before the time that takes the place of an ETag
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_GLOB = re.compile(r"[*?\[]")

_UNUSABLE_OPTIONS = (
    "the client of object stores failed at a storage option, or at a variable of the environment, that it cannot use:"
    " check endpoints, regions, keys and tokens"
)

T = TypeVar("T")

_clients: dict[tuple[int, str, Settings], Any] = {}
"""The last clients of this process, the one used last at the end. The process id is in the key, as a fork copies the
table but no client's threads."""

_clients_lock = threading.Lock()


def _renew_lock() -> None:
    """Makes a free lock in a process that was forked while a thread held it."""
    global _clients_lock  # noqa: PLW0603
    _clients_lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


class _Requests:
    """Counts requests, in several threads. A copy in another process begins at 0."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()

    def add(self, count: int = 1) -> None:
        with self._lock:
            self.count += count

    def __reduce__(self) -> tuple[type[_Requests], tuple[()]]:
        return _Requests, ()


class _NamedDirectories:
    """The directories that a listing has named in this process. A copy in another process begins with none."""

    def __init__(self) -> None:
        self.paths: set[str] = set()

    def __reduce__(self) -> tuple[type[_NamedDirectories], tuple[()]]:
        return _NamedDirectories, ()


class _Silences:
    """What did not answer in time, in all tries, a short while ago. So a read does not wait for each file in turn.

    A log counts alone. All other files of a bucket count as one, as reads do without most of them: one that answers
    ends it. A copy in another process begins with none.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, ServiceError]] = {}

    def check(self, root: str, key: str) -> None:
        """Raises the error of the last time if it was less than `_BUDGET_SECONDS` ago."""
        until, error = self._known.get(self._name(root, key), (0.0, None))
        if error is not None and time.monotonic() < until:
            raise ServiceError(str(error), error.errno)

    def note(self, root: str, key: str, error: OSError | None) -> None:
        """error: that of a request in all its tries, None for an answer."""
        name = self._name(root, key)
        if isinstance(error, ServiceError) and error.errno == errno.ETIMEDOUT:
            self._known[name] = time.monotonic() + _BUDGET_SECONDS, error
        elif error is None and self._known:
            self._known.pop(name, None)

    def _name(self, root: str, key: str) -> str:
        return join_path(root, key) if key.endswith(LOG_SUFFIX) else root

    def __reduce__(self) -> tuple[type[_Silences], tuple[()]]:
        return _Silences, ()


class _Refusals:
    """Versions that the store lists, and does not have when they are read. A copy in another process begins with none.

    A failure counts once for each listing that had the version again, as a plan that is made anew takes it from there.
    """

    def __init__(self) -> None:
        self._counts: dict[tuple[str, FileVersion], int] = {}
        self._are_new: set[tuple[str, FileVersion]] = set()  # failed, and not listed since

    def note_listed(self, path: str, version: FileVersion) -> None:
        if self._are_new:
            self._are_new.discard((path, version))

    def note_read(self, path: str, version: FileVersion) -> None:
        if self._counts:
            self._counts.pop((path, version), None)
            self._are_new.discard((path, version))

    def is_last(self, path: str, version: FileVersion) -> bool:
        """Notes a failure. Whether there were too many."""
        each = path, version
        if each not in self._are_new:
            self._are_new.add(each)
            self._counts[each] = self._counts.get(each, 0) + 1
        return self._counts[each] >= _MOST_REFUSALS

    def __reduce__(self) -> tuple[type[_Refusals], tuple[()]]:
        return _Refusals, ()


@dataclass(frozen=True, slots=True)
class ObjectStorage:
    """The buckets that can be reached with some settings."""

    settings: Settings = Settings()
    _requests: _Requests = field(default_factory=_Requests, compare=False, repr=False)
    _named: _NamedDirectories = field(default_factory=_NamedDirectories, compare=False, repr=False)

    _silences: _Silences = field(default_factory=_Silences, compare=False, repr=False)
    _refusals: _Refusals = field(default_factory=_Refusals, compare=False, repr=False)

    def look_at(self, path: str) -> Entry | None:
        root, key = split_remote(path)
        directory = Entry(name_of(path), Kind.DIRECTORY)
        if not key:
            self._call(root, lambda store: _has_keys(store, key))
            return directory
        questions: list[Callable[[], Any]] = [
            lambda: self._call(root, lambda store: _head(store, key)),
            lambda: self._call(root, lambda store: _has_keys(store, key)),
        ]
        # a name without a dot is most likely a directory, so both questions are asked at once
        answers = map_ahead(lambda ask: ask(), questions, 1 if "." in directory.name else 2)
        found = next(answers)
        if found is not None:
            return Entry(directory.name, Kind.FILE, _version_of(found))
        return directory if next(answers) else None

    def list(self, directory: str) -> Entries:
        found = self._list_keys(directory)
        tries = 1
        while found is None and self._is_named_above(directory):
            if tries > _RETRIES:
                raise ServiceError(
                    f"the store lists nothing below it, after {tries} tries, but has named it in a listing: the answer may be a"
                    f" page or an error that is no listing; check {endpoint_options(directory)}, and any proxy",
                    errno.EIO,
                )
            time.sleep(_FIRST_PAUSE * 2 ** (tries - 1))
            found = self._list_keys(directory)
            tries += 1
        return found or []

    def _list_keys(self, directory: str) -> Entries | None:
        """Returns the entries of one listing. None if it has no key at all, not even one that stands for the directory.

        The library takes any answer of 200 without a key for an empty listing: a page of HTML, an error.
        """
        root, key = split_remote(directory)
        found = self._call(root, lambda store: load_library().list_with_delimiter(store, key or None))
        names = len(found["common_prefixes"]) + len(found["objects"])
        if not names:
            return None
        self._requests.add((names - 1) // _KEYS_A_REQUEST)  # the client asks for one page after the other
        entries = [Entry(name_of(prefix), Kind.DIRECTORY) for prefix in found["common_prefixes"]]
        self._named.paths.update(join_path(directory, entry.name) for entry in entries)
        for each in found["objects"]:
            if each["path"] != key:  # `key/` itself is an object that stands for a directory
                entries.append(Entry(name_of(each["path"]), Kind.FILE, _version_of(each)))
                self._refusals.note_listed(join_path(directory, entries[-1].name), entries[-1].version)
        return entries

    def _is_named_above(self, directory: str) -> bool:
        """Whether a directory whose listing is empty must have keys.

        The next directory above it that is not empty says so. If even the bucket is empty, an earlier listing does.
        """
        path = directory
        while (parent := parent_of(path)) != path:
            entries = self._list_keys(parent)
            if entries is not None:
                is_there = any(each.kind is Kind.DIRECTORY and each.name == name_of(path) for each in entries)
                if not is_there:
                    self._named.paths.discard(directory)
                return is_there
            path = parent
        return directory in self._named.paths

    def glob(self, pattern: str) -> Paths:
        root, key = split_remote(pattern)
        parts = key.split("/")
        found = [root]
        for at, part in enumerate(parts):
            is_last = at == len(parts) - 1
            if not _GLOB.search(part):
                found = [join_path(each, part) for each in found]
                if is_last:
                    found = [each for each in found if self.look_at(each) is not None or self.list(each)]
                continue
            matches = re.compile(glob_to_regex(part)).match
            found = [
                join_path(each, entry.name)
                for each, entries in zip(found, map_ahead(self.list, found, _COST.at_once), strict=True)
                for entry in entries
                if matches(entry.name)
                and (is_last or entry.kind is Kind.DIRECTORY)
                and (part.startswith(".") or not entry.name.startswith("."))
            ]
        return sorted(dict.fromkeys(found))

    def read_link(self, path: str) -> str:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)

    def open(self, path: str, version: FileVersion | None = None) -> OpenFile:
        return _Object(self, path, None if version in (None, NO_VERSION) else version)

    def replace(self, path: str, data: bytes, known: FileVersion | None = None) -> None:
        root, key = split_remote(path)
        mode: Any = "overwrite"
        if known == NO_VERSION:
            mode = "create"
        elif known is not None and _find_e_tag(known) is not None:
            mode = {"e_tag": _find_e_tag(known)}
        self._call(root, lambda store: load_library().put(store, key, data, mode=mode))

    def read_cost(self, path: str) -> ReadCost:
        return _COST

    def count_requests(self) -> int:
        """Returns the number of requests so far. A listing counts one for each 1,000 names. Retries do not count."""
        return self._requests.count

    def _call(self, root: str, action: Callable[[Any], T]) -> T:
        """Calls `action` with the client of a bucket, and turns its errors into those of `store.py`.

        The library tries again what fails, but not a listing whose answer breaks off. That is done here.
        The error of the library is not kept as the cause, as its text may have credentials in it.
        """
        self._requests.add()
        end = time.monotonic() + _BUDGET_SECONDS
        for tries in range(1, _RETRIES + 2):
            try:
                return action(self._find_client(root))
            except (ServiceError, ReplacedError):
                raise
            except BaseException as error:
                if type(error).__name__ == "PanicException":  # no Exception, and its class has no name to import
                    raise ServiceError(_UNUSABLE_OPTIONS, errno.EINVAL, is_wrong_name=True) from None
                if isinstance(error, ValueError) and "parse path" in str(error):
                    raise ServiceError("its key has a part that no path has", errno.EINVAL, True) from None
                if not isinstance(error, (OSError, _errors())):
                    raise
                failure = translate(error, root, tries)
                if not is_broken_listing(error) or time.monotonic() > end:
                    break
            if tries <= _RETRIES:
                time.sleep(_FIRST_PAUSE * 2 ** (tries - 1))
        raise failure

    def _call_for_object(self, root: str, key: str, action: Callable[[Any], T]) -> T:
        """Calls `action`, which reads an object. Raises at once what it would raise late if there was no answer just
        before."""
        self._silences.check(root, key)
        try:
            answer = self._call(root, action)
        except OSError as error:
            self._silences.note(root, key, error)
            raise
        self._silences.note(root, key, None)
        return answer

    def _find_client(self, root: str) -> Any:
        key = os.getpid(), root, self.settings
        with _clients_lock:
            client = _clients.pop(key, None)
            if client is None:
                client = _make_client(root, self.settings)
            _clients[key] = client
            # those of a parent process are not dropped here, as their threads are not in this one
            ours = [each for each in _clients if each[0] == key[0]]
            for each in ours[:-_MOST_CLIENTS]:
                del _clients[each]  # requests under way keep theirs
        return client


class _Object:
    """An object that is open for reading. It is always the same version.

    version: as it was listed. None: that of the first answer.
    """

    def __init__(self, storage: ObjectStorage, path: str, version: FileVersion | None) -> None:
        self._storage = storage
        self._root, self._key = split_remote(path)
        self._version = self._listed = version
        self._blocks: deque[tuple[int, bytes]] = deque(maxlen=_MOST_BLOCKS)  # position and bytes
        self._ahead: RangeReader | None = None

    def read_at(self, position: int, count: int) -> bytes:
        count = self._clip(position, count)
        if self._ahead is not None and self._ahead.holds(position, count):
            data = bytearray(count)
            self._ahead.read_into(position, memoryview(data))
            return bytes(data)
        blocks = tuple(self._blocks)  # another thread may add one
        for start, block in blocks:
            if start <= position and position + count <= start + len(block):
                return block[position - start : position - start + count]
        if count >= _COST.block:
            return bytes(self._get(position, count))
        is_next = any(start <= position <= start + len(block) for start, block in blocks)
        start = position if is_next else max(position - _BEFORE, 0)
        block = bytes(self._get(start, max(_COST.block, position + count - start)))
        self._blocks.append((start, block))
        return block[position - start : position - start + count]

    def read_into(self, position: int, target: memoryview) -> int:
        done = 0 if self._ahead is None else self._ahead.read_into(position, target)
        if done < len(target):
            found = memoryview(self._get(position + done, len(target) - done))
            target[done : done + len(found)] = found
            done += len(found)
        return done

    def read_ahead(self, start: int, end: int) -> None:
        end = start + self._clip(start, end - start)
        if self._ahead is not None:
            self._ahead.close()
        self._ahead = RangeReader(self._get, start, end) if end > start else None

    def is_all_under_way(self) -> bool:
        return self._ahead is None or self._ahead.is_all_under_way

    def descriptor(self) -> int | None:
        return None

    def version(self) -> FileVersion:
        if self._version is None:
            self._version = self._storage._call_for_object(self._root, self._key, self._head)
        return self._version

    def close(self) -> None:
        """Nothing is open between two requests, but some may be under way."""
        if self._ahead is not None:
            self._ahead.close()

    def _head(self, store: Any) -> FileVersion:
        return _version_of(load_library().head(store, self._key))

    def _get(self, position: int, count: int) -> Any:
        """Returns the bytes of a range, up to the end of the object, as a buffer."""
        count = self._clip(position, count)
        if count <= 0:
            return b""
        listed, path, refusals = self._listed, join_path(self._root, self._key), self._storage._refusals
        try:
            data = self._storage._call_for_object(
                self._root, self._key, lambda store: self._get_range(store, position, count)
            )
        except (FileNotFoundError, ReplacedError):
            if listed is not None and refusals.is_last(path, listed):
                raise ServiceError(
                    f"the store lists it, and does not have the version that it lists, after {_MOST_REFUSALS} listings",
                    errno.EIO,
                ) from None
            raise
        if listed is not None:
            refusals.note_read(path, listed)
        return data

    def _clip(self, position: int, count: int) -> int:
        """Returns the number of bytes up to the end of the object, where its size is known."""
        return count if self._version is None else max(min(count, self._version.size - position), 0)

    def _get_range(self, store: Any, position: int, count: int) -> Any:
        options: dict[str, Any] = {"range": (position, position + count)}
        e_tag = None if self._version is None else _find_e_tag(self._version)
        if e_tag is not None:
            options["if_match"] = e_tag
        try:
            answer = load_library().get(store, self._key, options=options)
        except _errors() as error:
            if is_past_end(error) and self._version is None:
                return b""
            if is_past_end(error):
                raise ReplacedError(f"it ends before byte {position + 1} now") from None
            raise
        found = _version_of(answer.meta)
        if self._version is None:
            self._version = found
        elif e_tag is None and found != self._version:
            raise ReplacedError("it is another version now")  # a server without ETags cannot say so
        data = answer.bytes()
        expected = min(count, self._version.size - position)
        if len(data) != expected:
            raise ServiceError(f"the answer has {len(data)} bytes, expected {expected}", errno.EIO)
        return data


def _errors() -> Any:
    return load_library().exceptions.BaseError


def _head(store: Any, key: str) -> Any:
    """Returns the metadata of an object, or None if there is none.

    The answer to a HEAD has no body, so a refusal has no reason. That to a GET of one byte has one.
    """
    try:
        return load_library().head(store, key)
    except (FileNotFoundError, _errors()) as error:
        if is_missing(error) and not is_missing_bucket(error):
            return None
        if is_refusal(error):
            load_library().get(store, key, options={"range": (0, 1)})
        raise


def _has_keys(store: Any, key: str) -> bool:
    """Whether any object is below a prefix. Raises the library's error if there is no such bucket."""
    return any(True for _ in load_library().list(store, key or None, chunk_size=1))


def _version_of(found: Any) -> FileVersion:
    """Returns the version that a store's metadata states. Without an ETag, the time of its last change takes its
    place, in seconds: a listing states parts of a second, the answer to a read does not."""
    e_tag = _quote(found["e_tag"]) if found["e_tag"] else None
    return FileVersion(found["size"], e_tag or f"{_MODIFIED}{found['last_modified']:%Y-%m-%dT%H:%M:%S%z}", 0)


def _quote(e_tag: str) -> str:
    """Returns the one form of an ETag, in quotes, as If-Match wants it.

    Azure lists ETags without quotes, and its answers to reads have them. A server in between that compresses marks an
    ETag as weak (`W/`). The store behind it does not know that mark.
    """
    return f'"{e_tag.removeprefix("W/").strip(chr(34))}"'


def _find_e_tag(version: FileVersion) -> str | None:
    """Returns the ETag to ask for (If-Match), or None if the store has stated none."""
    identity = version.identity
    return identity if isinstance(identity, str) and identity and not identity.startswith(_MODIFIED) else None


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
        "max_retries": _RETRIES,
        "retry_timeout": timedelta(seconds=_BUDGET_SECONDS),
        "backoff": {
            "init_backoff": timedelta(seconds=_FIRST_PAUSE),
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
    except (ValueError, _errors()) as error:
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
