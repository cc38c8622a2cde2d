"""One partition of a tier: its objects → files of Kafka's own layout, in one or more directories.

Comes in: a listing of the tier's directory, and the manifests. Goes out: `TierPartition`. It opens the small objects
that say which offsets a segment has.

Segments that overlap are shown in directories of their own, as copies of the partition are. So `partition/` chooses
between them by their leader epochs. This is how a broker chooses: it looks up the leader epoch of an offset in its own
epochs, and then a segment of that epoch (Kafka: RemoteLogMetadataCache.remoteLogSegmentMetadata,
RemoteLogLeaderEpochState.floorEntry, KIP-405). Segments of one epoch have the same records at the same offsets, so any
of them serves (KAFKA-15168, KAFKA-16511).

The producer snapshot of a tiered segment is the state at its end. In Kafka's layout, its name has that offset.
"""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from kafka_segment_source import kafka_format
from kafka_segment_source.storage.ahead import map_ahead
from kafka_segment_source.storage.store import Entry, FileVersion, Kind, OpenFile, ReplacedError, Storage
from kafka_segment_source.storage.tiered.manifest import MOST_MANIFEST, Manifest, ManifestError, parse_manifest
from kafka_segment_source.storage.tiered.names import TierHome, TierObject, parse_object

MANIFEST = "rsm-manifest"
LOG = "log"
INDEXES = "indexes"
_AIVEN = frozenset({LOG, INDEXES, MANIFEST})
# Kafka's LocalTieredStorage: suffix of the object → that of Kafka's own layout
LOCAL_SUFFIXES = {
    "index": kafka_format.INDEX_SUFFIX,
    "timeindex": kafka_format.TIME_INDEX_SUFFIX,
    "txnindex": kafka_format.TRANSACTION_INDEX_SUFFIX,
    "snapshot": kafka_format.SNAPSHOT_SUFFIX,
}
_EPOCHS = "leader_epoch_checkpoint"
_LOCAL = frozenset({LOG, "index", "timeindex", "snapshot", _EPOCHS})
PART_SUFFIXES = {
    "offset": kafka_format.INDEX_SUFFIX,
    "timestamp": kafka_format.TIME_INDEX_SUFFIX,
    "transaction": kafka_format.TRANSACTION_INDEX_SUFFIX,
    "producerSnapshot": kafka_format.SNAPSHOT_SUFFIX,
}
EPOCHS = "leaderEpoch"
"""The part of an `.indexes` object that has the leader epochs of the log up to the segment's end."""

UNFINISHED = ".unfinished"
"""The suffix of a name that stands for a segment of which some objects are missing. It is not data."""

_MOST_EPOCHS_BYTES = 1024 * 1024
_IDENTITY = "tier"
_HEAD = struct.Struct(">qiib4xhi")  # base offset, length, leader epoch, magic, attributes, last offset delta


class Identity(NamedTuple):
    """What the version of a shown `.log` says: its objects, and the facts of its manifest.

    stem: the name of its objects, without suffix. log: the version of the `.log` object. manifest: that of the
    manifest, None for a tier without. last_offset, latest (ms): by the manifest, None where it is not believed.
    """

    stem: str
    log: FileVersion
    manifest: FileVersion | None
    last_offset: int | None
    latest: int | None

    def make_version(self, size: int) -> FileVersion:
        """Returns the version of the shown file."""
        return FileVersion(size, json.dumps([_IDENTITY, *self], separators=(",", ":")), 0)


def read_identity(version: FileVersion | None) -> Identity | None:
    """Returns what the version of a shown `.log` says. None for the version of any other file."""
    if version is None or not isinstance(version.identity, str) or not version.identity.startswith(f'["{_IDENTITY}",'):
        return None
    _, stem, log, manifest, last_offset, latest = json.loads(version.identity)
    return Identity(stem, FileVersion(*log), None if manifest is None else FileVersion(*manifest), last_offset, latest)


Epochs = tuple[tuple[int, int], ...]
"""Leader epochs and their start offsets, in order."""


@dataclass(frozen=True, slots=True)
class TierSegment:
    """One segment of a tier, with all its objects by suffix.

    last_offset: inclusive, None where nothing says it. epochs: of its own offsets. lineage: of all offsets up to its
    end, as its leader knew them; empty where that was not read. manifest, fault: of a tier with manifests, one of the
    two.
    """

    name: TierObject
    objects: dict[str, Entry]
    last_offset: int | None = None
    epochs: Epochs = ()
    lineage: Epochs = ()
    manifest: Manifest | None = None
    fault: ManifestError | None = None

    @property
    def size(self) -> int:
        """Bytes of the `.log` in Kafka's layout."""
        return self.objects[LOG].size if self.manifest is None else self.manifest.chunks.file_size

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


