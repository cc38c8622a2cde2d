"""Data types for a partition's segments and logs, and for records that are missing from them. They open no file."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import StrEnum
from operator import attrgetter
from typing import NamedTuple

from kafka_segment_source import kafka_format
from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.errors import DataError
from kafka_segment_source.option_values import TopicPartition
from kafka_segment_source.reporting import name_some
from kafka_segment_source.storage.paths import parent_of
from kafka_segment_source.storage.store import LOCAL, NO_VERSION, FileVersion, Storage
from kafka_segment_source.storage.tiered.identity import read_identity


class Segment(NamedTuple):
    """One `.log` file and the index files beside it, as listed.

    path: absolute path of the `.log`.
    base_offset: the offset in its name.
    size, index_size, time_index_size, transaction_index_size: in bytes. None for an index file that does not exist.
    next_base_offset: of the next segment. None for the last segment.
    offsets: the offsets that this file is read for. Another directory may serve the others (`partition/chain.py`).
    version: the file system's data about the `.log`.
    before: the version of the segment before it in its directory. None for the first segment.
    storage: where its files are.
    """

    path: str
    base_offset: int
    size: int
    index_size: int | None = None
    time_index_size: int | None = None
    next_base_offset: int | None = None
    offsets: OffsetRange = OffsetRange()
    version: FileVersion = NO_VERSION
    before: FileVersion | None = None
    storage: Storage = LOCAL
    transaction_index_size: int | None = None

    @property
    def latest(self) -> int | None:
        """The largest timestamp (ms) that the manifest of a tier states. None for any other segment."""
        identity = read_identity(self.version)
        return None if identity is None else identity.latest

    @property
    def last_offset(self) -> int | None:
        """The last offset (inclusive) that the manifest of a tier states. None for any other segment."""
        identity = read_identity(self.version)
        return None if identity is None else identity.last_offset

    @property
    def stored_size(self) -> int | None:
        """The bytes of the `.log` object of a tier. None for any other segment."""
        identity = read_identity(self.version)
        return None if identity is None else identity.log.size

    @property
    def is_of_unknown_size(self) -> bool:
        """Whether it is a tier's, and neither bytes nor a manifest that can be believed say how long its `.log` is."""
        identity = read_identity(self.version)
        if identity is None or identity.last_offset is not None:
            return False
        return identity.manifest is not None or identity.log.size == 0

    @property
    def index_path(self) -> str:
        return self.path.removesuffix(kafka_format.LOG_SUFFIX) + kafka_format.INDEX_SUFFIX

    @property
    def time_index_path(self) -> str:
        return self.path.removesuffix(kafka_format.LOG_SUFFIX) + kafka_format.TIME_INDEX_SUFFIX

    @property
    def transaction_index_path(self) -> str:
        return self.path.removesuffix(kafka_format.LOG_SUFFIX) + kafka_format.TRANSACTION_INDEX_SUFFIX

    @property
    def span(self) -> OffsetRange:
        """The offsets that the segment can hold, according to the names."""
        return OffsetRange(
            self.base_offset, kafka_format.MAX_OFFSET if self.next_base_offset is None else self.next_base_offset
        )

    @property
    def is_last(self) -> bool:
        """Whether no later segment was listed. Only then may the segment end in a torn or zero-filled tail."""
        return self.next_base_offset is None

    def gap_behind(self, last_offset: int) -> OffsetRange:
        """Returns the offsets between the last one of the segment and the name of the next segment. After the last
        segment of one copy, they are those up to where another copy goes on."""
        following = self.next_base_offset
        if following is None:
            following = last_offset + 1 if self.offsets.end == kafka_format.MAX_OFFSET else self.offsets.end
        return OffsetRange(last_offset + 1, following)


@dataclass(frozen=True, slots=True)
class Orphan:
    """An index file that was listed without the `.log` of its segment, or beside one of 0 bytes.

    No file that stands for the `.log` was listed either (.deleted, .cleaned, .swap).

    has_empty_log: Whether a `.log` of 0 bytes is there. So it is while a segment is new; then no index has an entry.
    end: The offset from which on its copy is not used, as a later leader replaced what it has there (exclusive).
    """

    path: str
    base_offset: int
    size: int
    has_empty_log: bool = False
    storage: Storage = field(default=LOCAL, repr=False)
    end: int = kafka_format.MAX_OFFSET


