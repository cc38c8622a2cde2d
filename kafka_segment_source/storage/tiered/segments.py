"""One segment of a tier: its objects and what they say of it, by its manifest or, in LocalTieredStorage, by its bytes.

Comes in: the objects of one name. Goes out: `TierSegment`. The version of a shown `.log` names these objects
(`identity.py`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from kafka_segment_source import kafka_format
from kafka_segment_source.epoch_checkpoint import Epochs, EpochsError, parse_epochs
from kafka_segment_source.storage.store import (
    Entry,
    FileVersion,
    Kind,
    OpenFile,
    ReplacedError,
    Storage,
    note_object,
)
from kafka_segment_source.storage.tiered.identity import Identity
from kafka_segment_source.storage.tiered.manifest import MOST_MANIFEST, Manifest, ManifestError, parse_manifest
from kafka_segment_source.storage.tiered.names import TierHome, TierObject, parse_object

MANIFEST = "rsm-manifest"
LOG = "log"
INDEXES = "indexes"
_EPOCHS = "leader_epoch_checkpoint"
AIVEN_OBJECTS = frozenset({LOG, MANIFEST})
LOCAL_OBJECTS = frozenset({LOG, "index", "timeindex", "snapshot", _EPOCHS})
"""The objects that a whole segment has, in Aiven's layout and in that of LocalTieredStorage."""

_MOST_EPOCHS_BYTES = 1024 * 1024
_HEAD = struct.Struct(">qiib4xhi")  # base offset, length, leader epoch, magic, attributes, last offset delta


@dataclass(frozen=True, slots=True)
class TierSegment:
    """One segment of a tier, with all its objects by suffix.

    last_offset: inclusive, None where nothing says it.
    epochs: of its own offsets.
    lineage: of all offsets up to its end, as its leader knew them; empty where that was not read.
    epochs_fault: a sentence, if its object or part with the leader epochs is damaged.
    manifest, fault: of a tier with manifests, one of the two.
    """

    name: TierObject
    objects: dict[str, Entry]
    last_offset: int | None = None
    epochs: Epochs = ()
    lineage: Epochs = ()
    epochs_fault: str | None = None
    manifest: Manifest | None = None
    fault: ManifestError | None = None

    @property
    def size(self) -> int:
        """Bytes of the `.log` in Kafka's layout."""
        return show_size(self.objects[LOG]) if self.manifest is None else self.manifest.chunks.file_size

    @property
    def version(self) -> FileVersion:
        manifest = self.objects.get(MANIFEST)
        return Identity(
            self.name.stem,
            self.objects[LOG].version,
            None if manifest is None else manifest.version,
            self.last_offset if self.manifest is not None else None,
            None if self.manifest is None else self.manifest.latest,
        ).make_version(self.size)


def show_size(log: Entry) -> int:
    """Returns the bytes that a `.log` of no manifest is shown with. One without bytes has one, so that it is read, and
    its damage is said."""
    return max(log.size, 1)


ReadManifest = Callable[[str, Entry], Manifest | ManifestError]
"""The name of a stem and the entry of its manifest → the manifest."""


def group_objects(entries: Iterable[Entry]) -> dict[str, dict[str, Entry]]:
    """Returns the objects of each segment by stem and suffix."""
    groups: dict[str, dict[str, Entry]] = {}
    for entry in entries:
        name = parse_object(entry.name)
        if name is not None and entry.kind is Kind.FILE:
            groups.setdefault(name.stem, {})[name.suffix] = entry
    return groups


def load_by_manifest(
    name: TierObject, objects: dict[str, Entry], home: TierHome, read_manifest: ReadManifest
) -> TierSegment:
    manifest = read_manifest(name.stem, objects[MANIFEST])
    if isinstance(manifest, Manifest):
        fault = check_manifest(manifest, name, home)
        if fault is None:
            return TierSegment(name, objects, manifest.last_offset, manifest.epochs, manifest=manifest)
        manifest = fault
    return TierSegment(name, objects, fault=manifest)


def check_manifest(manifest: Manifest, name: TierObject, home: TierHome) -> ManifestError | None:
    """Returns how a manifest contradicts the name of its object, or None."""
    stated = (manifest.topic_id, manifest.partition, manifest.base_offset, manifest.segment_id)
    named = (home.topic_id, home.partition, name.base_offset, name.segment_id)
    if stated == named and home.above.endswith(manifest.topic) and manifest.topic:
        return None
    if stated == named:
        expected = f"the end of {home.above!r}"
        return ManifestError("manifest of another topic than its name says", repr(manifest.topic[:260]), expected)
    words = "topic id {}, partition {}, offset {}, segment {}"
    return ManifestError("manifest of another segment than its name says", words.format(*stated), words.format(*named))