@dataclass(frozen=True, slots=True)
class ShownFile:
    """One file of Kafka's layout. segment, part: which object it stands for; none of them for one of `text`."""

    entry: Entry
    segment: TierSegment | None = None
    part: str = LOG
    text: bytes = b""


Files = dict[str, ShownFile]


@dataclass(frozen=True, slots=True)
class TierPartition:
    """One partition of a tier. copies: the files of each directory that stands for it, from number 1 on."""

    topic: str
    partition: int
    copies: tuple[Files, ...]
    unlisted: set[int] = field(default_factory=set)

    @property
    def directory(self) -> str:
        return f"{self.topic}-{self.partition}"


ReadManifest = Callable[[str, Entry], Manifest | ManifestError | None]
ReadLineage = Callable[[TierSegment], bytes]


def group_objects(entries: Iterable[Entry]) -> dict[str, dict[str, Entry]]:
    """Returns the objects of each segment by stem and suffix."""
    found: dict[str, dict[str, Entry]] = {}
    for entry in entries:
        name = parse_object(entry.name)
        if name is not None and entry.kind is Kind.FILE:
            found.setdefault(name.stem, {})[name.suffix] = entry
    return found


def make_partition(
    home: TierHome,
    path: str,
    entries: Iterable[Entry],
    inner: Storage,
    read_manifest: ReadManifest,
    read_lineage: ReadLineage,
) -> TierPartition:
    """Returns the partition at `path`.

    read_manifest: the name of a stem and the entry → the manifest. read_lineage: a segment → the text of its leader
    epochs, empty if it cannot be read.
    """
    by_stem = group_objects(entries)
    needed = _LOCAL if home.topic is not None else _AIVEN
    names = {stem: parse_object(f"{stem}.{LOG}") for stem in by_stem}
    whole = [stem for stem in sorted(by_stem) if needed <= by_stem[stem].keys() and _is_written(by_stem[stem])]
    unfinished = [stem for stem in sorted(by_stem) if stem not in set(whole)]

    def load(stem: str) -> TierSegment | None:
        name = names[stem]
        assert name is not None
        if home.topic is None:
            return _load_by_manifest(name, by_stem[stem], home, read_manifest)
        return _load_by_bytes(name, by_stem[stem], path, inner)

    loaded = list(map_ahead(load, whole, inner.read_cost(path).at_once))
    segments = [segment for segment in loaded if segment is not None]
    unfinished += [stem for stem, segment in zip(whole, loaded, strict=True) if segment is None]
    topics = Counter(segment.manifest.topic for segment in segments if segment.manifest is not None)
    topic = home.topic or (topics.most_common(1)[0][0] if topics else "")
    segments = [_check_topic(segment, topic) for segment in segments]
    lineage = _find_lineage(segments, read_lineage)
    chains = _chain(segments, lineage) or [[]]
    copies = [_show(chain, home, lineage) for chain in chains]
    for stem in unfinished:
        entry = Entry(stem + UNFINISHED, Kind.FILE)
        copies[0][entry.name] = ShownFile(entry)
    return TierPartition(topic, home.partition, tuple(copies), set(range(1, len(copies) + 1)))


def _is_written(objects: dict[str, Entry]) -> bool:
    """Whether the object that is written last, or that says most, has any bytes. On a mount it may have none yet."""
    return objects[MANIFEST if MANIFEST in objects else LOG].size > 0


def _check_topic(segment: TierSegment, topic: str) -> TierSegment:
    """Returns the segment, without its manifest if that is of another topic than most others."""
    if segment.manifest is None or segment.manifest.topic == topic:
        return segment
    return TierSegment(segment.name, segment.objects, fault=make_topic_error(segment.manifest))


def make_topic_error(manifest: Manifest) -> ManifestError:
    """Returns the error of a manifest whose topic is not that of most others of its partition."""
    what = "manifest of another topic than its neighbours"
    return ManifestError(what, repr(manifest.topic[:260]), "the topic of most of them")


def _load_by_manifest(
    name: TierObject, objects: dict[str, Entry], home: TierHome, read_manifest: ReadManifest
) -> TierSegment | None:
    found = read_manifest(name.stem, objects[MANIFEST])
    if found is None:
        return None
    if isinstance(found, Manifest):
        fault = check_manifest(found, name, home)
        if fault is None:
            return TierSegment(name, objects, found.last_offset, found.epochs, manifest=found)
        found = fault
    return TierSegment(name, objects, fault=found)


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


