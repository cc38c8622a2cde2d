"""The operations that this package needs from a place of files, and the local file system.

A `Storage` says where bytes are. The options of a read have one, and so has each segment and each split. All code
opens, lists and examines files through it. The other implementations are `object_store.py`, `routed.py`, and the
simulated broker of the tests. Each must follow this module only. Input is opened for reading only. Output is a whole
file in a directory that the user named.

Errors are the system's own (`OSError`), or `ServiceError`. `files.py` turns them into this package's errors.
"""

from __future__ import annotations

import errno
import glob
import hashlib
import os
import stat
import uuid
from contextlib import suppress
from enum import Enum
from typing import NamedTuple, Protocol, runtime_checkable

from kafka_segment_source.errors import DataError

_LARGEST_LONG = 2**63 - 1


class Kind(Enum):
    """The kind of a name in a directory. A link counts as its target. BROKEN_LINK has no target."""

    FILE = "a regular file"
    DIRECTORY = "a directory"
    BROKEN_LINK = "a link to nothing"
    OTHER = "neither a file nor a directory, but a pipe, a socket or a device"


class FileVersion(NamedTuple):
    """The storage's data about one state of a file.

    size: its bytes.
    identity: which file it is. A file that only grew keeps it. Its inode, or the ETag of an object.
    changed: its last change (ctime, ns). 0 for an object, as its ETag says all.
    """

    size: int
    identity: int | str
    changed: int

    def is_same_file(self, other: FileVersion) -> bool:
        """Whether both are states of one file. An object that was written again is another one."""
        return self.identity == other.identity

    def as_numbers(self) -> tuple[int, int, int]:
        """The version as three numbers of 63 bits, for a file. A text has its hash."""
        if isinstance(self.identity, int):
            return self.size, self.identity, self.changed
        digest = hashlib.blake2b(self.identity.encode(), digest_size=8).digest()
        return self.size, int.from_bytes(digest) & _LARGEST_LONG, self.changed


NO_VERSION = FileVersion(0, 0, 0)
"""The version of anything that is not a file."""


class Entry(NamedTuple):
    """One name in a directory, or at the end of a path.

    version: of a file; of a local directory too, where it changes with the names in it.
    """

    name: str
    kind: Kind
    version: FileVersion = NO_VERSION

    @property
    def size(self) -> int:
        """Bytes of a file, or 0 for anything else."""
        return self.version.size


Entries = list[Entry]
Paths = list[str]


class ReadCost(NamedTuple):
    """How a storage is read fast.

    at_once: reads that should be under way at the same time. 1: more would gain nothing.
    block: bytes that take hardly longer to read than one byte. 0: every byte counts.
    """

    at_once: int
    block: int

    @property
    def takes_round_trips(self) -> bool:
        """Whether each read takes a round trip of the network."""
        return self.at_once > 1


class VanishedError(OSError):
    """A name was removed from a directory before its size was read. The directory must be listed again."""


class ReplacedError(OSError):
    """The file at a path is not the version that was asked for."""


class ServiceError(OSError):
    """A service refused a request, or did not answer. Its text is a reason that follows "cannot be read: ".

    is_wrong_name: whether the path is wrong, so that another try is no use.
    """

    def __init__(self, reason: str, number: int | None = None, is_wrong_name: bool = False) -> None:
        super().__init__(reason)
        self.errno = number
        self.is_wrong_name = is_wrong_name


def note_object(error: OSError, path: str) -> OSError:
    """Notes in an error the path of the object that it is about, where a file stands for another one. Returns the
    error."""
    if not hasattr(error, "object_path"):
        error.object_path = path  # type: ignore[attr-defined]
    return error


def find_object(error: OSError, path: str) -> str:
    """Returns the path of the object that an error is about: `path`, unless `note_object` has noted another one."""
    return getattr(error, "object_path", path)


