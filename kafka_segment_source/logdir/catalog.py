"""Finds the partitions at the given paths, and the segments of each partition.

It uses names and sizes only and opens no file.

Comes in: paths and a topic selection. A path is a partition directory, a log directory, a `.log` file, or a glob of
these.

Goes out: `ListedLog` values, sorted by topic and partition. Each one has its `Segment`s, sorted by base offset.

Raises PathError if a path does not exist or holds nothing of Kafka, and if a segment is a broken link. Raises
OptionError if a selection names a topic or partition that the paths do not hold.

Kafka defines the names in LocalLog.parseTopicPartitionName and LogFileUtils.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import TYPE_CHECKING

from kafka_segment_source import kafka_format
from kafka_segment_source.errors import PathError, StorageError
from kafka_segment_source.logdir.listing import (
    beside_of,
    files_of_change,
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
from kafka_segment_source.logdir.segments import Beside, ListedLog
from kafka_segment_source.logdir.topic_choice import (
    PartitionPlace,
    check_selection,
    choose_topics,
    is_wanted,
    make_nothing_error,
    name_first,
    name_partitions,
    note_nameless,
)
from kafka_segment_source.option_values import TopicPartition, TopicSelection
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.source import Source
from kafka_segment_source.storage.ahead import map_ahead, requests_at_once
from kafka_segment_source.storage.files import UNUSABLE, find_matches, list_directory, look_at
from kafka_segment_source.storage.paths import is_remote, join_path, name_of, parent_of, resolve_path
from kafka_segment_source.storage.store import Entry, Kind, Storage
from kafka_segment_source.storage.tiered.names import is_of_tier

if TYPE_CHECKING:
    from kafka_segment_source.logdir.tiers import FoundPartition

_GLOB = re.compile(r"[*?\[]")
_MOST_SEARCHED = 20  # directories below a wrong path, to say which of them was meant


class Purpose(Enum):
    """What the logs of some paths are listed for.

    READ: rows. What the source names must be there. An internal topic counts only where it is named. Two topics of one
        name are not mixed. A directory that cannot be listed is a StorageError.
    READ_IF_THERE: as READ, but a topic or a partition that is not there is no error.
    SHOW: to show what is on a disk, internal topics too. A partition directory that cannot be listed has no segments,
        and says why (`unreadable`); it is a StorageError if there is no other.
    """

    READ = "read"
    READ_IF_THERE = "read if there"
    SHOW = "show"


def list_logs(source: Source, purpose: Purpose = Purpose.READ) -> list[ListedLog]:
    """Returns the logs that the source selects, one for each directory, sorted by topic and partition.

    Those of one partition keep the order of the paths, which decides between copies. Those that are shown are sorted by
    directory. Raises FileChangedError if a directory changes all the time. Only `partition/logs.py` calls it.
    """
    shows = purpose is Purpose.SHOW
    # with a selection, an unlisted path might be a log directory that holds what is selected
    named = name_partitions(_find_all(source, goes_on=shows and source.topics == TopicSelection()), source)
    if shows:
        named = [(name, place._replace(explicit=True)) for name, place in named]
    logs = _select_logs(named, source, purpose)
    return sorted(logs, key=lambda log: (log.topic_partition, log.directory if shows else ""))


def _find_all(source: Source, goes_on: bool = False) -> list[PartitionPlace]:
    """Finds the directories of all paths. One without segments counts only as a copy of another one.

    goes_on: whether a path that cannot be listed, and has the name of a partition, counts as one.
    """
    storage = source.storage
    at_once = requests_at_once((storage, path) for path in source.paths)
    of_paths = map_ahead(lambda path: list(_find_directories(path, storage, goes_on)), source.paths, at_once)
    places = [directory for directories in of_paths for directory in directories]
    there = {place.named for place in places if place.empty_path is None}
    for place in places:
        if place.empty_path is not None and place.named not in there:
            if place.notes:
                raise PathError(_explain_missing(place.empty_path, place.directory))
            raise PathError(
                f"path {place.empty_path!r} holds no log segments: expected files like 00000000000000000000.log,"
                f" or directories like orders-0 that hold them{_point_below(place, storage)}"
            )
    return places


def _point_below(place: PartitionPlace, storage: Storage) -> str:
    """Returns words for an error: the directories in an empty one that hold partitions. The path names their parent."""
    below = [entry.name for entry in place.listed or () if entry.kind is Kind.DIRECTORY]
    log_directories = []
    for name in sorted(below)[:_MOST_SEARCHED]:
        try:
            entries = list_directory(join_path(place.directory, name), storage)
        except UNUSABLE:
            continue
        if any(entry.kind is Kind.DIRECTORY and is_partition(entry.name) for entry in entries):
            log_directories.append(join_path(place.directory, name))
    if not log_directories:
        return ""
    return f"; there are such directories in {name_first(log_directories, 'of its directories')}"


def list_dead_directories(source: Source, warnings: Warnings) -> list[tuple[str, int]]:
    """Returns the path and the size in bytes of each dead or unfinished partition directory.

    warnings: gets a sentence for each one that cannot be listed.

    A broker has given up a dead directory (-delete, -stray). It has not finished a directory that ends in -future. Only
    the log directories that the paths name are searched. No query reads these directories.
    """
    storage = source.storage
    sizes = []
    for directory in sorted(_find_dead(source, warnings)):
        try:
            sizes.append((directory, sum(file.size for file in list_files(directory, storage).values())))
        except StorageError as error:
            warnings.add(str(error))
    return sizes


def _find_dead(source: Source, warnings: Warnings) -> Iterator[str]:
    """Yields the paths of dead directories. warnings: as in `list_dead_directories`."""
    storage = source.storage
    for path in source.paths:
        resolved = resolve_path(path, storage)
        for parent in [resolved] if _is_there(resolved, storage) else find_matches(resolved, storage, path):
            if not _is_directory(look_at(parent, storage)):
                continue
            try:
                children = list_checked(parent, storage, path)
            except StorageError as error:
                if named_partition(parent) is None:  # else it is shown as a partition
                    warnings.add(str(error))
                continue
            names = [child.name for child in children if child.kind is Kind.DIRECTORY]
            yield from (join_path(parent, name) for name in names if DEAD_DIRECTORY.fullmatch(name))


def _find_directories(path: str, storage: Storage, goes_on: bool) -> Iterator[PartitionPlace]:
    resolved = resolve_path(path, storage)
    matches = [resolved]
    if _GLOB.search(resolved) and not _is_there(resolved, storage):
        matches = find_matches(resolved, storage, path)
        if not matches:
            raise PathError(f"nothing matches the path {path!r}{_doubt(resolved)}")
    by_glob = len(matches) > 1 or matches[0] != resolved
    pattern = resolved if by_glob else None
    at_once = storage.read_cost(resolved).at_once

    def find(match: str) -> list[PartitionPlace]:
        try:
            return list(_find_directories_at(match, storage, path, pattern))
        except StorageError:
            if not goes_on or named_partition(match) is None:
                raise
            return [PartitionPlace(match, named_partition(match))]

    for places in map_ahead(find, matches, at_once):
        yield from places


def _find_directories_at(path: str, storage: Storage, given: str, pattern: str | None) -> Iterator[PartitionPlace]:
    """Yields the partition directories at a path. `pattern` is the glob that matched the path, or None."""
    entry = look_at(path, storage)
    if entry is None or entry.kind is Kind.BROKEN_LINK:
        missing = _explain_missing(given, path)
        if not _is_empty_copy(path, storage):
            raise PathError(missing)
        note = f"{missing}: it is taken for a copy that has lost all its segments"
        yield PartitionPlace(path, named_partition(path), listed=(), empty_path=given, notes=(note,))
        return
    if entry.kind is not Kind.DIRECTORY:
        if base_offset_of(name_of(path)) is None:
            if pattern is not None:
                return  # a glob of partitions also matches the checkpoints of the log directory
            raise PathError(
                f"path {given!r} is a file, but not a segment: expected 20 digits and {kafka_format.LOG_SUFFIX}"
            )
        directory = parent_of(path)
        named = pattern is None or _names_directory(parent_of(pattern))
        if named or not DEAD_DIRECTORY.fullmatch(name_of(directory)):
            yield PartitionPlace(directory, named_partition(directory), name_of(path), explicit=named)
        return
    if pattern is not None and DEAD_DIRECTORY.fullmatch(name_of(path)):
        return
    children = list_checked(path, storage, given)
    if any(is_of_segment(child.name) for child in children):
        named = pattern is None or _names_directory(pattern)
        yield PartitionPlace(path, named_partition(path), explicit=named, listed=tuple(children))
        return
    partitions = [child.name for child in children if child.kind is Kind.DIRECTORY and is_partition(child.name)]
    tiers: list[FoundPartition] = []
    if any(is_of_tier(child.name, child.kind is Kind.DIRECTORY) for child in children) or not partitions:
        from kafka_segment_source.logdir.tiers import find_tiers  # noqa: PLC0415  # most paths hold no tier

        tiers = find_tiers(path, children, storage, searches=not partitions and pattern is None)
    for tier in tiers:
        explicit = tier.directory == path and (pattern is None or _names_directory(pattern))
        yield PartitionPlace(
            tier.directory, tier.named, explicit=explicit, tier=None if tier.topic_id is None else tier
        )
    if not partitions and not tiers and pattern is None:
        yield PartitionPlace(path, named_partition(path), explicit=True, listed=tuple(children), empty_path=given)
    for name in sorted(partitions):
        yield PartitionPlace(join_path(path, name), named_partition(name), log_directory=path)


def _is_empty_copy(path: str, storage: Storage) -> bool:
    """Whether a path that is not there may be a partition's directory in a bucket, whose objects are all gone.

    A bucket has no empty directories. Something else must be in it, which shows that it answers with listings.
    """
    if not is_remote(path) or named_partition(path) is None:
        return False
    parent = parent_of(path)
    while not (entries := list_directory(parent, storage)) and parent != (above := parent_of(parent)):
        parent = above
    return bool(entries)


def _explain_missing(given: str, path: str) -> str:
    return f"path {given!r} does not exist{_doubt(path)}"


def _doubt(path: str) -> str:
    """Returns words for a path that is not there. A bucket's client hides what was no listing."""
    return ", or the store's answer was no listing" if is_remote(path) else ""


