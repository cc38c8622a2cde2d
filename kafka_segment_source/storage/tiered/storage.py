"""A storage that shows the remote tiers inside another storage as partition directories of Kafka's own layout.

A path that stands for a part of a tier has the mark of `names.py`. All other paths are those of the storage below. So
the rest of the package reads a tier as it reads a directory. Three layouts are known: Aiven's plugin and Kafka's own
LocalTieredStorage are shown, and Pinterest's is Kafka's layout already.

The version of a shown `.log` says which objects it stands for, and their versions. So a task opens them without a
listing. Errors name the object.

Manifests are read at the same time, where a read takes a round trip, and once a version. The last listing of each
partition is remembered, for the small files of its directories.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

from kafka_segment_source import kafka_format
from kafka_segment_source.epoch_checkpoint import Epochs, EpochsError, parse_epochs
from kafka_segment_source.storage.store import (
    Entries,
    Entry,
    FileVersion,
    Kind,
    OpenFile,
    Paths,
    ReadCost,
    Storage,
    note_object,
)
from kafka_segment_source.storage.tiered.chunks import ChunkedFile
from kafka_segment_source.storage.tiered.encryption import NO_KEYS, TierKeys, find_cipher
from kafka_segment_source.storage.tiered.identity import Identity, read_identity
from kafka_segment_source.storage.tiered.manifest import Manifest, ManifestError
from kafka_segment_source.storage.tiered.names import (
    ShownPath,
    is_shown,
    parse_home,
    parse_object,
    split_shown,
)
from kafka_segment_source.storage.tiered.partition import EPOCHS, ShownFile, TierPartition, make_partition
from kafka_segment_source.storage.tiered.segments import (
    INDEXES,
    LOG,
    MANIFEST,
    TierSegment,
    check_manifest,
    check_version,
    explain_epochs,
    make_topic_error,
    read_manifest,
    show_size,
)
from kafka_segment_source.storage.tiered.tier_files import (
    BrokenFile,
    DamagedPartError,
    DataFile,
    PartFile,
    RenamedFile,
    decrypt_part,
)

_MOST_MANIFESTS = 20_000  # that are remembered; one takes about 2 KB
_MOST_PARTITIONS = 10_000

_Read = Manifest | ManifestError


class _Memory:
    """Manifests and listings of this process. A copy in another process begins with none."""

    def __init__(self) -> None:
        self.manifests: dict[tuple[str, FileVersion], _Read] = {}
        self.partitions: dict[str, TierPartition] = {}
        self._lock = threading.Lock()

    def keep_manifest(self, path: str, version: FileVersion, manifest: _Read) -> None:
        with self._lock:
            if len(self.manifests) >= _MOST_MANIFESTS:
                self.manifests.clear()
            self.manifests[path, version] = manifest

    def keep_partition(self, home: str, partition: TierPartition) -> None:
        with self._lock:
            if len(self.partitions) >= _MOST_PARTITIONS:
                self.partitions.clear()
            self.partitions[home] = partition

    def __reduce__(self) -> tuple[type[_Memory], tuple[()]]:
        return _Memory, ()


@dataclass(frozen=True, slots=True)
class TieredStorage:
    """The files of another storage, and the tiers in it."""

    inner: Storage
    keys: TierKeys = field(default=NO_KEYS, compare=False)  # they change nothing about where files are
    _memory: _Memory = field(default_factory=_Memory, compare=False, repr=False)

    def look_at(self, path: str) -> Entry | None:
        shown = split_shown(path)
        if shown is None:
            return self.inner.look_at(path)
        if shown.name is not None:
            return self._look_at_file(shown)
        partition = self._list_home(shown.home)
        name = path.rpartition("/")[2]
        return Entry(name, Kind.DIRECTORY) if _is_directory(shown, partition) else None

    def list(self, directory: str) -> Entries:
        shown = split_shown(directory)
        if shown is None:
            return self.inner.list(directory)
        if shown.copy is None:
            partition = self._list_home(shown.home)
            count = 0 if partition is None else len(partition.copies)
            return [Entry(str(copy), Kind.DIRECTORY) for copy in range(1, count + 1)]
        partition = self._memory.partitions.get(shown.home)
        if partition is None or shown.copy not in partition.unlisted:
            partition = self._list_home(shown.home)
        if partition is None or not _is_directory(shown, partition):
            return []
        if shown.directory is None:
            return [Entry(partition.directory, Kind.DIRECTORY)] if partition.topic else []
        partition.unlisted.discard(shown.copy)
        return [file.entry for file in partition.copies[shown.copy - 1].values()]

    def glob(self, pattern: str) -> Paths:
        if not is_shown(pattern):
            return self.inner.glob(pattern)
        return [pattern] if self.look_at(pattern) is not None else []

    def read_link(self, path: str) -> str:
        return self.inner.read_link(path)

    def open(self, path: str, version: FileVersion | None = None) -> OpenFile:
        shown = split_shown(path)
        if shown is None:
            return self.inner.open(path, version)
        identity = read_identity(version)
        if identity is not None and version is not None:
            return self._open_log(shown.home, identity, version)
        file = self._find_file(shown)
        if file is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if file.segment is None:
            return DataFile(lambda: file.text, file.entry.version)
        if file.part == LOG:
            own = read_identity(file.entry.version)
            assert own is not None
            return self._open_log(shown.home, own, file.entry.version)
        return self._open_part(shown.home, file)

    def replace(self, path: str, data: bytes, known: FileVersion | None = None) -> None:
        if is_shown(path):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        self.inner.replace(path, data, known)

    def remove(self, path: str) -> None:
        if is_shown(path):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        self.inner.remove(path)

    def read_cost(self, path: str) -> ReadCost:
        return self.inner.read_cost(path)

    def count_requests(self) -> int:
        return self.inner.count_requests()

    def find_segment(self, path: str) -> tuple[str, TierSegment] | None:
        """Returns the segment that a shown `.log` stands for, and the tier's directory of its partition, as listed
        last. None for any other file."""
        shown = split_shown(path)
        file = None if shown is None else self._find_file(shown)
        return None if shown is None or file is None or file.segment is None else (shown.home, file.segment)

    # ---- listings ----

    def _list_home(self, home: str) -> TierPartition | None:
        """Lists a tier's directory of a partition. None for any other directory, and for one that is not there."""
        named = parse_home(home)
        if named is None:
            return None
        entries = self.inner.list(home)
        if not any(parse_object(entry.name) for entry in entries):
            return None
        partition = make_partition(
            named,
            home,
            entries,
            self.inner,
            lambda stem, entry: self._read_manifest(home, stem, entry.version),
            lambda segment: self._read_lineage(home, segment),
        )
        self._memory.keep_partition(home, partition)
        return partition

    def _read_manifest(self, home: str, stem: str, version: FileVersion) -> _Read:
        path = f"{home}/{stem}.{MANIFEST}"
        known = self._memory.manifests.get((path, version))
        if known is not None:
            return known
        with _naming(path):
            manifest = read_manifest(path, Entry(f"{stem}.{MANIFEST}", Kind.FILE, version), self.inner)
        self._memory.keep_manifest(path, version, manifest)
        return manifest

    def _read_lineage(self, home: str, segment: TierSegment) -> Epochs:
        """Reads the leader epochs that the leader of a segment knew. None where there is no such part.

        Raises EpochsError with a sentence if they are damaged, OptionError if their key is missing, and the storage's
        errors.
        """
        manifest = segment.manifest
        if manifest is None or EPOCHS not in manifest.parts:
            return ()
        size = manifest.part_size(EPOCHS) or 0
        shown = ShownFile(Entry(EPOCHS, Kind.FILE, FileVersion(size, "", 0)), segment, EPOCHS)
        what = f"part {EPOCHS!r} of {f'{home}/{segment.name.stem}.{INDEXES}'!r}"
        if INDEXES not in segment.objects:
            raise EpochsError(explain_epochs(what, EpochsError("the object is missing")))
        try:
            with closing(self._open_part(home, shown)) as file:
                return parse_epochs(file.read_at(0, size))
        except (DamagedPartError, EpochsError) as error:
            raise EpochsError(explain_epochs(what, error)) from None

    def _find_file(self, shown: ShownPath) -> ShownFile | None:
        """Returns a file by the last listing of its partition, or by a new one if that does not have it."""
        if shown.copy is None or shown.directory is None or shown.name is None:
            return None
        for partition in (self._memory.partitions.get(shown.home), None):
            now = partition or self._list_home(shown.home)
            if now is None:
                return None
            if _is_directory(shown, now) and shown.name in now.copies[shown.copy - 1]:
                return now.copies[shown.copy - 1][shown.name]
            if partition is not None and not shown.name.endswith(kafka_format.LOG_SUFFIX):
                return None  # a directory that was listed has no such file
        return None

    def _look_at_file(self, shown: ShownPath) -> Entry | None:
        file = self._find_file(shown)
        if file is None or file.segment is None or file.part != LOG:
            return None if file is None else file.entry
        stem, known = file.segment.name.stem, read_identity(file.entry.version)
        assert known is not None
        log = self.inner.look_at(f"{shown.home}/{stem}.{LOG}")
        if log is None or log.kind is not Kind.FILE:
            return None
        if known.manifest is None:
            return file.entry._replace(version=known._replace(log=log.version).make_version(show_size(log)))
        manifest = self.inner.look_at(f"{shown.home}/{stem}.{MANIFEST}")
        if manifest is None:
            return None
        if (log.version, manifest.version) == (known.log, known.manifest):
            return file.entry
        other = known._replace(log=log.version, manifest=manifest.version)
        return file.entry._replace(version=other.make_version(file.entry.size))

    # ---- open files ----

    def _open_log(self, home: str, identity: Identity, version: FileVersion) -> OpenFile:
        path = f"{home}/{identity.stem}.{LOG}"
        if identity.manifest is None and not identity.log.size:
            return BrokenFile(path, version, ManifestError("segment without bytes", "0 bytes", "at least one batch"))
        if identity.manifest is None:
            return RenamedFile(self._open_object(path, identity.log), version)
        manifest = self._find_manifest(home, identity)
        where = f"{home}/{identity.stem}.{MANIFEST}"
        if isinstance(manifest, ManifestError):
            return BrokenFile(where, version, manifest)
        if manifest.is_plain and identity.log.size == manifest.chunks.file_size:
            return RenamedFile(self._open_object(path, identity.log), version)
        encryption = manifest.encryption
        cipher = None if encryption is None else find_cipher(encryption, self.keys, where)
        return ChunkedFile(
            self._open_object(path, identity.log),
            path,
            version,
            manifest.chunks,
            stored_size=identity.log.size,
            is_compressed=manifest.is_compressed,
            cipher=cipher,
            aad=b"" if encryption is None else encryption.aad,
        )

    def _find_manifest(self, home: str, identity: Identity) -> _Read:
        name, named = parse_object(f"{identity.stem}.{LOG}"), parse_home(home)
        assert name is not None and named is not None and identity.manifest is not None
        manifest = self._read_manifest(home, identity.stem, identity.manifest)
        fault = check_manifest(manifest, name, named) if isinstance(manifest, Manifest) else None
        if fault is None and isinstance(manifest, Manifest) and identity.last_offset is None:
            fault = make_topic_error(manifest)  # its listing did not believe it
        return manifest if fault is None else fault

    def _open_part(self, home: str, file: ShownFile) -> OpenFile:
        """Opens an index file or a producer snapshot."""
        segment, version = file.segment, file.entry.version
        assert segment is not None
        manifest = segment.manifest
        if manifest is None:
            entry = segment.objects[file.part]
            return self._open_object(f"{home}/{entry.name}", entry.version)
        entry = segment.objects[INDEXES]
        path = f"{home}/{entry.name}"
        place, encryption = manifest.parts[file.part], manifest.encryption
        if encryption is None:
            if sum(place) > entry.size:
                raise DamagedPartError(f"part {file.part!r} of {path!r} ends after its {entry.size} bytes")
            return PartFile(self._open_object(path, entry.version), place[0], version)
        cipher = find_cipher(encryption, self.keys, f"{home}/{segment.name.stem}.{MANIFEST}")
        what = f"part {file.part!r} of {path!r}"

        def make() -> bytes:
            with _naming(path), closing(self._open_object(path, entry.version)) as inner:
                return decrypt_part(inner, place, cipher, encryption.aad, what)

        return DataFile(make, version)

    def _open_object(self, path: str, version: FileVersion) -> OpenFile:
        with _naming(path):
            file = self.inner.open(path, version)
            try:
                check_version(file, version)
            except BaseException:
                file.close()
                raise
            return _Named(file, path)


def _is_directory(shown: ShownPath, partition: TierPartition | None) -> bool:
    """Whether a path without a file's name stands for a directory of a partition."""
    if partition is None:
        return False
    if shown.copy is None:
        return True
    is_named = shown.directory in (None, partition.directory) or not partition.topic  # any name, where none is known
    return 1 <= shown.copy <= len(partition.copies) and is_named


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Notes in the errors of the storage which object they are about."""
    try:
        yield
    except OSError as error:
        note_object(error, path)
        raise


class _Named:
    """An open object, whose errors name it."""

    def __init__(self, file: OpenFile, path: str) -> None:
        self._file = file
        self._path = path
        self.version = file.version
        self.read_ahead = file.read_ahead
        self.is_all_under_way = file.is_all_under_way
        self.descriptor = file.descriptor
        self.close = file.close

    def read_at(self, position: int, count: int) -> bytes:
        with _naming(self._path):
            return self._file.read_at(position, count)

    def read_into(self, position: int, target: memoryview) -> int:
        with _naming(self._path):
            return self._file.read_into(position, target)