def _load_by_bytes(name: TierObject, objects: dict[str, Entry], home: str, inner: Storage) -> TierSegment | None:
    """Loads a segment of LocalTieredStorage. Nothing but its bytes says where it ends."""
    try:
        epochs_file = inner.open(f"{home}/{objects[_EPOCHS].name}", objects[_EPOCHS].version)
        try:
            epochs = _parse_epochs(epochs_file.read_at(0, _MOST_EPOCHS_BYTES))
        finally:
            epochs_file.close()
        last = _find_last_offset(name.base_offset, objects, home, inner)
    except FileNotFoundError:
        return None  # it is being deleted
    return TierSegment(name, objects, last, _cut(epochs, name.base_offset), epochs)


def _cut(epochs: Epochs, start: int) -> Epochs:
    """Returns the epochs of the offsets from `start` on."""
    before = [epoch for epoch, since in epochs if since <= start]
    first = ((before[-1], start),) if before else ()
    return first + tuple((epoch, since) for epoch, since in epochs if since > start)


def _parse_epochs(data: bytes) -> Epochs:
    words = [line.split() for line in data.decode("ascii", "replace").splitlines()[2:]]
    pairs = [tuple(map(int, line)) for line in words if len(line) == 2 and all(word.isdigit() for word in line)]  # noqa: PLR2004
    return tuple(sorted((epoch, start) for epoch, start in pairs))


def _find_last_offset(base_offset: int, objects: dict[str, Entry], home: str, inner: Storage) -> int | None:
    """Returns the last offset of the last whole batch of a `.log`. None where no whole batch of magic 2 ends it."""
    index = inner.open(f"{home}/{objects['index'].name}", objects["index"].version)
    try:
        size = objects["index"].size // kafka_format.OFFSET_INDEX_ENTRY * kafka_format.OFFSET_INDEX_ENTRY
        entry = index.read_at(size - kafka_format.OFFSET_INDEX_ENTRY, kafka_format.OFFSET_INDEX_ENTRY) if size else b""
    finally:
        index.close()
    position = int.from_bytes(entry[-4:], "big") if entry else 0
    log, end = objects[LOG], objects[LOG].size
    file = inner.open(f"{home}/{log.name}", log.version)
    try:
        for start in dict.fromkeys((position if position < end else 0, 0)):
            last = _walk(file, start, end, base_offset)
            if last is not None:
                return last
    finally:
        file.close()
    return None


def _walk(file: OpenFile, position: int, end: int, base_offset: int) -> int | None:
    last = None
    while position < end:
        head = file.read_at(position, _HEAD.size)
        if len(head) < _HEAD.size:
            return None
        base, length, _, magic, _, delta = _HEAD.unpack(head)
        if magic != kafka_format.MAGIC_V2 or length < kafka_format.MIN_BATCH_LENGTH or base < base_offset or delta < 0:
            return None
        last = base + delta
        position += length + kafka_format.LOG_OVERHEAD
    return last if position == end else None


def _find_lineage(segments: list[TierSegment], read_lineage: ReadLineage) -> Epochs:
    """Returns the leader epochs of the partition, as the leader of the newest segment knew them.

    Empty where all segments are of one epoch, as they cannot contradict each other.
    """
    newest = max(segments, key=lambda each: (_last_epoch(each), each.last_offset or -1), default=None)
    if newest is None or len({epoch for each in segments for epoch, _ in each.epochs}) <= 1:
        return ()
    return newest.lineage or _parse_epochs(read_lineage(newest))


def _is_in_lineage(segment: TierSegment, lineage: Epochs) -> bool:
    """Whether a segment has the leader epochs that the newest leader knew for its offsets.

    Otherwise the end of the segment was written by a leader that was fenced.
    """
    if not lineage or not segment.epochs or segment.last_offset is None:
        return True
    end = segment.last_offset + 1
    known = tuple(each for each in _cut(lineage, segment.name.base_offset) if each[1] < end)
    return known == segment.epochs


