"""One partition of a tier: its objects → files of Kafka's own layout, in one or more directories.

Comes in: a listing of the tier's directory. Goes out: `TierPartition`. `segments.py` loads each segment.

Segments that overlap are shown in directories of their own, as copies of the partition are. So `partition/` chooses
between them by their leader epochs. This is how a broker chooses: it looks up the leader epoch of an offset in its own
epochs, and then a segment of that epoch (Kafka: RemoteLogMetadataCache.remoteLogSegmentMetadata,
RemoteLogLeaderEpochState.floorEntry, KIP-405). Segments of one epoch have the same records at the same offsets, so any
of them serves (KAFKA-15168, KAFKA-16511).

The producer snapshot of a tiered segment is the state at its end. In Kafka's layout, its name has that offset.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from kafka_segment_source import kafka_format
from kafka_segment_source.epoch_checkpoint import Epochs, EpochsError
from kafka_segment_source.storage.ahead import map_ahead
from kafka_segment_source.storage.store import (
    Entry,
    FileVersion,
    Kind,
    ReplacedError,
    Storage,
    VanishedError,
    find_object,
)
from kafka_segment_source.storage.tiered.names import DAMAGED_EPOCHS, UNFINISHED, TierHome, parse_object
from kafka_segment_source.storage.tiered.segments import (
    AIVEN_OBJECTS,
    INDEXES,
    LOCAL_OBJECTS,
    LOG,
    ReadManifest,
    TierSegment,
    cut_epochs,
    group_objects,
    load_by_bytes,
    load_by_manifest,
    make_topic_error,
)

# Kafka's LocalTieredStorage: suffix of the object → that of Kafka's own layout
LOCAL_SUFFIXES = {
    "index": kafka_format.INDEX_SUFFIX,
    "timeindex": kafka_format.TIME_INDEX_SUFFIX,
    "txnindex": kafka_format.TRANSACTION_INDEX_SUFFIX,
    "snapshot": kafka_format.SNAPSHOT_SUFFIX,
}
PART_SUFFIXES = {
    "offset": kafka_format.INDEX_SUFFIX,
    "timestamp": kafka_format.TIME_INDEX_SUFFIX,
    "transaction": kafka_format.TRANSACTION_INDEX_SUFFIX,
    "producerSnapshot": kafka_format.SNAPSHOT_SUFFIX,
}
EPOCHS = "leaderEpoch"
"""The part of an `.indexes` object that has the leader epochs of the log up to the segment's end."""


@dataclass(frozen=True, slots=True)
class ShownFile:
    """One file of Kafka's layout.

    segment, part: which object it stands for; none of them for one of `text`.
    """

    entry: Entry
    segment: TierSegment | None = None
    part: str = LOG
    text: bytes = b""


Files = dict[str, ShownFile]


@dataclass(frozen=True, slots=True)
class TierPartition:
    """One partition of a tier.

    topic: empty where no manifest says it.
    copies: the files of each directory that stands for it, from number 1 on.
    """

    topic: str
    partition: int
    copies: tuple[Files, ...]
    unlisted: set[int] = field(default_factory=set)

    @property
    def directory(self) -> str:
        return f"{self.topic}-{self.partition}"


ReadLineage = Callable[[TierSegment], Epochs]


def make_partition(
    home: TierHome,
    path: str,
    entries: Iterable[Entry],
    inner: Storage,
    read_manifest: ReadManifest,
    read_lineage: ReadLineage,
) -> TierPartition:
    """Returns the partition at `path`.

    read_manifest: the name of a stem and the entry → the manifest. read_lineage: a segment → the leader epochs that its
    leader knew, none if it has no such part; an EpochsError says in one sentence that they are damaged.

    Raises the storage's errors, and VanishedError for an object that was listed and is gone: it is listed again then.
    """
    by_stem = group_objects(entries)
    needed = LOCAL_OBJECTS if home.topic is not None else AIVEN_OBJECTS
    names = {stem: parse_object(f"{stem}.{LOG}") for stem in by_stem}
    whole = [stem for stem in sorted(by_stem) if needed <= by_stem[stem].keys()]
    unfinished = [stem for stem in sorted(by_stem) if stem not in set(whole)]

    def load(stem: str) -> TierSegment:
        name = names[stem]
        assert name is not None
        try:
            if home.topic is None:
                return load_by_manifest(name, by_stem[stem], home, read_manifest)
            return load_by_bytes(name, by_stem[stem], path, inner)
        except (FileNotFoundError, ReplacedError) as error:
            gone = find_object(error, f"{path}/{stem}")
            raise VanishedError(
                f"{gone!r} vanished while its directory was listed, or is another object now"
            ) from error

    segments = list(map_ahead(load, whole, inner.read_cost(path).at_once))
    topics = Counter(segment.manifest.topic for segment in segments if segment.manifest is not None)
    topic = home.topic or (topics.most_common(1)[0][0] if topics else "")
    segments = [_check_topic(segment, topic) for segment in segments]
    lineage, segments = _find_lineage(segments, read_lineage)
    chains = _chain(segments, lineage) or [[]]
    copies = [_show(chain, home, lineage) for chain in chains]
    for stem in unfinished:
        entry = Entry(stem + UNFINISHED, Kind.FILE)
        copies[0][entry.name] = ShownFile(entry)
    for segment in segments:
        if segment.epochs_fault is not None:
            entry = Entry(segment.name.stem + DAMAGED_EPOCHS, Kind.FILE, FileVersion(0, segment.epochs_fault, 0))
            copies[0][entry.name] = ShownFile(entry)
    return TierPartition(topic, home.partition, tuple(copies), set(range(1, len(copies) + 1)))


