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
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple

from kafka_segment_source import kafka_format
from kafka_segment_source.errors import OptionError, PathError
from kafka_segment_source.logdir.checkpoints import read_topic_id
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
from kafka_segment_source.logdir.segments import Beside, ListedLog, Segment
from kafka_segment_source.option_values import TopicPartition, TopicSelection
from kafka_segment_source.options import ReadOptions
from kafka_segment_source.storage.ahead import map_ahead
from kafka_segment_source.storage.files import find_matches, look_at
from kafka_segment_source.storage.paths import is_remote, join_path, name_of, parent_of, resolve_path
from kafka_segment_source.storage.retrying import try_again
from kafka_segment_source.storage.store import Entry, Kind, Storage
from kafka_segment_source.storage.tiered.names import is_of_tier

if TYPE_CHECKING:
    from kafka_segment_source.logdir.tiers import FoundPartition

_GLOB = re.compile(r"[*?\[]")
_MOST_NAMED = 4  # most partitions or topics that one sentence names


class _Found(NamedTuple):
    """A directory that holds segments.

    named: the topic and partition that the directory's name states. None if the name states none.
    only_file: the one file that the path names. None if the path names the whole directory.
    explicit: whether the path names this partition itself. An internal topic then counts as named.
    log_directory: the log directory that the path names. None if the path names the partition.
    listed: the entries of the directory, if it was listed already.
    empty_path: the path, if it names a partition directory without segments: a copy that has lost all of them.
    tier: the partition of a tier that the directory is. Other directories stand for it (`list_copies`).
    notes: sentences for the warnings of a read.
    """

    directory: str
    named: TopicPartition | None
    only_file: str | None = None
    explicit: bool = False
    log_directory: str | None = None
    listed: tuple[Entry, ...] | None = None
    empty_path: str | None = None
    tier: FoundPartition | None = None
    notes: tuple[str, ...] = ()


def list_logs(options: ReadOptions, needs_all: bool = True) -> list[ListedLog]:
    """Returns the partition logs that the options select, sorted by topic and partition.

    Each directory gives one log. Logs of the same partition keep the order of the paths.

    needs_all: whether a topic or a partition that the options name, and that is not there, is an error.
    """
    found = _find_all(options)
    named = _name_partitions(found, options)
    return sorted(_select_logs(named, options, needs_all), key=lambda log: log.topic_partition)


def list_directories(options: ReadOptions) -> list[ListedLog]:
    """Returns every partition directory that the options select, with internal topics and all copies of a partition.

    This shows what is on a disk. `list_logs` returns what a query reads.
    """
    return try_again(lambda: _list_directories(options))


def _list_directories(options: ReadOptions) -> list[ListedLog]:
    found = _find_all(options)
    logs = _select_logs(
        [(name, each._replace(explicit=True)) for name, each in _name_partitions(found, options)],
        options,
        is_read=False,
    )
    return sorted(logs, key=lambda log: (log.topic_partition, log.directory))


def _find_all(options: ReadOptions) -> list[_Found]:
    """Finds the directories of all paths. One without segments counts only as a copy of another one."""
    storage = options.storage
    at_once = max((storage.read_cost(path).at_once for path in options.paths), default=1)
    of_paths = map_ahead(lambda path: list(_find_directories(path, storage)), options.paths, at_once)
    found = [each for directories in of_paths for each in directories]
    there = {each.named for each in found if each.empty_path is None}
    for each in found:
        if each.empty_path is not None and each.named not in there:
            raise PathError(
                f"path {each.empty_path!r} holds no log segments: expected files like 00000000000000000000.log,"
                " or directories like orders-0 that hold them"
            )
    return found