class Beside(NamedTuple):
    """The other files of a partition directory, beside its segments, by names, kinds and sizes alone.

    faults: a sentence for each file that cannot be what its name states.
    orphans: sorted by base offset.
    snapshot: the highest offset in the name of a `.snapshot`, or -1.
    last_base: the highest base offset of a segment, or -1.
    has_deleted: whether the directory holds segments that a broker has marked as `.deleted`. A broker removes such
        files after a minute. If it stops within that minute, they stay.
    metadata: the state of `partition.metadata`, which has the topic id.
    unfinished: segments of a tier that are being uploaded or deleted, by the names of their objects. They are no data.
    damaged: a sentence for each segment of a tier whose leader epochs are damaged.
    """

    faults: tuple[str, ...] = ()
    orphans: tuple[Orphan, ...] = ()
    snapshot: int = -1
    last_base: int = -1
    has_deleted: bool = False
    metadata: FileVersion = NO_VERSION
    unfinished: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()


class DropKind(StrEnum):
    """Why a segment is not read, in words that are the same for each segment."""

    EMPTY = "empty file"
    OTHER_PARTITION = "the filter on topic and partition leaves it out"
    NO_KEY = "no key passes both the option key and the filter"
    NO_ROW = "the bounds leave no row"
    AFTER_OFFSETS = "after the offset bounds"
    BEFORE_OFFSETS = "before the offset bounds"
    BEFORE_LOG_START = "before the start of the log"
    BEFORE_TIMES = "before the time bounds"
    AFTER_TIMES = "after the time bounds (timestampDisorder)"
    ZONE_MAP = "no row inside the time bounds (zone map)"
    KEY_FILTER = "no row with the key (key filter)"
    NO_BATCH = "begins with no whole batch"
    REPLACED = "replaced by files of a compaction"
    IN_ANOTHER_COPY = "read from another copy"
    NOT_ALLOWED = "outside of what checkpoints and leaders' history allow"


class DroppedSegment(NamedTuple):
    """A segment that is not read, and why that is safe.

    kind: the reason in general.
    reason: the reason in words, with offsets and times.
    """

    segment: Segment
    kind: DropKind
    reason: str

    @property
    def path(self) -> str:
        return self.segment.path

    @property
    def size(self) -> int:
        return self.segment.size


class Hole(NamedTuple):
    """Offsets that no file holds, although files hold offsets before and after them. `why` states the evidence."""

    offsets: OffsetRange
    why: str


class Evidence(NamedTuple):
    """Offsets that a log once held and no file holds now, according to other files.

    why: names the file that is the evidence.
    harmless: when this means no loss, in words that follow "harmless". None if nothing explains it, so records are
    missing.
    is_elsewhere: whether another copy is read for these offsets.
    is_between: whether files are on both sides, so that compaction alone would make it harmless.
    """

    offsets: OffsetRange
    why: str
    harmless: str | None = None
    is_elsewhere: bool = False
    is_between: bool = False

    @property
    def is_hard(self) -> bool:
        return self.harmless is None

    def text(self, where: str) -> str:
        """Returns one sentence about the partition that `where` names."""
        lost = self.lost(where)
        return lost if self.harmless is None else f"{lost}; harmless {self.harmless}"

    def lost(self, where: str) -> str:
        """Returns what is not held, without what would make it harmless."""
        who = "this copy lacks" if self.is_elsewhere else "no file holds"
        return f"{self.why}: {who} the offsets {self.offsets.start} to {self.offsets.end - 1} of {where}"


class Reach(NamedTuple):
    """The offset up to which a log once reached (exclusive), according to a file.

    what: names the file and its statement.
    directory: of the partition.
    seen: when it was listed (time.monotonic).
    is_snapshot: whether the file is a `.snapshot`.
    """

    offset: int
    what: str
    directory: str
    seen: float
    is_snapshot: bool = False


@dataclass(frozen=True, slots=True)
class ListedLog:
    """One topic-partition's log in one directory, by names and sizes, with its segments in offset order.

    swaps: files of an interrupted compaction, which can replace some of the segments.
    compacted: whether names show a compaction. Gaps between offsets are then no sign of loss.
    is_whole: whether a path names the directory. Otherwise paths name some of its files.
    beside: the other files of the directory.
    log_directory: the log directory that the path names. None if the path names the partition.
    storage: where its files are.
    unreadable: why the directory cannot be listed, where logs are shown. A read of it is an error.
    """

    topic: str
    partition: int
    directory: str
    segments: tuple[Segment, ...]
    swaps: tuple[Segment, ...] = ()
    compacted: bool = False
    is_whole: bool = True
    beside: Beside = Beside()
    log_directory: str | None = None
    storage: Storage = field(default=LOCAL, repr=False)
    unreadable: str | None = None

    @property
    def topic_partition(self) -> TopicPartition:
        return self.topic, self.partition


