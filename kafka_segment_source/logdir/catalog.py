"""Paths → which partitions are there, and the segments of each. Names and sizes only: no file is opened.

Comes in: paths (partition directories, log directories, `.log` files, globs of these) and a topic selection.
Goes out: `PartitionLog` values, sorted by topic and partition, each with its `Segment`s by base offset. Raises
PathError where nothing is, or nothing that is Kafka's, or a segment is a link to nothing; OptionError where a selection
names what is not there.
Naming rules: Kafka's LocalLog.parseTopicPartitionName and LogFileUtils.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from kafka_segment_source import format as fmt
from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.errors import FileChangedError, OptionError, PathError
from kafka_segment_source.option_values import TopicPartition, TopicSelection
from kafka_segment_source.options import ReadOptions
from kafka_segment_source.storage import store
from kafka_segment_source.storage.files import list_directory, look_at, try_again
from kafka_segment_source.storage.paths import local_path
from kafka_segment_source.storage.store import NO_VERSION, Entry, FileVersion, Kind

_PARTITION_DIRECTORY = re.compile(r"(?P<topic>[A-Za-z0-9._-]{1,255})-(?P<partition>\d+)")
_DEAD_DIRECTORY = re.compile(r"\S+-\S+\.\S+(" + "|".join(fmt.DEAD_DIRECTORY_SUFFIXES) + ")")
_GLOB = re.compile(r"[*?\[]")
_MOST_NAMED = 10  # partitions or topics in one sentence
_LISTINGS = 10  # of a directory that a broker is changing
MOST_SNAPSHOT = 64 * 1024 * 1024  # bytes of a `.snapshot`; a producer takes 46
MOST_METADATA = 64 * 1024  # bytes of a `partition.metadata`; brokers write 43
_INDEX_SUFFIXES = frozenset((fmt.INDEX_SUFFIX, fmt.TIME_INDEX_SUFFIX, fmt.TRANSACTION_INDEX_SUFFIX))
_STANDS_FOR_LOG = (fmt.DELETED_SUFFIX, fmt.CLEANED_SUFFIX, fmt.SWAP_SUFFIX)
_OF_CHANGE = (fmt.CLEANED_SUFFIX, fmt.SWAP_SUFFIX, fmt.DELETED_SUFFIX)
_DELETED_LOG = fmt.LOG_SUFFIX + fmt.DELETED_SUFFIX
_HINT_SUFFIXES = _INDEX_SUFFIXES | {fmt.SNAPSHOT_SUFFIX}


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
class PartitionLog:
    """One topic-partition's log: its directory and its segments in offset order.

    As listed, it has `swaps`: files of an interrupted compaction that may replace some of the segments. The rest is
    found out by `partition/logs.py`. is_whole: every segment of its directories was listed, not only files that the
    path names. directory: where several have the partition, that of the lowest offsets. offsets: from the log start
    on, to the high watermark if only that is wanted. compacted: gaps between offsets mean nothing. beside: of its own
    directory, as listed. log_directory: if the path names that, and not the partition's. evidence, reach: what
    `partition/missing.py` has found out. copies: paths of the directories and single files that the partition was put
    together from, empty for one directory. Then `segments` are a chain: each is read for its `offsets` only, and may
    come more than once; end: the offset after the last whole batch of all copies; is_end_damaged: damage follows that
    no copy explains.
    """

    topic: str
    partition: int
    directory: str
    segments: tuple[Segment, ...]
    swaps: tuple[Segment, ...] = ()
    offsets: OffsetRange = OffsetRange()
    compacted: bool = False
    is_whole: bool = True
    unused: tuple[Unused, ...] = ()
    holes: tuple[Hole, ...] = ()
    beside: Beside = Beside()
    log_directory: str | None = None
    evidence: tuple[Evidence, ...] = ()
    reach: Reach | None = None
    copies: tuple[str, ...] = ()
    end: int | None = None
    is_end_damaged: bool = False

    @property
    def topic_partition(self) -> TopicPartition:
        return self.topic, self.partition

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


@dataclass(frozen=True, slots=True)
class _Found:
    """A directory with segments; its name's topic and partition, if the name says; one file of it, or all."""

    directory: str
    named: TopicPartition | None
    only_file: str | None = None
    explicit: bool = False  # the path names this partition itself, so that an internal topic counts as named
    log_directory: str | None = None  # which the path names, if it does not name the partition
    listed: tuple[Entry, ...] | None = None  # what is in the directory, where that was looked at


