"""A file system in memory that implements `kafka_segment_source.storage.store.Storage`.

Inodes hold bytes; a directory maps names to inodes; an open file keeps its inode, whatever becomes of its name. The
ctime of an inode ticks with every change, its name's included. The number of an inode that is gone for good (no name,
not open) is given to the next one made, as file systems like to do.

Before each operation of a reader `before(operation, path)` is called, so that somebody else can change files between
any two of them. A listing calls it before it reads the names, and again before the size of each file.

The other half of the methods is for the code that plays the broker; those call nothing.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from heapq import heappop, heappush
from zlib import crc32

from kafka_segment_source.storage.store import (
    LOCAL,
    Entries,
    Entry,
    FileInMemory,
    FileVersion,
    Kind,
    OpenFile,
    Paths,
    ReadCost,
    VanishedError,
)


@dataclass(eq=False, slots=True)
class Node:
    """An inode: its number, its bytes, and when it was last changed."""

    number: int
    data: bytearray
    changed: int
    names: int = 1
    open_files: int = 0

    _version: FileVersion | None = None

    @property
    def version(self) -> FileVersion:
        known = self._version
        if known is None or known.changed != self.changed:
            self._version = known = FileVersion(len(self.data), self.number, self.changed)
        return known


@dataclass(eq=False, slots=True)
class Directory:
    """Names in one directory, and the order in which it lists them."""

    path: str
    children: dict[str, Node | Directory] = field(default_factory=dict)
    listed: list[tuple[str, str]] | None = None  # names and paths

    def in_order(self) -> list[tuple[str, str]]:
        """Names and paths, in an order of its own, the same each time."""
        if self.listed is None:
            names = sorted(self.children, key=lambda name: crc32(name.encode()))
            self.listed = [(name, f"{self.path}/{name}") for name in names]
        return self.listed


def _nothing(operation: str, path: str) -> None:
    """What happens before an operation, unless somebody says otherwise."""


class SimulatedFiles:
    """The file system. Paths are absolute; "/" is there from the start."""

    def __init__(self) -> None:
        self.before: Callable[[str, str], None] = _nothing
        self._directories: dict[str, Directory] = {"/": Directory("")}
        self._clock = 1_000_000_000
        self._next_number = 11
        self._free: list[int] = []

    # ---- Storage: what a reader does ----

    def look_at(self, path: str) -> Entry | None:
        self.before("look at", path)
        return self._entry(path)

    def list(self, directory: str) -> Entries:
        self.before("list", directory)
        found = self._directories.get(directory)
        if found is None:
            if self._find(directory) is not None:
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), directory)
            return []
        entries: Entries = []
        before, directories = self.before, self._directories
        for name, path in found.in_order():
            before("size of", path)
            now = directories.get(directory)
            child = None if now is None else now.children.get(name)
            if child is None:
                raise VanishedError(f"{path!r} vanished while its directory was listed")
            entries.append(_entry(name, child))
        return entries

    def glob(self, pattern: str) -> Paths:
        self.before("glob", pattern)
        depth = pattern.count("/")
        return sorted(path for path in self._paths() if path.count("/") == depth and fnmatchcase(path, pattern))

    def read_link(self, path: str) -> str:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)

    def open(self, path: str, version: FileVersion | None = None) -> OpenFile:
        self.before("open", path)
        found = self._find(path)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if isinstance(found, Directory):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return _SimulatedFile(self, found, path)

    def replace(self, path: str, data: bytes, known: FileVersion | None = None) -> None:
        self.before("replace", path)
        self.make_directory(os.path.dirname(path))
        if self._find(path) is not None:
            self.unlink(path)
        self.create(path, data)

    def remove(self, path: str) -> None:
        self.before("remove", path)
        if self._find(path) is not None:
            self.unlink(path)

    def read_cost(self, path: str) -> ReadCost:
        return LOCAL.read_cost(path)

    def count_requests(self) -> int:
        return 0

    # ---- what a broker does ----

    def make_directory(self, path: str) -> None:
        """Makes a directory and those above it, unless they are there."""
        if path not in self._directories:
            self.make_directory(os.path.dirname(path))
            self._directories[path] = Directory(path)
            self._put(path, self._directories[path])

    def link(self, path: str, to: str) -> None:
        """Gives a directory a second name, as a symbolic link does."""
        self.make_directory(os.path.dirname(to))
        self._directories[to] = self._directories[path]
        self._put(to, self._directories[path])

    def rename_directory(self, path: str, to: str) -> None:
        """Renames a directory that holds files only."""
        directory = self._directories[to] = self._directories.pop(path)
        directory.path, directory.listed = to, None
        self._take(path)
        self._put(to, directory)

    def remove_directory(self, path: str) -> None:
        """Removes an empty directory."""
        assert not self._directories[path].children, path
        del self._directories[path]
        self._take(path)

    def create(self, path: str, data: bytes = b"") -> Node:
        """A new file; nothing may have its name."""
        assert self._find(path) is None, path
        node = Node(self._number(), bytearray(data), self._tick())
        self._put(path, node)
        return node

    def write(self, node: Node, position: int, data: bytes) -> None:
        """Overwrites bytes of a file, or appends them; zeros fill what would be a hole."""
        if position > len(node.data):
            node.data.extend(bytes(position - len(node.data)))
        node.data[position : position + len(data)] = data
        node.changed = self._tick()

    def truncate(self, node: Node, size: int) -> None:
        """Cuts a file, or fills it with zeros, to `size` bytes."""
        del node.data[size:]
        node.data.extend(bytes(size - len(node.data)))
        node.changed = self._tick()

    def rename(self, path: str, to: str) -> None:
        """Gives a file another name, and takes it from the file that had it."""
        node = self.node(path)
        if self._find(to) is not None:
            self.unlink(to)
        self._take(path)
        self._put(to, node)
        node.changed = self._tick()

    def unlink(self, path: str) -> None:
        """Takes a file's name away; the file is there as long as it is open."""
        node = self.node(path)
        self._take(path)
        node.names -= 1
        node.changed = self._tick()
        self.forget(node)

    def node(self, path: str) -> Node:
        """The file at a path."""
        found = self._find(path)
        assert isinstance(found, Node), path
        return found

    def has(self, path: str) -> bool:
        """Whether a file or a directory is at a path."""
        return self._find(path) is not None

    def names(self, directory: str) -> Paths:
        """The names in a directory."""
        return sorted(self._directories[directory].children)

    def dump(self) -> Iterator[tuple[str, bytes]]:
        """Path and bytes of every file."""
        for path in sorted(self._paths()):
            found = self._find(path)
            if isinstance(found, Node):
                yield path, bytes(found.data)

    # ---- within ----

    def forget(self, node: Node) -> None:
        """Frees the number of an inode that nothing leads to."""
        if not node.names and not node.open_files:
            heappush(self._free, node.number)

    def _number(self) -> int:
        if self._free:
            return heappop(self._free)
        self._next_number += 1
        return self._next_number

    def _tick(self) -> int:
        self._clock += 1
        return self._clock

    def _put(self, path: str, found: Node | Directory) -> None:
        head, _, name = path.rpartition("/")
        parent = self._directories[head or "/"]
        parent.children[name] = found
        parent.listed = None

    def _take(self, path: str) -> None:
        head, _, name = path.rpartition("/")
        parent = self._directories[head or "/"]
        del parent.children[name]
        parent.listed = None

    def _find(self, path: str) -> Node | Directory | None:
        head, _, name = path.rpartition("/")
        parent = self._directories.get(head or "/")
        if parent is None:
            return None
        return parent.children.get(name) if name else self._directories.get(path)

    def _entry(self, path: str) -> Entry | None:
        found = self._find(path)
        return None if found is None else _entry(os.path.basename(path), found)

    def _paths(self) -> Paths:
        return [os.path.join(path, name) for path, found in self._directories.items() for name in found.children]


class _SimulatedFile(FileInMemory):
    """A file open for reading."""

    def __init__(self, files: SimulatedFiles, node: Node, path: str) -> None:
        self._files = files
        self._node: Node | None = node
        self._path = path
        node.open_files += 1

    def read_at(self, position: int, count: int) -> bytes:
        self._files.before("read", self._path)
        return bytes(self._open.data[position : position + count])

    def version(self) -> FileVersion:
        self._files.before("version of", self._path)
        return self._open.version

    def close(self) -> None:
        if self._node is not None:
            self._node.open_files -= 1
            self._files.forget(self._node)
        self._node = None

    @property
    def _open(self) -> Node:
        if self._node is None:
            raise ValueError(f"{self._path!r} is closed")
        return self._node


def _entry(name: str, found: Node | Directory) -> Entry:
    return Entry(name, Kind.FILE, found.version) if isinstance(found, Node) else Entry(name, Kind.DIRECTORY)
