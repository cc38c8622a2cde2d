"""What was found of a partition: segments, logs, and what is missing of them. Values, without a look at any file."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields

from kafka_segment_source import format as fmt
from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.option_values import TopicPartition
from kafka_segment_source.storage.store import NO_VERSION, FileVersion


@dataclass(frozen=True, slots=True)
class Segment:
    """One `.log` file and the index files beside it, as listed.

    path: absolute path of the `.log`; base_offset: its name; next_base_offset: the next segment's, None for the
    last; sizes in bytes, None for an index file that is not there. offsets: those that it is read for, where another
    directory is read for the others (`partition/chain.py`). version: what the file system said of the `.log`; before:
    the same of the segment before it in its directory, None for the first.
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

    @property
    def index_path(self) -> str:
        return self.path.removesuffix(fmt.LOG_SUFFIX) + fmt.INDEX_SUFFIX

    @property
    def time_index_path(self) -> str:
        return self.path.removesuffix(fmt.LOG_SUFFIX) + fmt.TIME_INDEX_SUFFIX

    @property
    def span(self) -> OffsetRange:
        """The offsets that it can hold, by names."""
        return OffsetRange(self.base_offset, fmt.MAX_OFFSET if self.next_base_offset is None else self.next_base_offset)

    @property
    def is_last(self) -> bool:
        """Whether no later segment was listed: only then may it end in a torn or zero-filled tail."""
        return self.next_base_offset is None


@dataclass(frozen=True, slots=True)
class Orphan:
    """An index file that was listed without the `.log` of its segment, or one that stands for it
    (.deleted, .cleaned, .swap)."""

    path: str
    base_offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Beside:
    """What a partition directory was listed with beside its segments, by names, kinds and sizes alone.

    faults: a sentence for each file that cannot be what it is named. orphans: by base offset. snapshot: the highest
    offset in the name of a `.snapshot`; last_base: the highest base offset of a segment; -1: none. has_deleted: whether
    segments are there that a broker has deleted within the last minute, or in its last minute.
    """

    faults: tuple[str, ...] = ()
    orphans: tuple[Orphan, ...] = ()
    snapshot: int = -1
    last_base: int = -1
    has_deleted: bool = False


@dataclass(frozen=True, slots=True)
class Unused:
    """A segment that is not read, whatever the bounds, and why."""

    segment: Segment
    reason: str


@dataclass(frozen=True, slots=True)
class Hole:
    """Offsets that no file holds, although they lie between others that are there; and how that is known."""

    offsets: OffsetRange
    why: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """Offsets that a log once held and no file holds now, as far as other files tell.

    why: which file says so; harmless: when that means no loss, in words that follow "harmless"; None where nothing
    explains it, so that records are missing.
    """

    offsets: OffsetRange
    why: str
    harmless: str | None = None

    @property
    def is_hard(self) -> bool:
        return self.harmless is None

    def text(self, where: str) -> str:
        """One sentence, about the partition that `where` names."""
        held = f"{self.why}: no file holds the offsets {self.offsets.start} to {self.offsets.end - 1} of {where}"
        return held if self.harmless is None else f"{held}; harmless {self.harmless}"


@dataclass(frozen=True, slots=True)
class Reach:
    """The offset up to which a log once reached (exclusive), by a file that says so.

    what: that file and what it says; directory: of the partition; seen: when it was listed (time.monotonic);
    is_snapshot: whether a `.snapshot` says so.
    """

    offset: int
    what: str
    directory: str
    seen: float
    is_snapshot: bool = False


@dataclass(frozen=True, slots=True)
class ListedLog:
    """One topic-partition's log in one directory, by names and sizes: its segments in offset order.

    swaps: files of an interrupted compaction, which can replace some of the segments. compacted: gaps between offsets
    mean nothing; here as far as names say so. is_whole: every segment of the directory was listed, not only files that
    the path names. beside: what else is in the directory. log_directory: if the path names that, and not the
    partition's.
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

    @property
    def topic_partition(self) -> TopicPartition:
        return self.topic, self.partition


@dataclass(frozen=True, slots=True)
class PartitionLog(ListedLog):
    """One topic-partition's log as it is read: listed, and completed by `partition/logs.py`.

    directory: where several have the partition, that of the lowest offsets. swaps: none, they are among the segments.
    offsets: from the log start on, to the high watermark if only that is wanted. unused: segments that are not read.
    holes: offsets that no file holds. evidence, reach: what `partition/missing.py` has found out. copies: paths of the
    directories and single files that the partition was put together from, empty for one directory. Then `segments` are
    a chain: each is read for its `offsets` only, and can come more than once. end: the offset after the last whole
    batch of all copies. is_end_damaged: damage follows that no copy explains.
    """

    offsets: OffsetRange = OffsetRange()
    unused: tuple[Unused, ...] = ()
    holes: tuple[Hole, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    reach: Reach | None = None
    copies: tuple[str, ...] = ()
    end: int | None = None
    is_end_damaged: bool = False

    @classmethod
    def of(cls, listed: ListedLog) -> PartitionLog:
        """What was listed, as the log that is read."""
        return cls(**{each.name: getattr(listed, each.name) for each in fields(ListedLog)})

    @property
    def first_offset(self) -> int:
        """Where the files begin; 0 if there are none. Compaction may leave the first ones empty: they count."""
        starts = [max(segment.base_offset, segment.offsets.start) for segment in self.segments[:1]]
        if self.compacted:
            starts += [each.segment.base_offset for each in self.unused if each.segment.size == 0]
        return min(starts, default=0)

    @property
    def directories(self) -> tuple[str, ...]:
        """The directories that the log is read from, in order of their offsets."""
        return tuple(dict.fromkeys(os.path.dirname(segment.path) for segment in self.segments))

    def is_followed(self, at: int) -> bool:
        """Whether what follows the offsets of segment `at` is read too: a path of single files may leave it out."""
        if at + 1 == len(self.segments) or self.segments[at].is_last:
            return False
        following = self.segments[at + 1]
        return max(following.base_offset, following.offsets.start) <= self.segments[at].span.end
