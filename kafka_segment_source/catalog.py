"""Paths → which partitions are there, and the segments of each. Names and sizes only: no file is opened.

Comes in: paths (partition directories, log directories, `.log` files, globs of these) and a topic selection.
Goes out: `PartitionLog` values, sorted by topic and partition, each with its `Segment`s by base offset. Raises
PathError where nothing is, or nothing that is Kafka's, or a segment is a link to nothing; OptionError where a selection
names what is not there.
Naming rules: Kafka's LocalLog.parseTopicPartitionName and LogFileUtils.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from pyarrow import fs

from kafka_segment_source import format as fmt
from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.errors import OptionError, PathError
from kafka_segment_source.files import FILESYSTEM, system_reason
from kafka_segment_source.options import ReadOptions, TopicPartition, TopicSelection
from kafka_segment_source.paths import local_path

_PARTITION_DIRECTORY = re.compile(r"(?P<topic>[A-Za-z0-9._-]{1,255})-(?P<partition>\d+)")
_DEAD_DIRECTORY = re.compile(r"\S+-\S+\.\S+(" + "|".join(fmt.DEAD_DIRECTORY_SUFFIXES) + ")")
_GLOB = re.compile(r"[*?\[]")
_LISTINGS = 5  # of a directory that a broker is changing, before the last one is taken as it is


@dataclass(frozen=True, slots=True)
class Segment:
    """One `.log` file and the index files beside it, as listed.

    path: absolute path of the `.log`; base_offset: its name; next_base_offset: the next segment's, None for the
    last; sizes in bytes, None for an index file that is not there. offsets: those that it is read for, where another
    directory is read for the others (`replicas.py`).
    """

    path: str
    base_offset: int
    size: int
    index_size: int | None = None
    time_index_size: int | None = None
    next_base_offset: int | None = None
    offsets: OffsetRange = OffsetRange()

    @property
    def index_path(self) -> str:
        return self.path.removesuffix(fmt.LOG_SUFFIX) + fmt.INDEX_SUFFIX

    @property
    def time_index_path(self) -> str:
        return self.path.removesuffix(fmt.LOG_SUFFIX) + fmt.TIME_INDEX_SUFFIX

    @property
    def is_last(self) -> bool:
        """Whether no later segment was listed: only then may it end in a torn or zero-filled tail."""
        return self.next_base_offset is None


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
class PartitionLog:
    """One topic-partition's log: its directory and its segments in offset order.

    As listed, it has `swaps`: files of an interrupted compaction that may replace some of the segments. The rest is
    found out by `available.py`. directory: where several have the partition, that of the lowest offsets. offsets: from
    the log start on, to the high watermark if only that is wanted. compacted: gaps between offsets mean nothing.
    """

    topic: str
    partition: int
    directory: str
    segments: tuple[Segment, ...]
    swaps: tuple[Segment, ...] = ()
    offsets: OffsetRange = OffsetRange()
    compacted: bool = False
    unused: tuple[Unused, ...] = ()
    holes: tuple[Hole, ...] = ()

    @property
    def topic_partition(self) -> TopicPartition:
        return self.topic, self.partition

    @property
    def directories(self) -> tuple[str, ...]:
        """The directories that the log is read from, in order of their offsets."""
        return tuple(dict.fromkeys(os.path.dirname(segment.path) for segment in self.segments))

    def is_followed(self, at: int) -> bool:
        """Whether the segment after segment `at` of its directory is here too: a path of single files may leave it out."""
        return at + 1 < len(self.segments) and self.segments[at + 1].base_offset == self.segments[at].next_base_offset


@dataclass(frozen=True, slots=True)
class _Found:
    """A directory with segments; its name's topic and partition, if the name says; one file of it, or all."""

    directory: str
    named: TopicPartition | None
    only_file: str | None = None
    explicit: bool = False  # the path names this partition itself, so that an internal topic counts as named