def _chain(segments: list[TierSegment], lineage: Epochs) -> list[list[TierSegment]]:
    """Returns the segments in lists, so that none overlaps another one of its list, and leader epochs never fall.

    Segments outside the lineage are in lists of their own. So the ends of lists never hide behind a later segment. A
    segment of an unknown end counts as one that ends where the next one begins.
    """
    chains: list[list[TierSegment]] = []
    ends: list[tuple[int, int]] = []  # of each list: the offset after it, and its last leader epoch
    for segment in sorted(segments, key=lambda each: (each.name.base_offset, -_last_epoch(each), each.name.stem)):
        base = segment.name.base_offset
        first_epoch = segment.epochs[0][0] if segment.epochs else -1
        is_of_lineage = _is_in_lineage(segment, lineage)
        fits = [
            at
            for at, (end, epoch) in enumerate(ends)
            if is_of_lineage
            and end <= base
            and (first_epoch < 0 or epoch <= first_epoch)
            and chains[at][-1].name.base_offset < base
        ]
        if fits:
            # the list that reaches furthest goes on without a gap
            at = max(fits, key=lambda each: (ends[each][0], -each))
        else:
            at = len(chains)
            chains.append([])
            ends.append((0, -1))
        chains[at].append(segment)
        end = base + 1 if segment.last_offset is None else segment.last_offset + 1
        ends[at] = (end, max(ends[at][1], _last_epoch(segment))) if is_of_lineage else (kafka_format.MAX_OFFSET, -1)
    return chains


def _last_epoch(segment: TierSegment) -> int:
    return segment.epochs[-1][0] if segment.epochs else -1


def _show(chain: list[TierSegment], home: TierHome, lineage: Epochs) -> Files:
    """Returns the files of Kafka's layout of some segments that do not overlap.

    A list of the lineage has the epochs of the lineage up to its end. Another one has those of its segments.
    """
    files: Files = {}

    def add(name: str, segment: TierSegment, part: str, version: FileVersion) -> None:
        files[name] = ShownFile(Entry(name, Kind.FILE, version), segment, part)

    epochs: dict[int, int] = {}
    for segment in chain:
        base = f"{segment.name.base_offset:0{kafka_format.BASE_OFFSET_DIGITS}d}"
        add(f"{base}{kafka_format.LOG_SUFFIX}", segment, LOG, segment.version)
        for part, suffix, version in _list_parts(segment):
            if suffix == kafka_format.SNAPSHOT_SUFFIX:
                if segment.last_offset is None:
                    continue
                add(f"{segment.last_offset + 1:0{kafka_format.BASE_OFFSET_DIGITS}d}{suffix}", segment, part, version)
            else:
                add(base + suffix, segment, part, version)
        for epoch, start in segment.epochs:
            epochs.setdefault(epoch, start)
    if lineage and chain and chain[-1].epochs and _is_in_lineage(chain[-1], lineage):
        # a list may have gaps, which other lists fill, and an epoch may begin in one of them
        epochs = {epoch: start for epoch, start in lineage if epoch <= _last_epoch(chain[-1])}
    lines = [
        str(kafka_format.CHECKPOINT_VERSION),
        str(len(epochs)),
        *(f"{epoch} {epochs[epoch]}" for epoch in sorted(epochs)),
    ]
    _add_text(files, kafka_format.LEADER_EPOCH_CHECKPOINT, "".join(f"{line}\n" for line in lines))
    _add_text(files, kafka_format.PARTITION_METADATA, f"version: 0\n{kafka_format.TOPIC_ID_KEY}: {home.topic_id}\n")
    return files


def _add_text(files: Files, name: str, text: str) -> None:
    data = text.encode()
    files[name] = ShownFile(Entry(name, Kind.FILE, FileVersion(len(data), text, 0)), text=data)


def _list_parts(segment: TierSegment) -> Iterable[tuple[str, str, FileVersion]]:
    """Yields the files beside a `.log`: the part or object, the suffix in Kafka's layout, and the version."""
    if segment.manifest is not None:
        stored = segment.objects[INDEXES].version
        for part, suffix in PART_SUFFIXES.items():
            size = segment.manifest.part_size(part)
            if size is not None:
                yield part, suffix, FileVersion(size, f"{segment.name.stem} {part} {stored.identity}", stored.changed)
    elif segment.fault is None:
        for part, suffix in LOCAL_SUFFIXES.items():
            if part in segment.objects:
                yield part, suffix, segment.objects[part].version


def check_version(file: OpenFile, version: FileVersion) -> None:
    """Raises ReplacedError if an open object is not the one that was listed. Objects of a tier never change."""
    found = file.version()
    if not found.is_same_file(version) or found.size != version.size:
        raise ReplacedError("it is another object now")


def read_manifest(path: str, entry: Entry, inner: Storage) -> Manifest | ManifestError | None:
    """Reads a manifest. None if it is gone. Raises the storage's errors."""
    try:
        file = inner.open(path, entry.version)
        try:
            check_version(file, entry.version)
            data = file.read_at(0, MOST_MANIFEST + 1)
        finally:
            file.close()
    except FileNotFoundError:
        return None
    if len(data) > MOST_MANIFEST:
        return ManifestError("manifest that is too large", f"more than {MOST_MANIFEST:,} bytes", "at most that")
    try:
        return parse_manifest(data)
    except ManifestError as fault:
        return fault
