"""Paths → which partitions are there, and the segments of each. Names and sizes only: no file is opened.

Comes in: paths (partition directories, log directories, `.log` files, globs of these) and a topic selection.
Goes out: `ListedLog` values, sorted by topic and partition, each with its `Segment`s by base offset. Raises
PathError where nothing is, or nothing that is Kafka's, or a segment is a link to nothing; OptionError where a selection
names what is not there.
Naming rules: Kafka's LocalLog.parseTopicPartitionName and LogFileUtils.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from kafka_segment_source import format as fmt
from kafka_segment_source.errors import OptionError, PathError
from kafka_segment_source.logdir.listing import (
    beside_of,
    list_checked,
    list_files,
    list_settled,
    segments_of,
    swaps_of,
    was_compacted,
)
from kafka_segment_source.logdir.names import (
    DEAD_DIRECTORY,
    base_offset_of,
    is_of_segment,
    is_partition,
    named_partition,
)
from kafka_segment_source.logdir.segments import Beside, ListedLog, Segment
from kafka_segment_source.option_values import TopicPartition, TopicSelection
from kafka_segment_source.options import ReadOptions
from kafka_segment_source.storage import store
from kafka_segment_source.storage.files import look_at, try_again
from kafka_segment_source.storage.paths import local_path
from kafka_segment_source.storage.store import Entry, Kind

_GLOB = re.compile(r"[*?\[]")
_MOST_NAMED = 10  # partitions or topics in one sentence


@dataclass(frozen=True, slots=True)
class _Found:
    """A directory with segments; its name's topic and partition, if the name says; one file of it, or all."""

    directory: str
    named: TopicPartition | None
    only_file: str | None = None
    explicit: bool = False  # the path names this partition itself, so that an internal topic counts as named
    log_directory: str | None = None  # which the path names, if it does not name the partition
    listed: tuple[Entry, ...] | None = None  # what is in the directory, where that was looked at


def list_logs(options: ReadOptions) -> list[ListedLog]:
    """The partition logs that the options select, by topic and partition; one a directory, in the order
    of the paths."""
    found = [each for path in options.paths for each in _look(path)]
    named = _name(found, options)
    return sorted(_select(named, options.topics), key=lambda log: log.topic_partition)


def list_directories(options: ReadOptions) -> list[ListedLog]:
    """Every partition directory that the options select, internal topics and copies of one partition included.

    For looking at what is on a disk; what is read is `list_logs`.
    """
    return try_again(lambda: _list_directories(options))


def _list_directories(options: ReadOptions) -> list[ListedLog]:
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
                names = [child.name for child in list_checked(parent, path) if child.kind is Kind.DIRECTORY]
                dead += [os.path.join(parent, name) for name in names if DEAD_DIRECTORY.fullmatch(name)]
    return [(directory, sum(file.size for file in list_files(directory).values())) for directory in sorted(dead)]


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
        if base_offset_of(os.path.basename(path)) is None:
            if pattern is not None:
                return  # a log directory's checkpoints match a glob of its partitions
            raise PathError(f"path {given!r} is a file, but not a segment: expected 20 digits and {fmt.LOG_SUFFIX}")
        directory = os.path.dirname(path)
        named = pattern is None or _names_directory(os.path.dirname(pattern))
        if named or not DEAD_DIRECTORY.fullmatch(os.path.basename(directory)):
            yield _Found(directory, named_partition(directory), os.path.basename(path), explicit=named)
        return
    if pattern is not None and DEAD_DIRECTORY.fullmatch(os.path.basename(path)):
        return
    children = list_checked(path, given)
    if any(is_of_segment(child.name) for child in children):
        named = pattern is None or _names_directory(pattern)
        yield _Found(path, named_partition(path), explicit=named, listed=tuple(children))
        return
    partitions = [child.name for child in children if child.kind is Kind.DIRECTORY and is_partition(child.name)]
    if not partitions and pattern is None:
        raise PathError(
            f"path {given!r} holds no log segments: expected files like 00000000000000000000.log,"
            " or directories like orders-0 that hold them"
        )
    for name in sorted(partitions):
        yield _Found(os.path.join(path, name), named_partition(name), log_directory=path)


def _names_directory(pattern: str) -> bool:
    """Whether a glob spells the directory it ends in, or at least that its topic is internal: `*` names nothing."""
    name = os.path.basename(pattern)
    return _GLOB.search(name) is None or name.startswith(fmt.INTERNAL_TOPIC_PREFIX)


def _is_there(path: str) -> bool:
    """Whether anything is at a path, be it a link to nothing."""
    return look_at(path) is not None


def _is_directory(entry: Entry | None) -> bool:
    return entry is not None and entry.kind is Kind.DIRECTORY


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


def _select(named: list[tuple[TopicPartition, _Found]], selection: TopicSelection) -> list[ListedLog]:
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
    listings = {directory: list_settled(directory, each.listed) for directory, each in found.items()}
    by_name = {directory: segments_of(directory, sizes) for directory, sizes in listings.items()}
    whole = {each.directory for _, each in wanted if each.only_file is None}
    parents = {each.directory: each.log_directory for _, each in wanted}
    for topic_partition, each in wanted:
        segments = logs.setdefault((topic_partition, each.directory), {})
        if each.only_file is None:
            segments.update((segment.base_offset, segment) for segment in by_name[each.directory].values())
            swaps[each.directory] = swaps_of(each.directory, listings[each.directory])
        elif each.only_file in by_name[each.directory]:
            segment = by_name[each.directory][each.only_file]
            segments[segment.base_offset] = segment
    beside = {directory: beside_of(directory, files) for directory, files in listings.items()}
    has_traces = any(each.orphans or each.snapshot > 0 for each in beside.values())
    if not any(logs.values()) and not any(swaps.values()) and not has_traces:
        raise PathError(f"no log segments are in {_shown(sorted({each.directory for _, each in named}))}")
    return [
        ListedLog(
            *topic_partition,
            directory,
            tuple(segments[base] for base in sorted(segments)),
            swaps.get(directory, ()),
            compacted=was_compacted(listings[directory], by_name[directory].values()),
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
