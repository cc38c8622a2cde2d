"""Paths → which partitions are there, and the segments of each. Names and sizes only: no file is opened.

Comes in: paths (partition directories, log directories, `.log` files, globs of these) and a topic selection.
Goes out: `PartitionLog` values, sorted by topic and partition, each with its `Segment`s by base offset. Raises
PathError where nothing is, or nothing that is Kafka's; OptionError where a selection names what is not there.
Naming rules: Kafka's LocalLog.parseTopicPartitionName and LogFileUtils.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from urllib.parse import unquote, urlsplit

from pyarrow import fs

from kafka_segment_source import format as fmt
from kafka_segment_source.errors import OptionError, PathError, UnsupportedError
from kafka_segment_source.files import FILESYSTEM
from kafka_segment_source.options import ReadOptions, TopicPartition, TopicSelection

_PARTITION_DIRECTORY = re.compile(r"(?P<topic>[A-Za-z0-9._-]{1,255})-(?P<partition>\d+)")
_DEAD_DIRECTORY = re.compile(r"\S+-\S+\.\S+(" + "|".join(fmt.DEAD_DIRECTORY_SUFFIXES) + ")")
_GLOB = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class Segment:
    """One `.log` file and the index files beside it, as listed.

    path: absolute path of the `.log`; base_offset: its name; next_base_offset: the next segment's, None for the
    last; sizes in bytes, None for an index file that is not there.
    """

    path: str
    base_offset: int
    size: int
    index_size: int | None = None
    time_index_size: int | None = None
    next_base_offset: int | None = None

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
class PartitionLog:
    """One topic-partition's log: its directory and its segments in offset order."""

    topic: str
    partition: int
    directory: str
    segments: tuple[Segment, ...]

    @property
    def topic_partition(self) -> TopicPartition:
        return self.topic, self.partition


@dataclass(frozen=True, slots=True)
class _Found:
    """A directory with segments; its name's topic and partition, if the name says; one file of it, or all."""

    directory: str
    named: TopicPartition | None
    only_file: str | None = None
    explicit: bool = False  # the path names this partition itself, so that an internal topic counts as named


def list_logs(options: ReadOptions) -> list[PartitionLog]:
    """The partition logs that the options select."""
    found = [each for path in options.paths for each in _look(path)]
    named = _name(found, options)
    logs = _select(named, options.topics)
    _refuse_duplicates(logs)
    return sorted(logs, key=lambda log: log.topic_partition)


# ---- paths → directories with segments ----


def _look(path: str) -> Iterator[_Found]:
    local = _local_path(path)
    matches = [local]
    if not os.path.lexists(local) and _GLOB.search(local):
        matches = sorted(glob.glob(local))
        if not matches:
            raise PathError(f"nothing matches the path {path!r}")
    for match in matches:
        yield from _look_at(match, given=path, by_glob=len(matches) > 1 or match != local)


def _local_path(path: str) -> str:
    """The absolute local path of a path as users and Spark write it (`file:/x`, `file:///x`, `~`, relative)."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", path):
        parts = urlsplit(path)
        if parts.scheme.lower() != "file":
            raise UnsupportedError(f"path {path!r}: only local files are read so far, not {parts.scheme}:")
        if "%" in path:
            return os.path.abspath(unquote(path[len("file:") :].replace("//", "", 1)) or "/")
        path = path[len("file:") :]
        path = path[2:] if path.startswith("//") else path
    return os.path.abspath(os.path.expanduser(path))


def _look_at(path: str, given: str, by_glob: bool) -> Iterator[_Found]:
    info = FILESYSTEM.get_file_info(path)
    if info.type == fs.FileType.NotFound:
        raise PathError(f"path {given!r} does not exist")
    if info.type != fs.FileType.Directory:
        if _base_offset(os.path.basename(path)) is None:
            if by_glob:
                return  # a log directory's checkpoints match a glob of its partitions
            raise PathError(f"path {given!r} is a file, but not a segment: expected 20 digits and {fmt.LOG_SUFFIX}")
        directory = os.path.dirname(path)
        yield _Found(directory, _topic_partition(directory), os.path.basename(path), explicit=True)
        return
    if by_glob and _DEAD_DIRECTORY.fullmatch(os.path.basename(path)):
        return
    children = _list(path, given)
    if any(_base_offset(child.base_name) is not None for child in children):
        yield _Found(path, _topic_partition(path), explicit=True)
        return
    partitions = [child for child in children if child.type == fs.FileType.Directory and _is_partition(child.base_name)]
    if not partitions and not by_glob:
        raise PathError(
            f"path {given!r} holds no log segments: expected files like 00000000000000000000.log,"
            " or directories like orders-0 that hold them"
        )
    for child in sorted(partitions, key=lambda child: str(child.base_name)):
        yield _Found(os.path.join(path, child.base_name), _topic_partition(child.base_name))


def _list(path: str, given: str) -> list[fs.FileInfo]:
    try:
        return list(FILESYSTEM.get_file_info(fs.FileSelector(path, allow_not_found=True)))
    except OSError as error:
        raise PathError(f"path {given!r} cannot be listed: {error}") from error


def _is_partition(name: str) -> bool:
    """A live partition's directory: dead and unfinished ones carry a suffix after their last dot."""
    return _DEAD_DIRECTORY.fullmatch(name) is None and _PARTITION_DIRECTORY.fullmatch(name) is not None


def _topic_partition(directory: str) -> TopicPartition | None:
    match = _PARTITION_DIRECTORY.fullmatch(os.path.basename(directory))
    return (match["topic"], int(match["partition"])) if match else None


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
    for topic_partition, each in wanted:
        segments = logs.setdefault((topic_partition, each.directory), {})
        segments.update({segment.base_offset: segment for segment in _segments(each)})
    if not any(logs.values()):
        raise PathError(f"no log segments are in {_shown(sorted({each.directory for _, each in named}))}")
    return [
        PartitionLog(*topic_partition, directory, tuple(segments[base] for base in sorted(segments)))
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


def _segments(found: _Found) -> list[Segment]:
    """Segments of one directory in offset order; one file only still knows its neighbour's base offset."""
    sizes = {}
    bases = {}
    for info in _list(found.directory, found.directory):
        if info.type == fs.FileType.File:
            sizes[info.base_name] = info.size
            base = _base_offset(info.base_name)
            if base is not None:
                bases[base] = info.base_name
    ordered = sorted(bases)
    segments = []
    for base, following in zip(ordered, [*ordered[1:], None], strict=True):
        stem = bases[base].removesuffix(fmt.LOG_SUFFIX)
        segments.append(
            Segment(
                path=os.path.join(found.directory, bases[base]),
                base_offset=base,
                size=sizes[bases[base]],
                index_size=sizes.get(stem + fmt.INDEX_SUFFIX),
                time_index_size=sizes.get(stem + fmt.TIME_INDEX_SUFFIX),
                next_base_offset=following,
            )
        )
    if found.only_file is not None:
        segments = [segment for segment in segments if os.path.basename(segment.path) == found.only_file]
    return segments


def _refuse_duplicates(logs: list[PartitionLog]) -> None:
    """The same partition in two directories would give its offsets twice."""
    seen: dict[TopicPartition, str] = {}
    for log in logs:
        other = seen.setdefault(log.topic_partition, log.directory)
        if other != log.directory:
            raise UnsupportedError(
                f"partition {log.topic}-{log.partition} is found twice, in {other!r} and {log.directory!r};"
                " reading replicas together is not built yet: give one of the directories"
            )
