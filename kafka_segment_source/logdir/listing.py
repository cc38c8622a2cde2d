"""Lists one directory: its files by name, and its segments. A listing is not a snapshot (see `list_settled`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafka_segment_source import kafka_format
from kafka_segment_source.errors import FileChangedError, PathError
from kafka_segment_source.logdir.checkpoints import MOST_METADATA
from kafka_segment_source.logdir.names import DEAD_DIRECTORY, INDEX_SUFFIXES, base_offset_of, is_hint, is_partition
from kafka_segment_source.logdir.producer_snapshots import MOST_SNAPSHOT
from kafka_segment_source.logdir.segments import Beside, Orphan, Segment
from kafka_segment_source.storage.files import list_directory
from kafka_segment_source.storage.paths import join_path, name_of
from kafka_segment_source.storage.retrying import Attempts
from kafka_segment_source.storage.store import NO_VERSION, Entry, FileVersion, Kind, Storage
from kafka_segment_source.storage.tiered.names import DAMAGED_EPOCHS, UNFINISHED

_MOST_LISTINGS = 10  # until a directory that a broker changes is settled
_STANDS_FOR_LOG = (kafka_format.DELETED_SUFFIX, kafka_format.CLEANED_SUFFIX, kafka_format.SWAP_SUFFIX)
_DELETED_LOG = kafka_format.LOG_SUFFIX + kafka_format.DELETED_SUFFIX
_OF_CHANGE = (kafka_format.CLEANED_SUFFIX, kafka_format.SWAP_SUFFIX, kafka_format.DELETED_SUFFIX)


def list_settled(directory: str, storage: Storage, listed: Iterable[Entry] | None = None) -> dict[str, Entry]:
    """Returns the files in a directory by name.

    A listing is not a snapshot. While a broker puts compacted segments in place, it may show neither the old file nor
    the new one. So where the listing has files of a compaction, it must agree with the listing before it.

    An empty segment with others after it may come from a compaction that began after its name was read. The next
    listing then shows the files of that compaction.

    listed: the entries of the directory, if they are known.
    """
    files = list_files(directory, storage) if listed is None else _select_files(listed)
    attempts = Attempts(_MOST_LISTINGS - 2)  # each after two listings that differ
    while _may_be_of_compaction(files):
        again = list_files(directory, storage)
        if files.keys() == again.keys():
            break
        files = again
        attempts.note_failure(
            FileChangedError(f"directory {directory!r} changes faster than it is listed; plan the read again")
        )
    return files


def _may_be_of_compaction(files: Mapping[str, Entry]) -> bool:
    """Whether a compaction may have been under way while these files were listed."""
    if files_of_change(files):
        return True
    logs = [name for name in files if name.endswith(kafka_format.LOG_SUFFIX)]
    last = max(logs, default="")
    return any(files[name].size == 0 for name in logs if name != last)


def files_of_change(files: Mapping[str, Entry]) -> dict[str, Entry]:
    """Returns the files that a compaction or a deletion has named. Most directories have none."""
    return {name: file for name, file in files.items() if name.endswith(_OF_CHANGE)}


def list_files(directory: str, storage: Storage) -> dict[str, Entry]:
    return _select_files(list_checked(directory, storage, directory))


def list_checked(path: str, storage: Storage, given: str) -> list[Entry]:
    """Returns the entries of a directory. It returns nothing if the directory is gone.

    Raises PathError if a segment is not a regular file, and if a segment or a partition is a broken link.
    """
    entries = list_directory(path, storage, given)
    for entry in entries:
        if entry.kind is Kind.FILE:
            continue
        where = join_path(path, entry.name)
        is_segment = base_offset_of(entry.name.removesuffix(kafka_format.SWAP_SUFFIX)) is not None
        if entry.kind is Kind.BROKEN_LINK and (is_segment or is_partition(entry.name)):
            target = storage.read_link(where)
            raise PathError(f"{where!r} is a link to {target!r}, which is not there: its records are missing")
        if is_segment:
            raise PathError(f"{where!r} is named like a segment, but is {entry.kind.value}: its records are missing")
    return entries


def _select_files(listed: Iterable[Entry]) -> dict[str, Entry]:
    """Returns the regular files by name. It also returns other entries that are named like a file that a read may
    use."""
    return {entry.name: entry for entry in listed if entry.kind is Kind.FILE or is_hint(entry.name)}


def list_beside(directory: str, storage: Storage) -> Beside:
    """Returns what a partition directory holds beside its segments now. It returns an empty value if the directory is
    gone."""
    return beside_of(directory, storage, list_files(directory, storage))


def beside_of(directory: str, storage: Storage, files: Mapping[str, Entry]) -> Beside:
    width = kafka_format.BASE_OFFSET_DIGITS
    sizes = {name[:width]: file.size for name, file in files.items() if name[width:] == kafka_format.LOG_SUFFIX}
    faults, orphans, unfinished, damaged, snapshot, has_deleted = [], [], [], [], -1, False
    for name, file in files.items():
        suffix = name[width:]
        if suffix == kafka_format.LOG_SUFFIX or (
            suffix in INDEX_SUFFIXES and sizes.get(name[:width]) and file.kind is Kind.FILE
        ):
            continue  # nearly every file ends here
        has_deleted = has_deleted or suffix == _DELETED_LOG
        if name.endswith(DAMAGED_EPOCHS):
            damaged.append(str(file.version.identity))
        if name.endswith(UNFINISHED):
            unfinished.append(name.removesuffix(UNFINISHED))
        if not is_hint(name):
            continue
        fault = _find_fault(name, file)
        if fault is not None:
            faults.append(f"{join_path(directory, name)!r} {fault}, so it is not used")
        elif suffix == kafka_format.SNAPSHOT_SUFFIX:
            snapshot = max(snapshot, int(name[:width]))
        elif suffix in INDEX_SUFFIXES:
            stem, size = name[:width] + kafka_format.LOG_SUFFIX, sizes.get(name[:width])
            may_mention = size is None or (file.size > 0 and suffix != kafka_format.TRANSACTION_INDEX_SUFFIX)
            if may_mention and not any(stem + other in files for other in _STANDS_FOR_LOG):
                path = join_path(directory, name)
                orphans.append(Orphan(path, int(name[:width]), file.size, size is not None, storage))
    if DEAD_DIRECTORY.fullmatch(name_of(directory)):
        orphans, snapshot = [], -1  # a broker removes its files one by one, the `.log` first
    return Beside(
        tuple(faults),
        tuple(sorted(orphans, key=lambda orphan: (orphan.base_offset, orphan.path))),
        snapshot,
        max((int(digits) for digits in sizes if digits.isdecimal()), default=-1),
        has_deleted,
        metadata.version if (metadata := files.get(kafka_format.PARTITION_METADATA)) is not None else NO_VERSION,
        tuple(sorted(unfinished)),
        tuple(sorted(damaged)),
    )


def _find_fault(name: str, file: Entry) -> str | None:
    """Returns why a file cannot be what its name states, or None. The file is one that a read may use."""
    if file.kind is not Kind.FILE:
        return f"is {file.kind.value}"
    if name[kafka_format.BASE_OFFSET_DIGITS :] in INDEX_SUFFIXES:
        return None
    most = MOST_METADATA if name == kafka_format.PARTITION_METADATA else MOST_SNAPSHOT
    return f"has {file.size:,} bytes, where at most {most:,} were expected" if file.size > most else None


def swaps_of(directory: str, storage: Storage, files: Mapping[str, Entry]) -> tuple[Segment, ...]:
    """Returns the `.log.swap` files in offset order, without those that an unfinished compaction would write again
    (LogLoader). files: those of a change are enough."""
    cleaned = [
        base
        for name in files
        if name.endswith(kafka_format.CLEANED_SUFFIX)
        and (base := base_offset_of(name.split(".")[0] + kafka_format.LOG_SUFFIX)) is not None
    ]
    swaps = [
        Segment(join_path(directory, name), base, file.size, version=file.version, storage=storage)
        for name, file in files.items()
        if name.endswith(kafka_format.SWAP_SUFFIX)
        and (base := base_offset_of(name.removesuffix(kafka_format.SWAP_SUFFIX))) is not None
        and base < min(cleaned, default=kafka_format.MAX_OFFSET)
    ]
    return tuple(sorted(swaps, key=lambda swap: swap.base_offset))


def segments_of(directory: str, storage: Storage, files: Mapping[str, Entry]) -> dict[str, Segment]:
    """Returns the segments of one directory by the names of their files, in offset order."""
    bases = {base: name for name in files if (base := base_offset_of(name)) is not None}
    ordered = sorted(bases)
    followers: list[int | None] = [*ordered[1:], None]
    segments = {}
    before: FileVersion | None = None
    for base, following in zip(ordered, followers, strict=False):  # without segments `followers` is longer
        name = bases[base]
        stem = name.removesuffix(kafka_format.LOG_SUFFIX)
        version = files[name].version
        segments[name] = Segment(
            path=join_path(directory, name),
            base_offset=base,
            size=version.size,
            index_size=_size_of(files.get(stem + kafka_format.INDEX_SUFFIX)),
            time_index_size=_size_of(files.get(stem + kafka_format.TIME_INDEX_SUFFIX)),
            next_base_offset=following,
            version=version,
            before=before,
            storage=storage,
            transaction_index_size=_size_of(files.get(stem + kafka_format.TRANSACTION_INDEX_SUFFIX)),
        )
        before = version
    return segments


def _size_of(file: Entry | None) -> int | None:
    return None if file is None or file.kind is not Kind.FILE else file.size


def was_compacted(files: Mapping[str, Entry], segments: Iterable[Segment]) -> bool:
    """Whether the directory holds files that only compaction makes. files: those of a change are enough.

    These are `.cleaned` and `.swap` files, and `.deleted` files at or between live segments. Retention deletes below
    the first segment. A truncation deletes above the last one. The broker records a compaction in the
    cleaner-offset-checkpoint, but only at its end.
    """
    bases = [segment.base_offset for segment in segments]
    for name in files:
        if name.endswith((kafka_format.CLEANED_SUFFIX, kafka_format.SWAP_SUFFIX)):
            return True
        if name.endswith(kafka_format.LOG_SUFFIX + kafka_format.DELETED_SUFFIX) and bases:
            base = base_offset_of(name.removesuffix(kafka_format.DELETED_SUFFIX))
            if base is not None and min(bases) <= base <= max(bases):
                return True
    return False