class OpenFile(Protocol):
    """A file that is open for reading. It stays the same file, even if its name later belongs to another one."""

    def read_at(self, position: int, count: int) -> bytes:
        """Returns at most `count` bytes from `position`, and fewer only at the end of the file."""

    def read_into(self, position: int, target: memoryview) -> int:
        """Fills `target` from `position`, up to the end of the file. Returns the number of bytes."""

    def version(self) -> FileVersion:
        """Returns the present state of the open file."""

    def read_ahead(self, start: int, end: int) -> None:
        """Says that the bytes with start ≤ position < end will be read in order. A slow storage begins to fetch
        them."""

    def is_all_under_way(self) -> bool:
        """Whether no range that `read_ahead` named is left to ask for."""

    def descriptor(self) -> int | None:
        """Returns the descriptor of a local file, for kernels that read it. None anywhere else."""

    def close(self) -> None:
        """Closes the file."""


@runtime_checkable
class ExplainedFile(Protocol):
    """An open file that knows why some of its bytes are damaged."""

    def find_fault(self, position: int) -> DataError | None:
        """Returns the damage of the bytes of the batch at a position. None if the file knows of none."""


class FileInMemory:
    """What open files have in common whose bytes are at hand. `read_at` and `version` are their own."""

    def read_at(self, position: int, count: int) -> bytes:
        raise NotImplementedError

    def read_into(self, position: int, target: memoryview) -> int:
        data = self.read_at(position, len(target))
        target[: len(data)] = data
        return len(data)

    def read_ahead(self, start: int, end: int) -> None:
        """All bytes are at hand."""

    def is_all_under_way(self) -> bool:
        return True

    def descriptor(self) -> int | None:
        return None

    def close(self) -> None:
        """Nothing is open."""


class Storage(Protocol):
    """A place of files. Paths are absolute (`paths.py`). It can be pickled, compared and hashed.

    Its `repr` shows no secret.
    """

    def look_at(self, path: str) -> Entry | None:
        """Returns the entry at a path, or None if nothing exists there."""

    def list(self, directory: str) -> Entries:
        """Returns the entries of a directory whose names are text. It returns nothing if the directory is gone.

        All names are read before any size. If a file is renamed meanwhile, the listing may have neither name. Raises
        VanishedError if a name was gone before its size was read.
        """

    def glob(self, pattern: str) -> Paths:
        """Returns the paths that match a pattern, in order."""

    def read_link(self, path: str) -> str:
        """Returns the target of a link, as the link states it."""

    def open(self, path: str, version: FileVersion | None = None) -> OpenFile:
        """Opens a regular file. Raises FileNotFoundError if nothing exists there, and OSError for anything that is not
        a regular file.

        version: as it was listed. A storage that asks for a version with each read may open the file without a request.
            Its reads then raise FileNotFoundError or ReplacedError. The local file system opens the file that is there.
        """

    def replace(self, path: str, data: bytes, known: FileVersion | None = None) -> None:
        """Replaces a file atomically, or makes it and its directory. Readers see the old file or the new one, never a
        part.

        known: the version that is to be replaced, NO_VERSION if there was no file, None for any. A storage that can
            compare versions raises ReplacedError for another one. The local file system cannot.
        """

    def remove(self, path: str) -> None:
        """Removes a file that this package wrote, if it is there."""

    def read_cost(self, path: str) -> ReadCost:
        """Returns how the files at and below a path are read fast."""

    def count_requests(self) -> int:
        """Returns the number of requests over a network so far. 0 for the local file system."""


_LOCAL_COST = ReadCost(at_once=1, block=0)


