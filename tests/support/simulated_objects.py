"""A bucket in memory, in place of the file system of `simulated_files.py`: the same broker writes, and each write makes
another version of an object.

No version is an older one that grew: its identity is an ETag, which is new with each change of bytes or name. There are
no open files: each read asks for the object at the path, as it is then, and fails if it is not the version that was
listed, or that of the first read. A listing has all names and versions of one moment. A directory is there as long as a
key is in it. A put may ask for the version that it replaces.
"""

from __future__ import annotations

import errno
import os

from kafka_segment_source.storage.store import (
    NO_VERSION,
    Entries,
    Entry,
    FileInMemory,
    FileVersion,
    Kind,
    OpenFile,
    ReplacedError,
)
from tests.support.simulated_files import Directory, Node, SimulatedFiles


class SimulatedObjects(SimulatedFiles):
    """The bucket. It is read one request after another, so that a seed is a run."""

    def list(self, directory: str) -> Entries:
        self.before("list", directory)
        found = self._directories.get(directory)
        if found is None:
            return []
        entries = [_entry(name, found.children[name]) for name in sorted(found.children)]
        return [entry for entry in entries if entry is not None]

    def open(self, path: str, version: FileVersion | None = None) -> OpenFile:
        return _SimulatedObject(self, path, None if version == NO_VERSION else version)

    def replace(self, path: str, data: bytes, known: FileVersion | None = None) -> None:
        self.before("replace", path)
        entry = self._entry(path)
        if known is not None and (NO_VERSION if entry is None else entry.version) != known:
            raise ReplacedError("it is another version now")
        self.make_directory(os.path.dirname(path))
        if entry is not None:
            self.unlink(path)
        self.create(path, data)

    def get(self, path: str, version: FileVersion | None) -> tuple[Node, FileVersion]:
        """The object at a path now, and its version. Raises as a store does if it is gone, or another one."""
        entry, node = self._entry(path), self._find(path)
        if entry is None or not isinstance(node, Node):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if version is not None and entry.version != version:
            raise ReplacedError("it is another version now")
        return node, entry.version

    def _entry(self, path: str) -> Entry | None:
        found = self._find(path)
        return None if found is None else _entry(os.path.basename(path), found)


class _SimulatedObject(FileInMemory):
    """An object that is open for reading: its path, and the version that each read asks for."""

    def __init__(self, objects: SimulatedObjects, path: str, version: FileVersion | None) -> None:
        self._objects = objects
        self._path = path
        self._version = version
        self._is_open = True

    def read_at(self, position: int, count: int) -> bytes:
        return self._get()[position : position + count]

    def version(self) -> FileVersion:
        if self._version is None:
            self._get()
        assert self._version is not None
        return self._version

    def close(self) -> None:
        self._is_open = False

    def _get(self) -> bytes:
        if not self._is_open:
            raise ValueError(f"{self._path!r} is closed")
        self._objects.before("get", self._path)
        node, self._version = self._objects.get(self._path, self._version)
        return bytes(node.data)


def _entry(name: str, found: Node | Directory) -> Entry | None:
    if isinstance(found, Node):
        return Entry(name, Kind.FILE, FileVersion(len(found.data), f"version {found.changed}", 0))
    has_keys = any(_entry(name, child) is not None for name, child in found.children.items())
    return Entry(name, Kind.DIRECTORY) if has_keys else None