def list_dead_directories(options: ReadOptions) -> list[tuple[str, int]]:
    """Returns the path and the size in bytes of each dead or unfinished partition directory.

    A broker has given up a dead directory (-delete, -stray). It has not finished a directory that ends in -future. Only
    the log directories that the paths name are searched. No query reads these directories.
    """
    dead = []
    storage = options.storage
    for path in options.paths:
        resolved = resolve_path(path, storage)
        for parent in [resolved] if _is_there(resolved, storage) else find_matches(resolved, storage, path):
            if _is_directory(look_at(parent, storage)):
                names = [child.name for child in list_checked(parent, storage, path) if child.kind is Kind.DIRECTORY]
                dead += [join_path(parent, name) for name in names if DEAD_DIRECTORY.fullmatch(name)]
    return [
        (directory, sum(file.size for file in list_files(directory, storage).values())) for directory in sorted(dead)
    ]


def _find_directories(path: str, storage: Storage) -> Iterator[_Found]:
    resolved = resolve_path(path, storage)
    matches = [resolved]
    if _GLOB.search(resolved) and not _is_there(resolved, storage):
        matches = find_matches(resolved, storage, path)
        if not matches:
            raise PathError(f"nothing matches the path {path!r}{_doubt(resolved)}")
    by_glob = len(matches) > 1 or matches[0] != resolved
    pattern = resolved if by_glob else None
    at_once = storage.read_cost(resolved).at_once
    for found in map_ahead(lambda match: list(_find_directories_at(match, storage, path, pattern)), matches, at_once):
        yield from found


def _find_directories_at(path: str, storage: Storage, given: str, pattern: str | None) -> Iterator[_Found]:
    """Yields the partition directories at a path. `pattern` is the glob that matched the path, or None."""
    entry = look_at(path, storage)
    if entry is None or entry.kind is Kind.BROKEN_LINK:
        raise PathError(f"path {given!r} does not exist{_doubt(path)}")
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
            yield _Found(directory, named_partition(directory), name_of(path), explicit=named)
        return
    if pattern is not None and DEAD_DIRECTORY.fullmatch(name_of(path)):
        return
    children = list_checked(path, storage, given)
    if any(is_of_segment(child.name) for child in children):
        named = pattern is None or _names_directory(pattern)
        yield _Found(path, named_partition(path), explicit=named, listed=tuple(children))
        return
    partitions = [child.name for child in children if child.kind is Kind.DIRECTORY and is_partition(child.name)]
    tiers: list[FoundPartition] = []
    if any(is_of_tier(child.name, child.kind is Kind.DIRECTORY) for child in children) or not partitions:
        from kafka_segment_source.logdir.tiers import find_tiers  # noqa: PLC0415  # most paths hold no tier

        tiers = find_tiers(path, children, storage, searches=not partitions and pattern is None)
    for tier in tiers:
        explicit = tier.directory == path and (pattern is None or _names_directory(pattern))
        yield _Found(tier.directory, tier.named, explicit=explicit, tier=None if tier.topic_id is None else tier)
    if not partitions and not tiers and pattern is None:
        yield _Found(path, named_partition(path), explicit=True, listed=tuple(children), empty_path=given)
    for name in sorted(partitions):
        yield _Found(join_path(path, name), named_partition(name), log_directory=path)


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


def _name_partitions(found: list[_Found], options: ReadOptions) -> list[tuple[TopicPartition, _Found]]:
    """Returns each directory with its topic and partition.

    These come from the directory's name, or from the options `topic` and `partition`.
    """
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
        named.append(((topic, partition), each._replace(explicit=True) if renamed else each))
    return named


def _check_selection(there: set[TopicPartition], selection: TopicSelection) -> None:
    """Raises OptionError if a partition or topic that is selected by name is not there."""
    topics = sorted({topic for topic, _ in there})
    for topic in selection.subscribe or ():
        if topic not in topics:
            held = _join_names(topics, topic)
            raise OptionError(f"option 'subscribe' names topic {topic!r}, but the path holds {held}")
    for topic, partition in sorted((selection.assign or frozenset()) - there):
        held = _join_names((f"{t}-{p}" for t, p in sorted(there)), f"{topic}-{partition}")
        raise OptionError(f"option 'assign' names partition {topic}-{partition}, but the path holds {held}")