def list_logs(options: ReadOptions) -> list[PartitionLog]:
    """The partition logs that the options select, by topic and partition; one a directory, in the order
    of the paths."""
    found = [each for path in options.paths for each in _look(path)]
    named = _name(found, options)
    return sorted(_select(named, options.topics), key=lambda log: log.topic_partition)


def list_directories(options: ReadOptions) -> list[PartitionLog]:
    """Every partition directory that the options select, internal topics and copies of one partition included.

    For looking at what is on a disk; what is read is `list_logs`.
    """
    return try_again(lambda: _list_directories(options))


def _list_directories(options: ReadOptions) -> list[PartitionLog]:
    found = [each for path in options.paths for each in _look(path)]
    logs = _select([(name, replace(each, explicit=True)) for name, each in _name(found, options)], options.topics)
    return sorted(logs, key=lambda log: (log.topic_partition, log.directory))


def list_dead_directories(options: ReadOptions) -> list[tuple[str, int]]:
    """Partition directories that a broker has given up (-delete, -stray) or not finished (-future), in the log
    directories that the paths name: path and bytes. None of them is read."""
    dead = []
    for path in options.paths:
        local = local_path(path)
        for parent in [local] if _is_there(local) else store.STORAGE.glob(local):
            if _is_directory(look_at(parent)):
                names = [child.name for child in _list(parent, path) if child.kind is Kind.DIRECTORY]
                dead += [os.path.join(parent, name) for name in names if _DEAD_DIRECTORY.fullmatch(name)]
    return [(directory, sum(file.size for file in _files(directory).values())) for directory in sorted(dead)]


# ---- paths → directories with segments ----


def _look(path: str) -> Iterator[_Found]:
    local = local_path(path)
    matches = [local]
    if not _is_there(local) and _GLOB.search(local):
        matches = store.STORAGE.glob(local)
        if not matches:
            raise PathError(f"nothing matches the path {path!r}")
    by_glob = len(matches) > 1 or matches[0] != local
    for match in matches:
        yield from _look_at(match, given=path, pattern=local if by_glob else None)


def _look_at(path: str, given: str, pattern: str | None) -> Iterator[_Found]:
    """What is at a path; `pattern` is the glob that matched it, if one did."""
    entry = look_at(path)
    if entry is None or entry.kind is Kind.BROKEN_LINK:
        raise PathError(f"path {given!r} does not exist")
    if entry.kind is not Kind.DIRECTORY:
        if _base_offset(os.path.basename(path)) is None:
            if pattern is not None:
                return  # a log directory's checkpoints match a glob of its partitions
            raise PathError(f"path {given!r} is a file, but not a segment: expected 20 digits and {fmt.LOG_SUFFIX}")
        directory = os.path.dirname(path)
        named = pattern is None or _names_directory(os.path.dirname(pattern))
        if named or not _DEAD_DIRECTORY.fullmatch(os.path.basename(directory)):
            yield _Found(directory, named_partition(directory), os.path.basename(path), explicit=named)
        return
    if pattern is not None and _DEAD_DIRECTORY.fullmatch(os.path.basename(path)):
        return
    children = _list(path, given)
    if any(_is_of_segment(child.name) for child in children):
        named = pattern is None or _names_directory(pattern)
        yield _Found(path, named_partition(path), explicit=named, listed=tuple(children))
        return
    partitions = [child.name for child in children if child.kind is Kind.DIRECTORY and _is_partition(child.name)]
    if not partitions and pattern is None:
        raise PathError(
            f"path {given!r} holds no log segments: expected files like 00000000000000000000.log,"
            " or directories like orders-0 that hold them"
        )
    for name in sorted(partitions):
        yield _Found(os.path.join(path, name), named_partition(name), log_directory=path)


def _is_of_segment(name: str) -> bool:
    """Whether a file of that name is in partition directories only: a segment, or what a missing one has left."""
    if _base_offset(name.removesuffix(fmt.SWAP_SUFFIX)) is not None:
        return True
    return _is_hint(name) and name != fmt.PARTITION_METADATA


def _names_directory(pattern: str) -> bool:
    """Whether a glob spells the directory it ends in, or at least that its topic is internal: `*` names nothing."""
    name = os.path.basename(pattern)
    return _GLOB.search(name) is None or name.startswith(fmt.INTERNAL_TOPIC_PREFIX)


def _is_there(path: str) -> bool:
    """Whether anything is at a path, be it a link to nothing."""
    return look_at(path) is not None