def _names_directory(pattern: str) -> bool:
    """Whether a glob names its last directory, or at least names an internal topic. `*` names nothing."""
    name = name_of(pattern)
    return _GLOB.search(name) is None or name.startswith(kafka_format.INTERNAL_TOPIC_PREFIX)


def _is_there(path: str, storage: Storage) -> bool:
    """Whether the path exists. A broken link counts."""
    return look_at(path, storage) is not None


def _is_directory(entry: Entry | None) -> bool:
    return entry is not None and entry.kind is Kind.DIRECTORY


def _select_logs(
    named: list[tuple[TopicPartition, PartitionPlace]], source: Source, purpose: Purpose
) -> list[ListedLog]:
    """Returns the selected partitions with their segments."""
    storage = source.storage
    is_read = purpose is not Purpose.SHOW
    if purpose is not Purpose.READ_IF_THERE:
        check_selection(named, source.topics)
    wanted = [named_place for named_place in named if is_wanted(*named_place, source.topics)]
    if not wanted and purpose is Purpose.READ_IF_THERE:
        return []
    if not wanted:
        raise make_nothing_error({topic_partition for topic_partition, _ in named}, source)
    wanted = _list_tiers(note_nameless(choose_topics(wanted, storage) if is_read else wanted), storage)
    listings, failures = _list_files([place for _, place in wanted], storage, goes_on=not is_read)
    of_logs: dict[tuple[TopicPartition, str], list[PartitionPlace]] = {}  # paths may name several files of one log
    for topic_partition, place in wanted:
        of_logs.setdefault((topic_partition, place.directory), []).append(place)
    logs = [
        _make_log(topic_partition, places, listings[directory], storage, failures.get(directory))
        for (topic_partition, directory), places in of_logs.items()
    ]
    if not any(log.segments or log.swaps for log in logs) and not failures:
        beside = [beside_of(directory, storage, files) for directory, files in listings.items()]
        if not any(neighbours.orphans or neighbours.snapshot > 0 for neighbours in beside):
            raise PathError(f"no log segments are in {name_first(list(listings), 'directories')}")
    return logs