def _make_nothing_error(there: set[TopicPartition], options: ReadOptions) -> OptionError | PathError:
    """Makes the error about options that select none of the partitions that are there."""
    topics = sorted({topic for topic, _ in there})
    pattern = options.topics.pattern
    if not topics:
        return PathError(f"no partition directory is in {_name_first(options.paths, 'paths')}")
    if pattern is None:
        internal, what = topics, f"path {_name_first(options.paths, 'paths')} holds internal topics alone"
    else:
        internal = [topic for topic in topics if re.fullmatch(pattern, topic)]
        if not internal:
            return OptionError(f"option 'subscribePattern' ({pattern}) matches none of {_join_names(topics)}")
        what = f"option 'subscribePattern' ({pattern}) matches internal topics alone"
    error = f"{what}: name those to read by option 'subscribe' ({_join_names(internal)})"
    return PathError(error) if pattern is None else OptionError(error)


def _select_logs(
    named: list[tuple[TopicPartition, _Found]], options: ReadOptions, needs_all: bool = True, is_read: bool = True
) -> list[ListedLog]:
    """Returns the selected partitions with their segments.

    needs_all: as in `list_logs`. is_read: whether they are read, so that two topics of one name must not be mixed.
    """
    selection, storage = options.topics, options.storage
    there = {topic_partition for topic_partition, _ in named}
    if needs_all:
        _check_selection(there, selection)
    wanted = [each for each in named if _is_wanted(*each, selection)]
    if not wanted and not needs_all:
        return []
    if not wanted:
        raise _make_nothing_error(there, options)
    wanted = _list_tiers(_choose_topics(wanted, storage) if is_read else wanted, storage)
    logs: dict[tuple[TopicPartition, str], dict[int, Segment]] = {}  # the paths may name several files of one log
    swaps: dict[str, tuple[Segment, ...]] = {}
    found: dict[str, _Found] = {}
    for _, each in wanted:
        found.setdefault(each.directory, each)
    at_once = max((storage.read_cost(directory).at_once for directory in found), default=1)
    listed = map_ahead(lambda each: list_settled(each.directory, storage, each.listed), found.values(), at_once)
    listings = dict(zip(found, listed, strict=True))
    by_name = {directory: segments_of(directory, storage, sizes) for directory, sizes in listings.items()}
    changes = {directory: files_of_change(files) for directory, files in listings.items()}
    whole = {each.directory for _, each in wanted if each.only_file is None}
    parents = {each.directory: each.log_directory for _, each in wanted}
    notes = {each.directory: each.notes for _, each in wanted}
    for topic_partition, each in wanted:
        segments = logs.setdefault((topic_partition, each.directory), {})
        if each.only_file is None:
            segments.update((segment.base_offset, segment) for segment in by_name[each.directory].values())
            swaps[each.directory] = swaps_of(each.directory, storage, changes[each.directory])
        elif each.only_file in by_name[each.directory]:
            segment = by_name[each.directory][each.only_file]
            segments[segment.base_offset] = segment
    beside = {directory: beside_of(directory, storage, files) for directory, files in listings.items()}
    beside = {at: each._replace(faults=notes[at] + each.faults) if notes[at] else each for at, each in beside.items()}
    has_traces = any(each.orphans or each.snapshot > 0 for each in beside.values())
    if not any(logs.values()) and not any(swaps.values()) and not has_traces:
        raise PathError(f"no log segments are in {_name_first(list(found), 'directories')}")
    return [
        ListedLog(
            *topic_partition,
            directory,
            tuple(segments[base] for base in sorted(segments)),
            swaps.get(directory, ()),
            compacted=was_compacted(changes[directory], by_name[directory].values()),
            is_whole=directory in whole,
            beside=beside[directory] if directory in whole else Beside(beside[directory].faults),
            log_directory=parents[directory],
            storage=storage,
        )
        for (topic_partition, directory), segments in logs.items()
    ]