_values_of_listed = attrgetter(*(field.name for field in fields(ListedLog)))


@dataclass(frozen=True, slots=True)
class PartitionLog(ListedLog):
    """One topic-partition's log as it is read. `partition/logs.py` makes it from a listed log.

    directory: if several directories hold the partition, the one with the lowest offsets.
    swaps: empty, as these files are among the segments.
    offsets: from the log start on, up to the high watermark if the options ask for that.
    unused: segments that no query reads, whatever its bounds.
    holes: offsets that no file holds.
    evidence, reach: the results of `partition/missing.py`.
    copies: paths of the directories and single files that were combined. Empty for one directory. With several,
        `segments` are a chain: each is read for its `offsets` only, and may appear more than once.
    end: the offset after the last whole batch of all copies.
    end_damage: the damage that follows that end, if no copy explains it.
    fenced: the directories of copies that lose their end to a later leader, each with its end offset (exclusive).
    late: the directories of copies that begin after another one, each with its first offset. None is a tier's.
    unmarked: of several copies, the directories of those that no checkpoint marks as compacted.
    """

    offsets: OffsetRange = OffsetRange()
    unused: tuple[DroppedSegment, ...] = ()
    holes: tuple[Hole, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    reach: Reach | None = None
    copies: tuple[str, ...] = ()
    end: int | None = None
    end_damage: DataError | None = None
    fenced: tuple[tuple[str, int], ...] = ()
    late: tuple[tuple[str, int], ...] = ()
    unmarked: tuple[str, ...] = ()

    @classmethod
    def of(cls, listed: ListedLog) -> PartitionLog:
        """Makes a log that is read from a listed log."""
        return cls(*_values_of_listed(listed))

    @property
    def first_offset(self) -> int:
        """The first offset of the files, or 0 if there are none. Empty first files count, and those of a copy
        that is not read."""
        starts = [max(segment.base_offset, segment.offsets.start) for segment in self.segments[:1]]
        starts += [hole.offsets.start for hole in self.holes]
        starts += [evidence.offsets.start for evidence in self.evidence if evidence.is_hard]
        if self.compacted:
            starts += [dropped.segment.base_offset for dropped in self.unused if dropped.size == 0]
        return min(starts, default=0)

    @property
    def directories(self) -> tuple[str, ...]:
        """The directories that the log is read from, in order of their offsets."""
        return tuple(dict.fromkeys(parent_of(segment.path) for segment in self.segments))

    @property
    def lost_places(self) -> tuple[int, ...]:
        """Where the offsets of `list_missing` begin, in order."""
        if not self.holes and not self.evidence:
            return ()
        return tuple(sorted(offsets.start for offsets in self.list_missing()))

    def list_missing(self) -> list[OffsetRange]:
        """Lists offsets in which a marker may be gone: those that no file holds, also where compaction may explain it
        but other files name them."""
        found = (evidence for evidence in self.evidence if evidence.is_hard or evidence.is_between)
        return [*(hole.offsets for hole in self.holes), *(evidence.offsets for evidence in found)]

    def gap_is_loss(self, at: int) -> bool:
        """Whether offsets that are missing after segment `at` are lost. They are read too, and no compaction took
        them."""
        return not self.compacted and self.is_followed(at)

    def shows_loss_at_end(self, at: int) -> bool:
        """Whether a read of the end of segment `at` notices that offsets are missing after it. After the last segment
        of one copy, where another one goes on, damage may hide them, and a zone map proves no CRC."""
        return self.gap_is_loss(at) or (bool(self.copies) and self.segments[at].is_last)

    def is_followed(self, at: int) -> bool:
        """Whether the offsets right after segment `at` are read too. A path of single files may leave them out."""
        end = self.segments[at].next_base_offset
        if end is None or at + 1 == len(self.segments):
            return False
        following = self.segments[at + 1]
        return max(following.base_offset, following.offsets.start) <= end


def explain_unfinished(log: ListedLog) -> str:
    """Returns one sentence about the segments of a tier that are no data."""
    return (
        f"a part of the objects of segment {name_some(log.beside.unfinished, 1)} in {log.directory!r} is missing, as while a broker"
        " uploads or deletes them: that is no data; if no broker does so now, its records are missing here"
    )