class LocalStorage:
    """Files of this machine, or mounted on it."""

    def __eq__(self, other: object) -> bool:
        return self is other or type(self) is type(other) is LocalStorage

    def __hash__(self) -> int:
        return hash(LocalStorage)

    def __repr__(self) -> str:
        return "local files"

    def look_at(self, path: str) -> Entry | None:
        try:
            status = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return Entry(os.path.basename(path), Kind.BROKEN_LINK) if os.path.islink(path) else None
        return _make_entry(os.path.basename(path), status)

    def list(self, directory: str) -> Entries:
        # A broker that rolls a segment closes one file before it makes the next. So all names are read before any size.
        # A file that has a next one is then listed with all its bytes.
        try:
            with os.scandir(directory) as listing:
                children = list(listing)
        except FileNotFoundError:
            return []
        entries: Entries = []
        for child in children:
            if not child.name.isascii() and not _is_text(child.name):
                continue
            try:
                entries.append(_make_entry(child.name, child.stat()))
            except (FileNotFoundError, NotADirectoryError) as error:
                if not os.path.islink(child.path):
                    raise VanishedError(f"{child.path!r} vanished while its directory was listed") from error
                entries.append(Entry(child.name, Kind.BROKEN_LINK))
            except OSError as error:
                if error.errno != errno.ELOOP:
                    raise
                entries.append(Entry(child.name, Kind.BROKEN_LINK))
        return entries

    def glob(self, pattern: str) -> Paths:
        return sorted(glob.glob(pattern))

    def read_link(self, path: str) -> str:
        return os.readlink(path)

    def open(self, path: str, version: FileVersion | None = None) -> OpenFile:
        return _LocalFile(path)

    def replace(self, path: str, data: bytes, known: FileVersion | None = None) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        temporary = os.path.join(os.path.dirname(path), f".kafkaseg-{uuid.uuid4().hex}.tmp")
        try:
            with open(temporary, "wb") as out:
                out.write(data)
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise

    def remove(self, path: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(path)

    def read_cost(self, path: str) -> ReadCost:
        return _LOCAL_COST

    def count_requests(self) -> int:
        return 0


class _LocalFile:
    """One file descriptor."""

    def __init__(self, path: str) -> None:
        # O_NONBLOCK: a pipe without a writer must not keep the reader waiting. It changes nothing for regular files.
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        mode = os.fstat(self._descriptor).st_mode
        if not stat.S_ISREG(mode):
            self.close()
            raise OSError(f"it is {_kind_of(mode).value}, not {Kind.FILE.value}")

    def read_at(self, position: int, count: int) -> bytes:
        self._check_open()
        data = os.pread(self._descriptor, count, position)
        if not 0 < len(data) < count:
            return data
        parts = [data]  # the file ended, a signal came, or one call cannot return more
        done = len(data)
        while done < count and (data := os.pread(self._descriptor, count - done, position + done)):
            parts.append(data)
            done += len(data)
        return b"".join(parts)

    def read_into(self, position: int, target: memoryview) -> int:
        self._check_open()
        done = 0
        while done < len(target):
            count = os.preadv(self._descriptor, [target[done:]], position + done)
            if not count:
                break
            done += count
        return done

    def version(self) -> FileVersion:
        return _version_of(os.fstat(self._descriptor))

    def read_ahead(self, start: int, end: int) -> None:
        """The system itself reads ahead."""

    def is_all_under_way(self) -> bool:
        return True

    def descriptor(self) -> int | None:
        self._check_open()
        return self._descriptor

    def _check_open(self) -> None:
        if self._descriptor < 0:
            raise ValueError("the file is closed")

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1


def _make_entry(name: str, status: os.stat_result) -> Entry:
    # this makes few calls, as a directory may have a million names
    if stat.S_ISREG(status.st_mode):
        return Entry(name, Kind.FILE, FileVersion(status.st_size, status.st_ino & _LARGEST_LONG, status.st_ctime_ns))
    if stat.S_ISDIR(status.st_mode):
        return Entry(name, Kind.DIRECTORY, FileVersion(0, status.st_ino & _LARGEST_LONG, status.st_ctime_ns))
    return Entry(name, _kind_of(status.st_mode))


def _kind_of(mode: int) -> Kind:
    return Kind.FILE if stat.S_ISREG(mode) else Kind.DIRECTORY if stat.S_ISDIR(mode) else Kind.OTHER


def _version_of(status: os.stat_result) -> FileVersion:
    return FileVersion(status.st_size, status.st_ino & _LARGEST_LONG, status.st_ctime_ns)


def _is_text(name: str) -> bool:
    """Whether a name is UTF-8. All names that Kafka writes are."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


LOCAL: Storage = LocalStorage()
"""The local file system: where a segment is, unless its reader was told otherwise."""