def _choose_topics(
    wanted: list[tuple[TopicPartition, _Found]], storage: Storage
) -> list[tuple[TopicPartition, _Found]]:
    """Leaves out the partitions of tiers that are of another topic of the same name.

    A topic that is deleted and made again has another id. Its objects in a tier may outlive it. The topic id of a local
    directory says which topic is meant. Raises OptionError if there is none.
    """
    homes: dict[str, dict[str, str]] = {}  # topic → its ids, each with the path of a partition
    for (topic, _), each in wanted:
        if each.tier is not None and each.tier.topic_id is not None:
            homes.setdefault(topic, {}).setdefault(each.tier.topic_id, each.tier.directory)
    several = {topic: ids for topic, ids in homes.items() if len(ids) > 1}
    if not several:
        return wanted
    local: dict[str, set[str]] = {}
    for (topic, _), each in wanted:
        if topic in several and each.tier is None:
            topic_id = read_topic_id(each.directory, storage)
            if topic_id is not None:
                local.setdefault(topic, set()).add(topic_id)
    kept = []
    for (topic, partition), each in wanted:
        ids, own = several.get(topic), local.get(topic, set())
        if ids is None or each.tier is None:
            kept.append(((topic, partition), each))
            continue
        if len(own) != 1:
            paths = ", ".join(f"{topic_id} ({path!r})" for topic_id, path in sorted(ids.items()))
            raise OptionError(
                f"the paths hold {len(ids)} topics of the name {topic!r}, as it was deleted and made again: their ids are"
                f" {paths}; give the path of one, or with it the local directory of the topic, whose partition.metadata"
                " has its id"
            )
        if each.tier.topic_id in own:
            others = ", ".join(sorted(ids.keys() - own))
            note = f"topic {topic!r} has the id {each.tier.topic_id} by its partition.metadata: what a tier holds of the deleted topic of that name ({others}) is not read"
            kept.append(((topic, partition), each._replace(notes=(note,))))
    return kept


def _list_tiers(wanted: list[tuple[TopicPartition, _Found]], storage: Storage) -> list[tuple[TopicPartition, _Found]]:
    """Puts the directories that stand for a partition of a tier in its place."""
    tiers = [each.tier for _, each in wanted if each.tier is not None]
    if not tiers:
        return wanted
    from kafka_segment_source.logdir.tiers import list_copies  # noqa: PLC0415  # as above

    at_once = max(storage.read_cost(tier.directory).at_once for tier in tiers)
    directories = dict(zip(tiers, map_ahead(lambda tier: list_copies(tier, storage), tiers, at_once), strict=True))
    return [
        (name, each._replace(directory=directory))
        for name, each in wanted
        for directory in (directories[each.tier] if each.tier is not None else [each.directory])
    ]


def is_selected(topic_partition: TopicPartition, selection: TopicSelection) -> bool:
    """Whether a selection includes a partition that no path names itself."""
    return _is_wanted(topic_partition, _Found("", topic_partition), selection)


def _is_wanted(topic_partition: TopicPartition, found: _Found, selection: TopicSelection) -> bool:
    topic, _ = topic_partition
    if selection.subscribe is not None:
        return topic in selection.subscribe
    if selection.assign is not None:
        return topic_partition in selection.assign
    internal = topic.startswith(kafka_format.INTERNAL_TOPIC_PREFIX) and not found.explicit
    if selection.pattern is not None:
        return not internal and re.fullmatch(selection.pattern, topic) is not None
    return not internal


def _join_names(names: Iterable[str], like: str = "") -> str:
    """Joins the first few names, and counts the others. Those that resemble `like` come first."""
    listed = list(names)
    if len(listed) > _MOST_NAMED:
        near = get_close_matches(like, listed, _MOST_NAMED)
        listed = [*near, *(name for name in listed if name not in near)]
    more = f" and {len(listed) - _MOST_NAMED} more" if len(listed) > _MOST_NAMED else ""
    return (", ".join(repr(name) for name in listed[:_MOST_NAMED]) or "nothing") + more


def _name_first(names: Sequence[str], what: str) -> str:
    """Names the first one, and counts the others. what: what they are."""
    return f"{names[0]!r}" + (f" and {len(names) - 1:,} more {what}" if len(names) > 1 else "")
