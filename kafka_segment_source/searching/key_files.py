"""Options → the files that may hold a key: those of every copy, and those that are no part of a log any more."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kafka_segment_source import kafka_format
from kafka_segment_source.errors import PathError, StorageError
from kafka_segment_source.logdir.checkpoints import Checkpoints
from kafka_segment_source.logdir.listing import list_checked
from kafka_segment_source.logdir.names import (
    DEAD_DIRECTORY,
    INDEX_SUFFIXES,
    base_offset_of,
    is_partition,
    named_partition,
)
from kafka_segment_source.logdir.segments import ListedLog
from kafka_segment_source.option_values import TopicSelection
from kafka_segment_source.partition.logs import dead_directories, shown_logs
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.source import Source
from kafka_segment_source.storage.files import find_matches, list_directory, look_at
from kafka_segment_source.storage.paths import join_path, name_of, parent_of, resolve_path
from kafka_segment_source.storage.store import Entry, FileVersion, Kind, Storage
from kafka_segment_source.storage.tiered.identity import read_identity
from kafka_segment_source.storage.tiered.names import find_topic_id, is_of_tier, is_partition_number, split_shown

LIVE, ACTIVE, TIER = "segment", "active segment", "tier"
_LIVE = (LIVE, ACTIVE, TIER)
_NOTES = {
    kafka_format.DELETED_SUFFIX: (
        "deleted segment",
        "a deleted segment: the broker removes the file after file.delete.delay.ms, or when it starts",
    ),
    kafka_format.CLEANED_SUFFIX: (
        "unfinished compaction",
        "of a compaction that has not finished: the broker goes on with it, or removes the file when it starts",
    ),
    kafka_format.SWAP_SUFFIX: (
        "compaction",
        "of a finished compaction: the broker puts it in the place of the segments that it was made from when it starts",
    ),
}
_DEAD = {
    "-delete": (
        "deleted partition",
        "a deleted partition: the broker removes the directory after file.delete.delay.ms, or when it starts",
    ),
    "-future": (
        "future copy",
        "a copy that is being moved to another disk: the broker goes on with it, or you remove it",
    ),
    "-stray": ("stray partition", "a stray partition: no broker removes it, so you have to"),
}
_OTHER = "other file", "not a file that Kafka names so: nothing but you removes it"
_SEGMENT = re.compile(r"\d{20}\.log")
_BESIDE = frozenset(
    (kafka_format.PARTITION_METADATA, kafka_format.LEADER_EPOCH_CHECKPOINT, "quorum-state", ".kafka_cleanshutdown")
)
_OF_LOG_DIRECTORY = ("-checkpoint", ".checkpoint", "meta.properties", ".lock")
_NO_KEYS = (*INDEX_SUFFIXES, kafka_format.SNAPSHOT_SUFFIX, ".checkpoint")


@dataclass(frozen=True, slots=True)
class KeyFile:
    """A file to search.

    kind: what it is, in words.
    object: of a tier, the name of its objects.
    note: what keeps a file that is no part of a log.
    log_start: records below this offset are deleted, though their bytes are there.
    """

    topic: str
    partition: int
    directory: str
    path: str
    base_offset: int
    kind: str
    version: FileVersion
    storage: Storage = field(repr=False)
    object: str | None = None
    note: str = ""
    log_start: int = 0

    @property
    def size(self) -> int:
        return self.version.size

    @property
    def is_live(self) -> bool:
        """Whether it is a segment of a log."""
        return self.kind in _LIVE


def list_key_files(source: Source, unsearched: Warnings) -> list[KeyFile]:
    """Lists the files to search: by directory, those of a log first, in offset order.

    unsearched: gets a sentence for each thing that cannot be searched.
    """
    dead = [path for path, _ in dead_directories(source, unsearched)]
    paths = _leave_out_dead(source) if dead else source.paths
    logs = shown_logs(source._replace(paths=paths)) if paths else []
    checkpoints = Checkpoints(unsearched, source.storage)
    files = [file for log in logs for file in _list_log(log, checkpoints.log_start(log), unsearched)]
    for path in dead:
        files += _list_dead(path, source, unsearched)
    _note_others(logs, dead, source, unsearched)
    return files


def _note_others(logs: list[ListedLog], dead: list[str], source: Source, unsearched: list[str]) -> None:
    """Notes the files and directories that nothing was searched in: beside those of partitions, and between a path and
    a tier that was found below it."""
    storage = source.storage
    searched = {_home_of(log.directory) for log in logs} | set(dead)
    parents = {log.log_directory for log in logs if log.log_directory is not None} | {parent_of(path) for path in dead}
    for root, is_match in _find_roots(source):
        parents.update(above for path in searched for above in _between(root, path))
        if is_match and root not in searched and root not in parents and _holds_nothing_known(root, storage):
            unsearched.append(f"{root!r} holds no partition, and was not searched")
    for parent in sorted(parents):
        for entry in list_directory(parent, storage):
            path = join_path(parent, entry.name)
            if entry.kind is not Kind.DIRECTORY:
                if entry.size and not _is_of_broker(entry.name):
                    unsearched.append(f"{path!r} is not in the directory of a partition, and was not searched")
            elif path not in searched and path not in parents and not _may_be_unselected(parent, entry.name):
                unsearched.append(f"{path!r} is not the directory of a partition, and was not searched")


def _home_of(directory: str) -> str:
    """The directory itself; of a tier, the one of the partition's objects."""
    shown = split_shown(directory)
    return directory if shown is None else shown.home