def list_logs(options: ReadOptions) -> list[PartitionLog]:
    """The partition logs that the options select, by topic and partition; one a directory, in the order of the paths."""
    found = [each for path in options.paths for each in _look(path)]
    named = _name(found, options)
    return sorted(_select(named, options.topics), key=lambda log: log.topic_partition)


def list_directories(options: ReadOptions) -> list[PartitionLog]:
    """Every partition directory that the options select, internal topics and copies of one partition included.

    For looking at what is on a disk; what is read is `list_logs`.
    """
    found = [each for path in options.paths for each in _look(path)]
    logs = _select([(name, replace(each, explicit=True)) for name, each in _name(found, options)], options.topics)
    return sorted(logs, key=lambda log: (log.topic_partition, log.directory))


def list_dead_directories(options: ReadOptions) -> list[tuple[str, int]]:
    """Partition directories that a broker has given up (-delete, -stray) or not finished (-future), in the log directories
    that the paths name: path and bytes. None of them is read."""
    dead = []
    for path in options.paths:
        local = local_path(path)
        for parent in [local] if os.path.lexists(local) else sorted(glob.glob(local)):
            if os.path.isdir(parent):
                names = [child.base_name for child in _list(parent, path) if child.type == fs.FileType.Directory]
                dead += [os.path.join(parent, name) for name in names if _DEAD_DIRECTORY.fullmatch(name)]
    return [(directory, sum(_files(directory).values())) for directory in sorted(dead)]


# ---- paths → directories with segments ----


def _look(path: str) -> Iterator[_Found]:
    local = local_path(path)
    matches = [local]
    if not os.path.lexists(local) and _GLOB.search(local):
        matches = sorted(glob.glob(local))
        if not matches:
            raise PathError(f"nothing matches the path {path!r}")
    by_glob = len(matches) > 1 or matches[0] != local
    for match in matches:
        yield from _look_at(match, given=path, pattern=local if by_glob else None)


def _look_at(path: str, given: str, pattern: str | None) -> Iterator[_Found]:
    """What is at a path; `pattern` is the glob that matched it, if one did."""
    info = FILESYSTEM.get_file_info(path)
    if info.type == fs.FileType.NotFound:
        raise PathError(f"path {given!r} does not exist")
    if info.type != fs.FileType.Directory:
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
    if any(_base_offset(child.base_name.removesuffix(fmt.SWAP_SUFFIX)) is not None for child in children):
        yield _Found(path, named_partition(path), explicit=pattern is None or _names_directory(pattern))
        return
    partitions = [child for child in children if child.type == fs.FileType.Directory and _is_partition(child.base_name)]
    if not partitions and pattern is None:
        raise PathError(
            f"path {given!r} holds no log segments: expected files like 00000000000000000000.log,"
            " or directories like orders-0 that hold them"
        )
    for child in sorted(partitions, key=lambda child: str(child.base_name)):
        yield _Found(os.path.join(path, child.base_name), named_partition(child.base_name))


def _names_directory(pattern: str) -> bool:
    """Whether a glob spells the directory it ends in, or at least that its topic is internal: `*` names nothing."""
    name = os.path.basename(pattern)
    return _GLOB.search(name) is None or name.startswith(fmt.INTERNAL_TOPIC_PREFIX)


def _list(path: str, given: str) -> list[fs.FileInfo]:
    """What is in a directory, by its own names; nothing if it is gone. PathError for data behind a broken link."""
    try:
        found = [
            info for info in FILESYSTEM.get_file_info(fs.FileSelector(path, allow_not_found=True)) if _is_text(info)
        ]
    except OSError as error:
        raise PathError(f"path {given!r} cannot be listed: {system_reason(error)}") from error
    broken = _broken_link(path)
    if broken is not None:
        raise PathError(f"{broken!r} is a link to {os.readlink(broken)!r}, which is not there: its records are missing")
    return found


def _broken_link(path: str) -> str | None:
    """A segment or partition in a directory that is a link to nothing: Arrow does not list it."""
    with suppress(OSError), os.scandir(path) as entries:
        for entry in entries:
            is_data = entry.is_symlink() and (_base_offset(entry.name) is not None or _is_partition(entry.name))
            if is_data and not os.path.exists(entry.path):
                return entry.path
    return None