def _is_directory(entry: Entry | None) -> bool:
    return entry is not None and entry.kind is Kind.DIRECTORY


def _list(path: str, given: str) -> list[Entry]:
    """What is in a directory, by its own names; nothing if it is gone. PathError for a segment that is no file, and for
    data behind a broken link."""
    found = list_directory(path, given)
    for entry in found:
        if entry.kind is Kind.FILE:
            continue
        where = os.path.join(path, entry.name)
        is_segment = _base_offset(entry.name.removesuffix(fmt.SWAP_SUFFIX)) is not None
        if entry.kind is Kind.BROKEN_LINK and (is_segment or _is_partition(entry.name)):
            target = store.STORAGE.read_link(where)
            raise PathError(f"{where!r} is a link to {target!r}, which is not there: its records are missing")
        if is_segment:
            raise PathError(f"{where!r} is named like a segment, but is {entry.kind.value}: its records are missing")
    return found


def _is_partition(name: str) -> bool:
    """A live partition's directory: dead and unfinished ones carry a suffix after their last dot."""
    return _DEAD_DIRECTORY.fullmatch(name) is None and named_partition(name) is not None


def named_partition(directory: str) -> TopicPartition | None:
    """The topic and partition that a directory's own name says, None for any other name."""
    match = _PARTITION_DIRECTORY.fullmatch(os.path.basename(directory))
    return (match["topic"], int(match["partition"])) if match and int(match["partition"]) < 2**31 else None


def _base_offset(name: str) -> int | None:
    """The base offset that a `.log` file's name says, None for any other name. Digits may be of any locale."""
    digits = name.removesuffix(fmt.LOG_SUFFIX)
    if name.endswith(fmt.LOG_SUFFIX) and len(digits) == fmt.BASE_OFFSET_DIGITS and digits.isdecimal():
        return int(digits) if int(digits) <= fmt.MAX_OFFSET else None
    return None


# ---- names and selection ----


def _name(found: list[_Found], options: ReadOptions) -> list[tuple[TopicPartition, _Found]]:
    """Each directory with its topic and partition, by its own name or by the options `topic` and `partition`."""
    renamed = options.topic is not None or options.partition is not None
    if renamed and len({each.directory for each in found}) > 1:
        raise OptionError(
            f"options 'topic' and 'partition' name one partition directory, but the path holds {len(found)}; leave them out"
        )
    named = []
    for each in found:
        own_topic, own_partition = each.named or (None, None)
        topic = options.topic if options.topic is not None else own_topic
        partition = options.partition if options.partition is not None else own_partition
        if topic is None or partition is None:
            raise PathError(
                f"directory {each.directory!r} does not say which topic and partition it holds:"
                " give the options 'topic' and 'partition'"
            )
        named.append(((topic, partition), replace(each, explicit=True) if renamed else each))
    return named


def _select(named: list[tuple[TopicPartition, _Found]], selection: TopicSelection) -> list[PartitionLog]:
    """The partitions wanted, with their segments; what is asked for by name must be there."""
    there = {topic_partition for topic_partition, _ in named}
    topics = sorted({topic for topic, _ in there})
    for topic in selection.subscribe or ():
        if topic not in topics:
            raise OptionError(f"option 'subscribe' names topic {topic!r}, but the path holds {_shown(topics)}")
    for topic, partition in sorted((selection.assign or frozenset()) - there):
        held = _shown(f"{t}-{p}" for t, p in sorted(there))
        raise OptionError(f"option 'assign' names partition {topic}-{partition}, but the path holds {held}")
    wanted = [each for each in named if _is_wanted(*each, selection)]
    if not wanted and selection.pattern is not None:
        raise OptionError(f"option 'subscribePattern' ({selection.pattern}) matches none of {_shown(topics)}")
    logs: dict[tuple[TopicPartition, str], dict[int, Segment]] = {}  # several files of one directory make one log
    swaps: dict[str, tuple[Segment, ...]] = {}
    found: dict[str, _Found] = {}
    for _, each in wanted:
        found.setdefault(each.directory, each)
    listings = {directory: _listing(directory, each.listed) for directory, each in found.items()}
    by_name = {directory: _segments(directory, sizes) for directory, sizes in listings.items()}
    whole = {each.directory for _, each in wanted if each.only_file is None}
    parents = {each.directory: each.log_directory for _, each in wanted}
    for topic_partition, each in wanted:
        segments = logs.setdefault((topic_partition, each.directory), {})
        if each.only_file is None:
            segments.update((segment.base_offset, segment) for segment in by_name[each.directory].values())
            swaps[each.directory] = _swaps(each.directory, listings[each.directory])
        elif each.only_file in by_name[each.directory]:
            segment = by_name[each.directory][each.only_file]
            segments[segment.base_offset] = segment
    beside = {directory: _beside(directory, files) for directory, files in listings.items()}
    has_traces = any(each.orphans or each.snapshot > 0 for each in beside.values())
    if not any(logs.values()) and not any(swaps.values()) and not has_traces:
        raise PathError(f"no log segments are in {_shown(sorted({each.directory for _, each in named}))}")
    return [
        PartitionLog(
            *topic_partition,
            directory,
            tuple(segments[base] for base in sorted(segments)),
            swaps.get(directory, ()),
            compacted=_was_compacted(listings[directory], by_name[directory].values()),
            is_whole=len(segments) == len(by_name[directory]),
            beside=beside[directory] if directory in whole else Beside(beside[directory].faults),
            log_directory=parents[directory],
        )
        for (topic_partition, directory), segments in logs.items()
    ]