def load_by_bytes(name: TierObject, objects: dict[str, Entry], home: str, inner: Storage) -> TierSegment:
    """Loads a segment of LocalTieredStorage. Nothing but its bytes says where it ends.

    Its leader epochs are those of its object. If that is damaged, they are those of its batches. Raises the storage's
    errors.
    """
    path, fault, lineage = f"{home}/{objects[_EPOCHS].name}", None, Epochs()
    try:
        with _reading(objects[_EPOCHS], home, inner) as file:
            lineage = parse_epochs(file.read_at(0, _MOST_EPOCHS_BYTES))
        own = cut_epochs(lineage, name.base_offset)
    except EpochsError as error:
        fault = explain_epochs(repr(path), error)
        own = _read_own_epochs(name.base_offset, objects[LOG], home, inner)
    last = _find_last_offset(name.base_offset, objects, home, inner)
    return TierSegment(name, objects, last, own, lineage, fault)


def explain_epochs(what: str, error: Exception) -> str:
    """Returns the sentence about damaged leader epochs. what: the object, or the part of one."""
    return f"{what} is damaged: {error}; the leader epochs of other objects and of the batches are used instead"


def cut_epochs(epochs: Epochs, start: int) -> Epochs:
    """Returns the epochs of the offsets from `start` on."""
    before = [epoch for epoch, since in epochs if since <= start]
    first = ((before[-1], start),) if before else ()
    return first + tuple((epoch, since) for epoch, since in epochs if since > start)


def _read_own_epochs(base_offset: int, log: Entry, home: str, inner: Storage) -> Epochs:
    """Returns the leader epochs of the batches of a `.log`, each with the first offset that has it."""
    with _reading(log, home, inner) as file:
        epochs: dict[int, int] = {}
        for base, _, epoch, _ in _walk(file, 0, log.size, base_offset):
            if epoch > max(epochs, default=-1):
                epochs[epoch] = base
    return tuple(epochs.items())


def _find_last_offset(base_offset: int, objects: dict[str, Entry], home: str, inner: Storage) -> int | None:
    """Returns the last offset of the last whole batch of a `.log`. None where no whole batch of magic 2 ends it."""
    with _reading(objects["index"], home, inner) as index:
        size = objects["index"].size // kafka_format.OFFSET_INDEX_ENTRY * kafka_format.OFFSET_INDEX_ENTRY
        entry = index.read_at(size - kafka_format.OFFSET_INDEX_ENTRY, kafka_format.OFFSET_INDEX_ENTRY) if size else b""
    position = int.from_bytes(entry[-4:], "big") if entry else 0
    log, end = objects[LOG], objects[LOG].size
    with _reading(log, home, inner) as file:
        for start in dict.fromkeys((position if position < end else 0, 0)):
            last, reached = None, start
            for _, last, _, reached in _walk(file, start, end, base_offset):  # noqa: B007  # the last one counts
                pass
            if last is not None and reached == end:
                return last
    return None


@contextmanager
def _reading(entry: Entry, home: str, inner: Storage) -> Iterator[OpenFile]:
    """Opens an object of a tier for a while. The storage's errors name it."""
    path = f"{home}/{entry.name}"
    try:
        with closing(inner.open(path, entry.version)) as file:
            yield file
    except OSError as error:
        note_object(error, path)
        raise


def _walk(file: OpenFile, position: int, end: int, base_offset: int) -> Iterator[tuple[int, int, int, int]]:
    """Yields base offset, last offset, leader epoch and end position of each batch, up to the first odd one."""
    while position < end:
        head = file.read_at(position, _HEAD.size)
        if len(head) < _HEAD.size:
            return
        base, length, epoch, magic, _, delta = _HEAD.unpack(head)
        if magic != kafka_format.MAGIC_V2 or length < kafka_format.MIN_BATCH_LENGTH or base < base_offset or delta < 0:
            return
        position += length + kafka_format.LOG_OVERHEAD
        yield base, base + delta, epoch, position


def make_topic_error(manifest: Manifest) -> ManifestError:
    """Returns the error of a manifest whose topic is not that of most others of its partition."""
    what = "manifest of another topic than its neighbours"
    return ManifestError(what, repr(manifest.topic[:260]), "the topic of most of them")


def check_version(file: OpenFile, version: FileVersion) -> None:
    """Raises ReplacedError if an open object is not the one that was listed. Objects of a tier never change."""
    present = file.version()
    if not present.is_same_file(version) or present.size != version.size:
        raise ReplacedError("it is another object now")


def read_manifest(path: str, entry: Entry, inner: Storage) -> Manifest | ManifestError:
    """Reads a manifest. Raises the storage's errors, FileNotFoundError among them."""
    with closing(inner.open(path, entry.version)) as file:
        check_version(file, entry.version)
        data = file.read_at(0, MOST_MANIFEST + 1)
    if len(data) > MOST_MANIFEST:
        return ManifestError("manifest that is too large", f"more than {MOST_MANIFEST:,} bytes", "at most that")
    try:
        return parse_manifest(data)
    except ManifestError as fault:
        return fault
