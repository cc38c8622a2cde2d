"""Objects in buckets as files: S3 and what speaks its protocol, Google Cloud Storage, Azure Blob Storage.

A key is a path: its parts between slashes are names, and a prefix is a directory. `object_file.py` reads an object.

A request that fails is tried again: at most RETRIES times, and not after BUDGET_SECONDS. Then it is an error.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import translate as glob_to_regex
from typing import Any, TypeVar

from kafka_segment_source.storage.ahead import map_ahead
from kafka_segment_source.storage.client_library import client_errors, load_library
from kafka_segment_source.storage.object_client import BUDGET_SECONDS, FIRST_PAUSE, RETRIES, find_client
from kafka_segment_source.storage.object_file import COST, ObjectFile, find_e_tag, version_of
from kafka_segment_source.storage.object_memory import NamedDirectories, Refusals, Requests, Silences
from kafka_segment_source.storage.paths import join_path, name_of, parent_of, split_remote
from kafka_segment_source.storage.service_errors import (
    endpoint_options,
    is_broken_listing,
    is_missing,
    is_missing_bucket,
    is_refusal,
    translate,
)
from kafka_segment_source.storage.settings import Settings
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

_KEYS_A_REQUEST = 1000  # of a listing
_GLOB = re.compile(r"[*?\[]")

_UNUSABLE_OPTIONS = (
    "the client of object stores failed at a storage option, or at a variable of the environment, that it cannot use:"
    " check endpoints, regions, keys and tokens"
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ObjectStorage:
    """The buckets that can be reached with some settings."""

    settings: Settings = Settings()
    _requests: Requests = field(default_factory=Requests, compare=False, repr=False)
    _named: NamedDirectories = field(default_factory=NamedDirectories, compare=False, repr=False)

    _silences: Silences = field(default_factory=Silences, compare=False, repr=False)
    refusals: Refusals = field(default_factory=Refusals, compare=False, repr=False)

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
        answer = next(answers)
        if answer is not None:
            return Entry(directory.name, Kind.FILE, version_of(answer))
        return directory if next(answers) else None

    def list(self, directory: str) -> Entries:
        entries = self._list_keys(directory)
        tries = 1
        while entries is None and self._is_named_above(directory):
            if tries > RETRIES:
                raise ServiceError(
                    f"the store lists nothing below it, after {tries} tries, but has named it in a listing: the answer may be a"
                    f" page or an error that is no listing; check {endpoint_options(directory)}, and any proxy",
                    errno.EIO,
                )
            time.sleep(FIRST_PAUSE * 2 ** (tries - 1))
            entries = self._list_keys(directory)
            tries += 1
        return entries or []

    def _list_keys(self, directory: str) -> Entries | None:
        """Returns the entries of one listing. None if it has no key at all, not even one that stands for the directory.

        The library takes any answer of 200 without a key for an empty listing: a page of HTML, an error.
        """
        root, key = split_remote(directory)
        listing = self._call(root, lambda store: load_library().list_with_delimiter(store, key or None))
        names = len(listing["common_prefixes"]) + len(listing["objects"])
        if not names:
            return None
        self._requests.add((names - 1) // _KEYS_A_REQUEST)  # the client asks for one page after the other
        entries = [Entry(name_of(prefix), Kind.DIRECTORY) for prefix in listing["common_prefixes"]]
        self._named.paths.update(join_path(directory, entry.name) for entry in entries)
        for listed in listing["objects"]:
            if listed["path"] != key:  # `key/` itself is an object that stands for a directory
                entries.append(Entry(name_of(listed["path"]), Kind.FILE, version_of(listed)))
                self.refusals.note_listed(join_path(directory, entries[-1].name), entries[-1].version)
        return entries

    def _is_named_above(self, directory: str) -> bool:
        """Whether a directory whose listing is empty must have keys.

        The next directory above it that is not empty says so. If even the bucket is empty, an earlier listing does.
        """
        path = directory
        while (parent := parent_of(path)) != path:
            entries = self._list_keys(parent)
            if entries is not None:
                is_there = any(entry.kind is Kind.DIRECTORY and entry.name == name_of(path) for entry in entries)
                if not is_there:
                    self._named.paths.discard(directory)
                return is_there
            path = parent
        return directory in self._named.paths

    def glob(self, pattern: str) -> Paths:
        root, key = split_remote(pattern)
        parts = key.split("/")
        paths = [root]
        for at, part in enumerate(parts):
            is_last = at == len(parts) - 1
            if not _GLOB.search(part):
                paths = [join_path(path, part) for path in paths]
                if is_last:
                    paths = [path for path in paths if self.look_at(path) is not None or self.list(path)]
                continue
            matches = re.compile(glob_to_regex(part)).match
            paths = [
                join_path(directory, entry.name)
                for directory, entries in zip(paths, map_ahead(self.list, paths, COST.at_once), strict=True)
                for entry in entries
                if matches(entry.name)
                and (is_last or entry.kind is Kind.DIRECTORY)
                and (part.startswith(".") or not entry.name.startswith("."))
            ]
        return sorted(dict.fromkeys(paths))

    def read_link(self, path: str) -> str:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)

    def open(self, path: str, version: FileVersion | None = None) -> OpenFile:
        return ObjectFile(self, path, None if version in (None, NO_VERSION) else version)

    def replace(self, path: str, data: bytes, known: FileVersion | None = None) -> None:
        root, key = split_remote(path)
        self._call(root, lambda store: load_library().put(store, key, data, mode=_find_mode(store, key, known)))

    def remove(self, path: str) -> None:
        root, key = split_remote(path)
        self._call(root, lambda store: load_library().delete(store, key))

    def read_cost(self, path: str) -> ReadCost:
        return COST

    def count_requests(self) -> int:
        """Returns the number of requests so far. A listing counts one for each 1,000 names. Retries do not count."""
        return self._requests.count

    def _call(self, root: str, action: Callable[[Any], T]) -> T:
        """Calls `action` with the client of a bucket, and turns its errors into those of `store.py`.

        The library tries again what fails, but not a listing whose answer breaks off. That is done here.
        The error of the library is not kept as the cause, as its text may have credentials in it.
        """
        self._requests.add()
        end = time.monotonic() + BUDGET_SECONDS
        for tries in range(1, RETRIES + 2):
            try:
                return action(find_client(root, self.settings))
            except (ServiceError, ReplacedError):
                raise
            except BaseException as error:
                if type(error).__name__ == "PanicException":  # no Exception, and its class has no name to import
                    raise ServiceError(_UNUSABLE_OPTIONS, errno.EINVAL, is_wrong_name=True) from None
                if isinstance(error, ValueError) and "parse path" in str(error):
                    raise ServiceError("its key has a part that no path has", errno.EINVAL, True) from None
                if not isinstance(error, (OSError, client_errors())):
                    raise
                failure = translate(error, root, tries)
                if not is_broken_listing(error) or time.monotonic() > end:
                    break
            if tries <= RETRIES:
                time.sleep(FIRST_PAUSE * 2 ** (tries - 1))
        raise failure

    def call_for_object(self, root: str, key: str, action: Callable[[Any], T]) -> T:
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


def _find_mode(store: Any, key: str, known: FileVersion | None) -> Any:
    """Returns the condition of a write. Raises ReplacedError if the object is not the `known` version.

    Google takes the generation of an object, which a listing does not state, in place of its ETag.
    """
    e_tag = None if known is None else find_e_tag(known)
    if known == NO_VERSION:
        return "create"
    if e_tag is None:
        return "overwrite"
    if not isinstance(store, load_library().store.GCSStore):
        return {"e_tag": e_tag}
    meta = _head(store, key)
    if meta is None or version_of(meta) != known:
        raise ReplacedError("it is another version now")
    return {"e_tag": meta["e_tag"], "version": meta["version"]}


def _head(store: Any, key: str) -> Any:
    """Returns the metadata of an object, or None if there is none.

    The answer to a HEAD has no body, so a refusal has no reason. That to a GET of one byte has one.
    """
    try:
        return load_library().head(store, key)
    except (FileNotFoundError, client_errors()) as error:
        if is_missing(error) and not is_missing_bucket(error):
            return None
        if is_refusal(error):
            load_library().get(store, key, options={"range": (0, 1)})
        raise


def _has_keys(store: Any, key: str) -> bool:
    """Whether any object is below a prefix. Raises the library's error if there is no such bucket."""
    return any(True for _ in load_library().list(store, key or None, chunk_size=1))