def is_selected(topic_partition: TopicPartition, selection: TopicSelection) -> bool:
    """Whether a selection takes a partition that no path names itself."""
    return _is_wanted(topic_partition, _Found("", topic_partition), selection)


def _is_wanted(topic_partition: TopicPartition, found: _Found, selection: TopicSelection) -> bool:
    topic, _ = topic_partition
    if selection.subscribe is not None:
        return topic in selection.subscribe
    if selection.assign is not None:
        return topic_partition in selection.assign
    internal = topic.startswith(fmt.INTERNAL_TOPIC_PREFIX) and not found.explicit
    if selection.pattern is not None:
        return not internal and re.fullmatch(selection.pattern, topic) is not None
    return not internal


def _shown(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - _MOST_NAMED} more" if len(listed) > _MOST_NAMED else ""
    return (", ".join(repr(name) for name in listed[:_MOST_NAMED]) or "nothing") + more


def _listing(directory: str, listed: Iterable[Entry] | None = None) -> dict[str, Entry]:
    """The files in a directory by name; listed: all that is in it, where that is known.

    A listing is no snapshot: while a broker swaps compacted segments in, it may show neither the old nor the new one.
    So where files of a compaction lie about, only a listing that agrees with the one before it is taken. A segment that
    is empty, with others after it, may be what a compaction left since its name was read: the next listing has those
    files.
    """
    files = _files(directory) if listed is None else _useful(listed)
    for _ in range(_LISTINGS - 1):
        if not _may_be_of_compaction(files):
            break
        again = _files(directory)
        if files.keys() == again.keys():
            break
        files = again
    else:
        raise FileChangedError(f"directory {directory!r} changes faster than it is listed; plan the read anew")
    return files


def _may_be_of_compaction(files: Mapping[str, Entry]) -> bool:
    """Whether a compaction may have been under way while these files were listed."""
    if any(name.endswith(_OF_CHANGE) for name in files):
        return True
    logs = [name for name in files if name.endswith(fmt.LOG_SUFFIX)]
    last = max(logs, default="")
    return any(files[name].size == 0 for name in logs if name != last)


def _files(directory: str) -> dict[str, Entry]:
    return _useful(_list(directory, directory))


def _useful(listed: Iterable[Entry]) -> dict[str, Entry]:
    """The files among these by name, and what else is named like a file that reads make use of."""
    return {entry.name: entry for entry in listed if entry.kind is Kind.FILE or _is_hint(entry.name)}


def _is_hint(name: str) -> bool:
    """Whether a read may use the file, but does without it if need be."""
    digits, suffix = name[: fmt.BASE_OFFSET_DIGITS], name[fmt.BASE_OFFSET_DIGITS :]
    return (suffix in _HINT_SUFFIXES and digits.isdecimal()) or name == fmt.PARTITION_METADATA


def list_beside(directory: str) -> Beside:
    """What a partition directory holds beside its segments, as it is now; nothing if it is gone."""
    return _beside(directory, _files(directory))