def _check_topic(segment: TierSegment, topic: str) -> TierSegment:
    """Returns the segment, without its manifest if that is of another topic than most others."""
    if segment.manifest is None or segment.manifest.topic == topic:
        return segment
    return TierSegment(segment.name, segment.objects, fault=make_topic_error(segment.manifest))


def _find_lineage(segments: list[TierSegment], read_lineage: ReadLineage) -> tuple[Epochs, list[TierSegment]]:
    """Returns the leader epochs of the partition, as the leader of the newest segment knew them. Also returns the
    segments, with the fault of each whose leader epochs are damaged.

    Empty where all segments are of one epoch, as they cannot contradict each other. All leaders of one epoch are the
    same one. So if the newest segment's are damaged, another segment of its last epoch serves as well. If none is left,
    the segments themselves say where later epochs begin.
    """
    if len({epoch for segment in segments for epoch, _ in segment.epochs}) <= 1:
        return (), segments
    faults: dict[str, str] = {}
    lineage: Epochs = ()
    for segment in sorted(
        segments, key=lambda segment: (_last_epoch(segment), segment.last_offset or -1), reverse=True
    ):
        if segment.epochs_fault is None and segment.fault is None:
            try:
                lineage = segment.lineage or read_lineage(segment)
                break
            except EpochsError as fault:
                faults[segment.name.stem] = str(fault)
    else:
        segment = None
    known = -1 if segment is None else _last_epoch(segment)
    if lineage or faults or segment is None:
        lineage = _extend(lineage, [segment for segment in segments if _last_epoch(segment) > known])
    return lineage, [
        replace(segment, epochs_fault=faults.get(segment.name.stem, segment.epochs_fault)) for segment in segments
    ]


def _extend(lineage: Epochs, newer: list[TierSegment]) -> Epochs:
    """Returns a lineage with the later epochs of some segments. Each begins at the first offset that one of them has in
    it, and ends what the lineage had from there on."""
    for epoch in sorted(
        {epoch for segment in newer for epoch, _ in segment.epochs if epoch > (lineage or [(-1, 0)])[-1][0]}
    ):
        start = min(start for segment in newer for own, start in segment.epochs if own == epoch)
        lineage = (*(line for line in lineage if line[1] < start), (epoch, start))
    return lineage


def _is_in_lineage(segment: TierSegment, lineage: Epochs) -> bool:
    """Whether a segment has the leader epochs that the newest leader knew for its offsets.

    Otherwise the end of the segment was written by a leader that was fenced.
    """
    if not lineage or not segment.epochs or segment.last_offset is None:
        return True
    end = segment.last_offset + 1
    known = tuple(line for line in cut_epochs(lineage, segment.name.base_offset) if line[1] < end)
    return known == segment.epochs


def _chain(segments: list[TierSegment], lineage: Epochs) -> list[list[TierSegment]]:
    """Returns the segments in lists, so that none overlaps another one of its list, and leader epochs never fall.

    Segments outside the lineage are in lists of their own. So the ends of lists never hide behind a later segment. A
    segment of an unknown end counts as one that ends where the next one begins.
    """
    chains: list[list[TierSegment]] = []
    ends: list[tuple[int, int]] = []  # of each list: the offset after it, and its last leader epoch
    for segment in sorted(
        segments, key=lambda segment: (segment.name.base_offset, -_last_epoch(segment), segment.name.stem)
    ):
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
            at = max(fits, key=lambda fit: (ends[fit][0], -fit))
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

    A list of the lineage has the epochs of the lineage up to its end. Another one has those of its segments. The epochs
    of a segment whose manifest is damaged are not known. So a list that ends in one has the whole lineage, which
    contradicts no other list.
    """
    files: Files = {}

    def add(name: str, segment: TierSegment, part: str, version: FileVersion) -> None:
        files[name] = ShownFile(Entry(name, Kind.FILE, version), segment, part)

    epochs: dict[int, int] = {}
    for segment in chain:
        base = kafka_format.segment_file(segment.name.base_offset, "")
        add(f"{base}{kafka_format.LOG_SUFFIX}", segment, LOG, segment.version)
        for part, suffix, version in _list_parts(segment):
            if suffix == kafka_format.SNAPSHOT_SUFFIX:
                if segment.last_offset is None:
                    continue
                add(kafka_format.segment_file(segment.last_offset + 1, suffix), segment, part, version)
            else:
                add(base + suffix, segment, part, version)
        for epoch, start in segment.epochs:
            epochs.setdefault(epoch, start)
    known = [segment for segment in chain if segment.epochs]
    if lineage and all(_is_in_lineage(segment, lineage) for segment in known[-1:]):
        # a list may have gaps, which other lists fill, and an epoch may begin in one of them
        is_end_known = bool(known) and chain[-1] is known[-1]
        epochs = {epoch: start for epoch, start in lineage if not is_end_known or epoch <= _last_epoch(known[-1])}
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
    if segment.manifest is not None and INDEXES in segment.objects:
        stored = segment.objects[INDEXES].version
        for part, suffix in PART_SUFFIXES.items():
            size = segment.manifest.part_size(part)
            if size is not None:
                yield part, suffix, FileVersion(size, f"{segment.name.stem} {part} {stored.identity}", stored.changed)
    elif segment.manifest is None and segment.fault is None:
        for part, suffix in LOCAL_SUFFIXES.items():
            if part in segment.objects:
                yield part, suffix, segment.objects[part].version