def _find_roots(source: Source) -> Iterator[tuple[str, bool]]:
    """Yields the paths of the source, and what matches those that are globs, with whether it is such a match. A path
    that holds nothing is an error before."""
    storage = source.storage
    for path in source.paths:
        resolved = resolve_path(path, storage)
        if look_at(resolved, storage) is not None:
            yield resolved, False
        else:
            yield from ((match, True) for match in find_matches(resolved, storage, path))


def _holds_nothing_known(path: str, storage: Storage) -> bool:
    """Whether a path is a directory that is not empty, and neither is nor holds what was not asked for."""
    looked = look_at(path, storage)
    if looked is None or looked.kind is not Kind.DIRECTORY or _may_be_unselected(parent_of(path), name_of(path)):
        return False
    names = [entry.name for entry in list_directory(path, storage)]
    return bool(names) and not any(_may_be_unselected(path, name) for name in names)


def _between(root: str, path: str) -> Iterator[str]:
    """Yields the directories above a path, from its own up to the root. None, if it is not below the root."""
    while path != root and path.startswith(f"{root.rstrip('/')}/"):
        path = parent_of(path)
        yield path


def _is_of_broker(name: str) -> bool:
    """Whether a file beside the partitions is one of Kafka's, which holds no key; or an object of a tier."""
    return name in _BESIDE or name.endswith(_OF_LOG_DIRECTORY) or is_of_tier(name, is_directory=False)


def _may_be_unselected(parent: str, name: str) -> bool:
    """Whether a directory can be that of a partition that was not asked for."""
    if is_partition(name) or DEAD_DIRECTORY.fullmatch(name) or is_of_tier(name, is_directory=True):
        return True
    return is_partition_number(name) and find_topic_id(name_of(parent)) is not None


def _leave_out_dead(source: Source) -> tuple[str, ...]:
    """Returns the paths without those that hold dead directories and no partition."""
    kept = []
    for path in source.paths:
        alone = source.at((path,))
        try:
            shown_logs(alone)
        except PathError:
            if dead_directories(alone, Warnings()):
                continue
        kept.append(path)
    return tuple(kept)


def _list_log(log: ListedLog, log_start: int, unsearched: list[str]) -> Iterator[KeyFile]:
    if log.unreadable is not None:
        unsearched.append(log.unreadable)
        return
    for segment in log.segments:
        identity = read_identity(segment.version)
        kind = TIER if identity is not None else ACTIVE if segment.is_last else LIVE
        yield KeyFile(
            log.topic,
            log.partition,
            log.directory,
            segment.path,
            segment.base_offset,
            kind,
            segment.version,
            log.storage,
            None if identity is None else identity.stem,
            log_start=log_start,
        )
    unsearched += [
        f"the objects of {name!r} in {log.directory!r} are being uploaded or deleted, and were not searched"
        for name in log.beside.unfinished
    ]
    if log.is_whole:
        entries = list_checked(log.directory, log.storage, log.directory)
        others = [entry for entry in entries if base_offset_of(entry.name) is None or entry.kind is Kind.DIRECTORY]
        yield from _list_others(log.topic, log.partition, log.directory, log.storage, others, None, unsearched)


def _list_dead(directory: str, source: Source, unsearched: list[str]) -> Iterator[KeyFile]:
    name = name_of(directory)
    named = named_partition(name.rpartition(".")[0])
    if named is None:  # Kafka shortens the name of a topic that is too long for its file system
        named = name, -1
    elif not _is_selected(named, source.topics):
        return
    try:
        entries = list_checked(directory, source.storage, directory)
    except StorageError as error:
        unsearched.append(str(error))
        return
    suffix = next(suffix for suffix in _DEAD if name.endswith(suffix))
    yield from _list_others(*named, directory, source.storage, entries, _DEAD[suffix], unsearched)


def _is_selected(named: tuple[str, int], topics: TopicSelection) -> bool:
    if topics.subscribe is not None:
        return named[0] in topics.subscribe
    if topics.assign is not None:
        return named in topics.assign
    return topics.pattern is None or re.fullmatch(topics.pattern, named[0]) is not None


def _list_others(
    topic: str,
    partition: int,
    directory: str,
    storage: Storage,
    entries: Iterable[Entry],
    dead: tuple[str, str] | None,
    unsearched: list[str],
) -> Iterator[KeyFile]:
    """Yields the files that were segments once, by the beginning of their names. dead: what a dead directory is."""
    for entry in sorted(entries, key=lambda entry: entry.name):
        path = join_path(directory, entry.name)
        if entry.kind is Kind.DIRECTORY:
            unsearched.append(f"{path!r} is a directory in that of a partition, and was not searched")
            continue
        match = _SEGMENT.match(entry.name)
        if match is None or entry.kind is not Kind.FILE:
            plain = entry.name.removesuffix(kafka_format.DELETED_SUFFIX)
            plain = plain.removesuffix(kafka_format.CLEANED_SUFFIX).removesuffix(kafka_format.SWAP_SUFFIX)
            if entry.size and plain not in _BESIDE and not plain.endswith(_NO_KEYS):
                unsearched.append(f"{path!r} is not a file of a segment, and was not searched")
            continue
        suffix = entry.name[match.end() :]
        kind, note = dead or _NOTES.get(suffix, _OTHER)
        base = base_offset_of(match[0])
        yield KeyFile(topic, partition, directory, path, base or 0, kind, entry.version, storage, note=note)