def _list_files(
    places: Iterable[PartitionPlace], storage: Storage, goes_on: bool
) -> tuple[dict[str, dict[str, Entry]], dict[str, StorageError]]:
    """Returns the files of each directory, and the directories that cannot be listed.

    goes_on: whether a directory that cannot be listed is no error, as long as there is another one.
    """
    by_directory: dict[str, PartitionPlace] = {}
    for place in places:
        by_directory.setdefault(place.directory, place)
    failures: dict[str, StorageError] = {}

    def list_one(place: PartitionPlace) -> dict[str, Entry]:
        try:
            return list_settled(place.directory, storage, place.listed)
        except StorageError as error:
            if not goes_on:
                raise
            failures[place.directory] = error
            return {}

    at_once = requests_at_once((storage, directory) for directory in by_directory)
    listings = dict(zip(by_directory, map_ahead(list_one, by_directory.values(), at_once), strict=True))
    if failures and len(failures) == len(by_directory):
        raise next(iter(failures.values()))
    return listings, failures


def _make_log(
    topic_partition: TopicPartition,
    places: list[PartitionPlace],
    files: dict[str, Entry],
    storage: Storage,
    failure: StorageError | None,
) -> ListedLog:
    """Makes the log of one directory. places: the directory, once for each path that names it or one of its files."""
    directory = places[-1].directory
    by_name = segments_of(directory, storage, files)
    changes = files_of_change(files)
    is_whole = any(place.only_file is None for place in places)
    if is_whole:
        segments = {segment.base_offset: segment for segment in by_name.values()}
    else:
        given = [by_name[place.only_file] for place in places if place.only_file in by_name]
        segments = {segment.base_offset: segment for segment in given}
    beside = beside_of(directory, storage, files)
    if places[-1].notes:
        beside = beside._replace(faults=places[-1].notes + beside.faults)
    return ListedLog(
        *topic_partition,
        directory,
        tuple(segments[base] for base in sorted(segments)),
        swaps_of(directory, storage, changes) if is_whole else (),
        compacted=was_compacted(changes, by_name.values()),
        is_whole=is_whole,
        beside=beside if is_whole else Beside(beside.faults),
        log_directory=places[-1].log_directory,
        storage=storage,
        unreadable=None if failure is None else str(failure),
    )


def _list_tiers(
    wanted: list[tuple[TopicPartition, PartitionPlace]], storage: Storage
) -> list[tuple[TopicPartition, PartitionPlace]]:
    """Puts the directories that stand for a partition of a tier in its place."""
    tiers = [place.tier for _, place in wanted if place.tier is not None]
    if not tiers:
        return wanted
    from kafka_segment_source.logdir.tiers import list_copies  # noqa: PLC0415  # as above

    at_once = requests_at_once((storage, tier.directory) for tier in tiers)
    directories = dict(zip(tiers, map_ahead(lambda tier: list_copies(tier, storage), tiers, at_once), strict=True))
    return [
        (name, place._replace(directory=directory))
        for name, place in wanted
        for directory in (directories[place.tier] if place.tier is not None else [place.directory])
    ]