def _beside(directory: str, files: Mapping[str, Entry]) -> Beside:
    width = fmt.BASE_OFFSET_DIGITS
    bases = {name[:width] for name in files if name[width:] == fmt.LOG_SUFFIX}
    faults, orphans, snapshot, has_deleted = [], [], -1, False
    for name, file in files.items():
        suffix = name[width:]
        if suffix == fmt.LOG_SUFFIX or (suffix in _INDEX_SUFFIXES and name[:width] in bases and file.kind is Kind.FILE):
            continue  # nearly all
        has_deleted = has_deleted or suffix == _DELETED_LOG
        if not _is_hint(name):
            continue
        fault = _fault(name, file)
        if fault is not None:
            faults.append(f"{os.path.join(directory, name)!r} {fault}, so it is not used")
        elif suffix == fmt.SNAPSHOT_SUFFIX:
            snapshot = max(snapshot, int(name[:width]))
        elif suffix in _INDEX_SUFFIXES:
            stem = name[:width] + fmt.LOG_SUFFIX
            if not any(stem + other in files for other in _STANDS_FOR_LOG):
                orphans.append(Orphan(os.path.join(directory, name), int(name[:width]), file.size))
    if _DEAD_DIRECTORY.fullmatch(os.path.basename(directory)):
        orphans, snapshot = [], -1  # a broker removes it, a file at a time, the `.log` first
    return Beside(
        tuple(faults),
        tuple(sorted(orphans, key=lambda orphan: (orphan.base_offset, orphan.path))),
        snapshot,
        max((int(digits) for digits in bases if digits.isdecimal()), default=-1),
        has_deleted,
    )


def _fault(name: str, file: Entry) -> str | None:
    """Why a file that reads make use of cannot be what it is named."""
    if file.kind is not Kind.FILE:
        return f"is {file.kind.value}"
    if name[fmt.BASE_OFFSET_DIGITS :] in _INDEX_SUFFIXES:
        return None
    most = MOST_METADATA if name == fmt.PARTITION_METADATA else MOST_SNAPSHOT
    return f"has {file.size:,} bytes, where at most {most:,} were expected" if file.size > most else None


def _swaps(directory: str, files: Mapping[str, Entry]) -> tuple[Segment, ...]:
    """The `.log.swap` files in offset order, but for those that an unfinished compaction would make anew
    (LogLoader)."""
    cleaned = [
        base
        for name in files
        if name.endswith(fmt.CLEANED_SUFFIX) and (base := _base_offset(name.split(".")[0] + fmt.LOG_SUFFIX)) is not None
    ]
    swaps = [
        Segment(os.path.join(directory, name), base, file.size, version=file.version)
        for name, file in files.items()
        if name.endswith(fmt.SWAP_SUFFIX)
        and (base := _base_offset(name.removesuffix(fmt.SWAP_SUFFIX))) is not None
        and base < min(cleaned, default=fmt.MAX_OFFSET)
    ]
    return tuple(sorted(swaps, key=lambda swap: swap.base_offset))


def _segments(directory: str, files: Mapping[str, Entry]) -> dict[str, Segment]:
    """The segments of one directory by the names of their files, in offset order."""
    bases = {base: name for name in files if (base := _base_offset(name)) is not None}
    ordered = sorted(bases)
    followers: list[int | None] = [*ordered[1:], None]
    segments = {}
    before: FileVersion | None = None
    for base, following in zip(ordered, followers, strict=False):  # no segment: no follower either
        name = bases[base]
        stem = name.removesuffix(fmt.LOG_SUFFIX)
        version = files[name].version
        segments[name] = Segment(
            path=os.path.join(directory, name),
            base_offset=base,
            size=version.size,
            index_size=_size(files.get(stem + fmt.INDEX_SUFFIX)),
            time_index_size=_size(files.get(stem + fmt.TIME_INDEX_SUFFIX)),
            next_base_offset=following,
            version=version,
            before=before,
        )
        before = version
    return segments


def _size(file: Entry | None) -> int | None:
    return None if file is None or file.kind is not Kind.FILE else file.size


def _was_compacted(files: Mapping[str, Entry], segments: Iterable[Segment]) -> bool:
    """Whether files lie about that only compaction makes: `.cleaned`, `.swap`, or `.deleted` at or between live
    segments.

    Retention deletes below the first segment, a truncation above the last one. The broker's own note, the
    cleaner-offset-checkpoint, comes at the end of a compaction only.
    """
    bases = [segment.base_offset for segment in segments]
    for name in files:
        if name.endswith((fmt.CLEANED_SUFFIX, fmt.SWAP_SUFFIX)):
            return True
        if name.endswith(fmt.LOG_SUFFIX + fmt.DELETED_SUFFIX) and bases:
            base = _base_offset(name.removesuffix(fmt.DELETED_SUFFIX))
            if base is not None and min(bases) <= base <= max(bases):
                return True
    return False
