"""An object of a bucket as a file that is open for reading.

An object never changes: to write it again makes another one, with another ETag. So a version is a size and an ETag.
Every read asks for the version that was listed, or for that of the first read (If-Match), and fails if the object is
another one now.

A request takes a round trip, and a second one for the next bytes takes another. So a small read fetches a block, and
the last blocks of an open object stay in memory. What will be read in order is fetched ahead (`ahead.py`).
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from kafka_segment_source.storage.ahead import RangeReader
from kafka_segment_source.storage.client_library import client_errors, load_library
from kafka_segment_source.storage.object_memory import MOST_REFUSALS, Refusals
from kafka_segment_source.storage.paths import join_path, split_remote
from kafka_segment_source.storage.service_errors import is_past_end
from kafka_segment_source.storage.store import FileVersion, ReadCost, ReplacedError, ServiceError

COST = ReadCost(at_once=64, block=64 * 1024)
_BEFORE = 32 * 1024  # bytes of a block before the first place that is looked at: a search often goes back a batch
_MOST_BLOCKS = 4  # of an open object that stay in memory
_MODIFIED = "modified "  # before the time that takes the place of an ETag

T = TypeVar("T")


class Caller(Protocol):
    """Sends the requests of an open object."""

    @property
    def refusals(self) -> Refusals:
        """The versions that the store listed and did not have."""

    def call_for_object(self, root: str, key: str, action: Callable[[Any], T]) -> T:
        """Calls `action` with the client of a bucket. Raises the errors of `store.py`."""


class ObjectFile:
    """An object that is open for reading. It is always the same version.

    version: as it was listed. None: that of the first answer.
    """

    def __init__(self, storage: Caller, path: str, version: FileVersion | None) -> None:
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
        if count >= COST.block:
            return bytes(self._get(position, count))
        is_next = any(start <= position <= start + len(block) for start, block in blocks)
        start = position if is_next else max(position - _BEFORE, 0)
        block = bytes(self._get(start, max(COST.block, position + count - start)))
        self._blocks.append((start, block))
        return block[position - start : position - start + count]

    def read_into(self, position: int, target: memoryview) -> int:
        done = 0 if self._ahead is None else self._ahead.read_into(position, target)
        if done < len(target):
            received = memoryview(self._get(position + done, len(target) - done))
            target[done : done + len(received)] = received
            done += len(received)
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
            self._version = self._storage.call_for_object(self._root, self._key, self._head)
        return self._version

    def close(self) -> None:
        """Nothing is open between two requests, but some may be under way."""
        if self._ahead is not None:
            self._ahead.close()

    def _head(self, store: Any) -> FileVersion:
        return version_of(load_library().head(store, self._key))

    def _get(self, position: int, count: int) -> Any:
        """Returns the bytes of a range, up to the end of the object, as a buffer."""
        count = self._clip(position, count)
        if count <= 0:
            return b""
        listed, path, refusals = self._listed, join_path(self._root, self._key), self._storage.refusals
        try:
            data = self._storage.call_for_object(
                self._root, self._key, lambda store: self._get_range(store, position, count)
            )
        except (FileNotFoundError, ReplacedError):
            if listed is not None and refusals.is_last(path, listed):
                raise ServiceError(
                    f"the store lists it, and does not have the version that it lists, after {MOST_REFUSALS} listings",
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
        e_tag = None if self._version is None else find_e_tag(self._version)
        if e_tag is not None:
            options["if_match"] = e_tag
        try:
            answer = load_library().get(store, self._key, options=options)
        except client_errors() as error:
            if is_past_end(error) and self._version is None:
                return b""
            if is_past_end(error):
                raise ReplacedError(f"it ends before byte {position + 1} now") from None
            raise
        version = version_of(answer.meta)
        if self._version is None:
            self._version = version
        elif e_tag is None and version != self._version:
            raise ReplacedError("it is another version now")  # a server without ETags cannot say so
        data = answer.bytes()
        expected = min(count, self._version.size - position)
        if len(data) != expected:
            raise ServiceError(f"the answer has {len(data)} bytes, expected {expected}", errno.EIO)
        return data


def version_of(meta: Any) -> FileVersion:
    """Returns the version that a store's metadata states. Without an ETag, the time of its last change takes its
    place, in seconds: a listing states parts of a second, the answer to a read does not."""
    e_tag = _quote(meta["e_tag"]) if meta["e_tag"] else None
    return FileVersion(meta["size"], e_tag or f"{_MODIFIED}{meta['last_modified']:%Y-%m-%dT%H:%M:%S%z}", 0)


def _quote(e_tag: str) -> str:
    """Returns the one form of an ETag, in quotes, as If-Match wants it.

    Azure lists ETags without quotes, and its answers to reads have them. A server in between that compresses marks an
    ETag as weak (`W/`). The store behind it does not know that mark.
    """
    return f'"{e_tag.removeprefix("W/").strip(chr(34))}"'


def find_e_tag(version: FileVersion) -> str | None:
    """Returns the ETag to ask for (If-Match), or None if the store has stated none."""
    identity = version.identity
    return identity if isinstance(identity, str) and identity and not identity.startswith(_MODIFIED) else None