def _is_text(info: fs.FileInfo) -> bool:
    """Whether a name is UTF-8: nothing that Kafka names is anything else, and Arrow cannot give any other."""
    try:
        return bool(info.base_name)
    except UnicodeDecodeError:
        return False


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
    listings = {directory: _listing(directory) for directory in dict.fromkeys(each.directory for _, each in wanted)}
    by_name = {directory: _segments(directory, sizes) for directory, sizes in listings.items()}
    for topic_partition, each in wanted:
        segments = logs.setdefault((topic_partition, each.directory), {})
        if each.only_file is None:
            segments.update((segment.base_offset, segment) for segment in by_name[each.directory].values())
            swaps[each.directory] = _swaps(each.directory, listings[each.directory])
        elif each.only_file in by_name[each.directory]:
            segment = by_name[each.directory][each.only_file]
            segments[segment.base_offset] = segment
    if not any(logs.values()) and not any(swaps.values()):
        raise PathError(f"no log segments are in {_shown(sorted({each.directory for _, each in named}))}")
    return [
        PartitionLog(
            *topic_partition,
            directory,
            tuple(segments[base] for base in sorted(segments)),
            swaps.get(directory, ()),
        )
        for (topic_partition, directory), segments in logs.items()
    ]


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
    more = f" and {len(listed) - 10} more" if len(listed) > 10 else ""
    return (", ".join(repr(name) for name in listed[:10]) or "nothing") + more


def _listing(directory: str) -> dict[str, int]:
    """Sizes by name of the files in a directory.

    A listing is no snapshot: while a broker swaps compacted segments in, it may show neither the old nor the new one.
    So where files of a compaction lie about, only a listing that agrees with the one before it is taken.
    """
    sizes = _files(directory)
    for _ in range(_LISTINGS - 1):
        if not any(name.endswith((fmt.CLEANED_SUFFIX, fmt.SWAP_SUFFIX, fmt.DELETED_SUFFIX)) for name in sizes):
            break
        again = _files(directory)
        if sizes.keys() == again.keys():
            break
        sizes = again
    return sizes


def _files(directory: str) -> dict[str, int]:
    return {info.base_name: info.size for info in _list(directory, directory) if info.type == fs.FileType.File}


def _swaps(directory: str, sizes: dict[str, int]) -> tuple[Segment, ...]:
    """The `.log.swap` files in offset order, but for those that an unfinished compaction would make anew (LogLoader)."""
    cleaned = [
        base
        for name in sizes
        if name.endswith(fmt.CLEANED_SUFFIX) and (base := _base_offset(name.split(".")[0] + fmt.LOG_SUFFIX)) is not None
    ]
    swaps = [
        Segment(os.path.join(directory, name), base, size)
        for name, size in sizes.items()
        if name.endswith(fmt.SWAP_SUFFIX)
        and (base := _base_offset(name.removesuffix(fmt.SWAP_SUFFIX))) is not None
        and base < min(cleaned, default=fmt.MAX_OFFSET)
    ]
    return tuple(sorted(swaps, key=lambda swap: swap.base_offset))


def _segments(directory: str, sizes: dict[str, int]) -> dict[str, Segment]:
    """The segments of one directory by the names of their files, in offset order."""
    bases = {base: name for name in sizes if (base := _base_offset(name)) is not None}
    ordered = sorted(bases)
    followers: list[int | None] = [*ordered[1:], None]
    segments = {}
    for base, following in zip(ordered, followers, strict=False):  # no segment: no follower either
        name = bases[base]
        stem = name.removesuffix(fmt.LOG_SUFFIX)
        segments[name] = Segment(
            path=os.path.join(directory, name),
            base_offset=base,
            size=sizes[name],
            index_size=sizes.get(stem + fmt.INDEX_SUFFIX),
            time_index_size=sizes.get(stem + fmt.TIME_INDEX_SUFFIX),
            next_base_offset=following,
        )
    return segments
