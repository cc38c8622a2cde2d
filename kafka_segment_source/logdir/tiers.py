"""Finds the partitions of remote tiers below a path.

Comes in: a directory, with its entries. Goes out: the tier's directory of each partition, with the partition's name and
the topic's id. `storage/tiered/` shows these as partition directories. A tier is found by the names of its objects:

- Kafka's LocalTieredStorage: a directory `<topic>-<partition>-<topic id>` with `<offset>-<segment id>.log`.
- Aiven's plugin: a directory `<key prefix><topic>-<topic id>`, and in it one for each partition, with manifests. The
  prefix has no end of its own, so a manifest says the topic's name. Where none can, the topic has the name of that
  directory, which ends in its id, and `Nameless` says why.
- Pinterest's: Kafka's own names below a prefix. A file `offset.wm` marks a partition.

A prefix may have several parts. So a path that holds neither partitions nor a tier is searched, `_DEEPEST` directories
deep.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kafka_segment_source.errors import FileChangedError, KafkaSegmentError, PathError, StorageError
from kafka_segment_source.logdir.names import is_partition, named_partition
from kafka_segment_source.option_values import TopicPartition
from kafka_segment_source.storage.ahead import map_ahead, requests_at_once
from kafka_segment_source.storage.files import InputFile, list_directory
from kafka_segment_source.storage.paths import join_path, name_of, parent_of
from kafka_segment_source.storage.store import Entry, Kind, Storage
from kafka_segment_source.storage.tiered.manifest import MOST_MANIFEST, ManifestError, parse_manifest
from kafka_segment_source.storage.tiered.names import (
    TierHome,
    find_topic_id,
    is_partition_number,
    list_path,
    parse_home,
    parse_object,
    shown_directory,
)
from kafka_segment_source.storage.tiered.segments import MANIFEST, check_manifest
from kafka_segment_source.storage.tiered.tier_files import make_manifest_error

_DEEPEST = 4
_MOST_SEARCHED = 2_000  # directories that are searched for a tier
_MOST_FAILED = 4  # manifests of one topic that the storage does not give, after all tries of each, until that is said
_WATERMARK = "offset.wm"
_NOT_SEARCHED = "lost+found"  # of a file system, for its administrator alone


@dataclass(frozen=True, slots=True)
class Nameless:
    """Why the name of a tier's topic is not known.

    above: a text that ends with the name.
    fault: why no manifest says it. None if there is no manifest, so that no segment is whole.
    """

    above: str
    fault: KafkaSegmentError | None


@dataclass(frozen=True, slots=True)
class FoundPartition:
    """A partition of a tier.

    directory: the tier's own one, or that of Kafka's layout in Pinterest's.
    topic_id: None in Pinterest's.
    nameless: None if the topic's name is known.
    """

    directory: str
    named: TopicPartition
    topic_id: str | None
    nameless: Nameless | None = None


def find_tiers(path: str, children: Sequence[Entry], storage: Storage, searches: bool = True) -> list[FoundPartition]:
    """Returns the partitions of tiers at and below a directory, sorted by path.

    children: its entries. searches: whether to look below directories whose names say nothing.

    Raises the errors of a directory that cannot be listed, as it may hold a tier. A topic's manifests that cannot be
    read are no error yet: only a selection says whether the topic is wanted.
    """
    at_home = _find_home(path, children, storage)
    if at_home is not None:
        return at_home
    level = [(path, children)]
    searched = 0
    for _ in range(_DEEPEST if searches else 1):
        tiers = [tier for parent, entries in level for tier in _find_below(parent, entries, storage)]
        if tiers:
            return sorted(tiers, key=lambda tier: tier.directory)
        below = [
            join_path(parent, entry.name)
            for parent, entries in level
            for entry in entries
            if _is_directory(entry) and entry.name != _NOT_SEARCHED
        ]
        searched += len(below)
        if not below or searched > _MOST_SEARCHED:
            break
        level = list(zip(below, _list_all(below, storage), strict=True))
    return []


def list_copies(tier: FoundPartition, storage: Storage) -> list[str]:
    """Returns the directories that stand for a partition of a tier. More than one, if segments of it overlap.

    Raises PathError if its manifests do not agree on the topic's name, and the errors of the storage.
    """
    numbers = [entry.name for entry in list_directory(list_path(tier.directory), storage)]
    copies = [shown_directory(tier.directory, int(number), *tier.named) for number in numbers]
    for copy in copies[:1]:
        names = [entry.name for entry in list_directory(parent_of(copy), storage)]
        if names and names != [name_of(copy)]:  # none: no manifest of this partition says a name
            raise PathError(
                f"the manifests in {tier.directory!r} do not agree which topic they are of: found {names[0]!r} in most of"
                f" them, and {name_of(copy)!r} in the first"
            )
    return copies or [shown_directory(tier.directory, 1, *tier.named)]  # nothing of it is whole


def _is_directory(entry: Entry) -> bool:
    return entry.kind is Kind.DIRECTORY


def _list_all(directories: Sequence[str], storage: Storage) -> Iterator[list[Entry]]:
    at_once = requests_at_once((storage, directory) for directory in directories)
    return map_ahead(lambda directory: list_directory(directory, storage), directories, at_once)


def _find_home(path: str, children: Sequence[Entry], storage: Storage) -> list[FoundPartition] | None:
    """Returns the partitions of a path that is a tier's directory of one topic or of one partition. None for any other
    path."""
    named = parse_home(path)
    if named is not None and any(parse_object(child.name) is not None for child in children):
        return _name_homes([path], [children], storage)
    if find_topic_id(name_of(path)) is None:
        return None
    homes = _list_partitions(path, children)
    return _name_homes(homes, None, storage) if homes else None


def _list_partitions(topic_directory: str, children: Sequence[Entry]) -> list[str]:
    names = [child.name for child in children if _is_directory(child) and is_partition_number(child.name)]
    return [join_path(topic_directory, name) for name in names]


def _find_below(parent: str, children: Sequence[Entry], storage: Storage) -> list[FoundPartition]:
    """Returns the partitions of the topics' directories among the entries of a directory."""
    candidates = [
        join_path(parent, child.name) for child in children if _is_directory(child) and find_topic_id(child.name)
    ]
    tiers: list[FoundPartition] = []
    homes: list[str] = []
    for directory, entries in zip(candidates, _list_all(candidates, storage), strict=True):
        partitions = _list_partitions(directory, entries)
        if partitions:
            homes += partitions
        elif parse_home(directory) is not None and any(parse_object(entry.name) for entry in entries):
            tiers += _name_homes([directory], [entries], storage)
    # the first partition of each topic is enough to know the topic's name
    tiers += _name_homes(homes, None, storage)
    if tiers or not children:
        return tiers
    partitions = [
        join_path(parent, child.name) for child in children if _is_directory(child) and is_partition(child.name)
    ]
    marked = [
        path for path, entries in zip(partitions, _list_all(partitions, storage), strict=True) if _is_marked(entries)
    ]
    return [FoundPartition(path, named, None) for path in marked if (named := named_partition(path)) is not None]


def _is_marked(entries: Sequence[Entry]) -> bool:
    return any(entry.name == _WATERMARK for entry in entries)


def explain_nameless(tier: FoundPartition) -> str:
    """Returns one sentence about a topic whose name is not known."""
    assert tier.nameless is not None
    topic, fault = tier.named[0], tier.nameless.fault
    why = "no segment of it has a manifest" if fault is None else f"no manifest can be used ({fault})"
    return (
        f"the name of topic id {tier.topic_id} is not known: {why}, so it is shown as {topic!r}, the name of its"
        " directory; a local directory of the topic beside it, or the option 'topic', says the name"
    )


def _name_homes(
    homes: Sequence[str], listed: Sequence[Sequence[Entry]] | None, storage: Storage
) -> list[FoundPartition]:
    """Returns the partitions at some directories. Those of a topic whose name no manifest says are `Nameless`.

    listed: their entries, if they are known.
    """
    by_topic: dict[str, list[tuple[str, Sequence[Entry] | None]]] = {}
    for at, home in enumerate(homes):
        by_topic.setdefault(home.rpartition("/")[0], []).append((home, None if listed is None else listed[at]))

    def name(of_topic: list[tuple[str, Sequence[Entry] | None]]) -> list[FoundPartition]:
        places = [(home, place, entries) for home, entries in of_topic if (place := parse_home(home)) is not None]
        if all(place.topic is not None for _, place, _ in places):
            return [
                FoundPartition(home, (place.topic or "", place.partition), place.topic_id) for home, place, _ in places
            ]
        return _name_by_manifests(places, storage)

    at_once = requests_at_once((storage, home) for home in homes)
    return [tier for tiers in map_ahead(name, by_topic.values(), at_once) for tier in tiers]


def _name_by_manifests(
    places: Sequence[tuple[str, TierHome, Sequence[Entry] | None]], storage: Storage
) -> list[FoundPartition]:
    """Returns the partitions of one topic, with the name that the first manifest says that can be read.

    Raises FileChangedError if none can, and some are gone since they were listed.
    """
    topic, faults, of_tier = None, list[KafkaSegmentError](), list[str]()
    for home, place, listed in places:
        entries = list_directory(home, storage) if listed is None else listed
        if any(parse_object(entry.name) is not None for entry in entries):
            of_tier.append(home)
        for read in _read_topics(home, place, entries, storage):
            if isinstance(read, str):
                topic = read
                break
            faults.append(read)
            if sum(isinstance(fault, StorageError) for fault in faults) >= _MOST_FAILED:
                break
        else:
            continue
        break
    if topic is not None:
        return [FoundPartition(home, (topic, place.partition), place.topic_id) for home, place, _ in places]
    for kind in (FileChangedError, StorageError):  # what another try may mend goes before damage
        faults.sort(key=lambda fault: not isinstance(fault, kind))
    if faults and isinstance(faults[0], FileChangedError):
        raise faults[0]
    return [
        FoundPartition(
            home,
            (name_of(parent_of(home)), place.partition),
            place.topic_id,
            Nameless(place.above, faults[0] if faults else None),
        )
        for home, place, _ in places
        if home in of_tier or faults
    ]


def _read_topics(
    home: str, place: TierHome, entries: Sequence[Entry], storage: Storage
) -> Iterator[str | KafkaSegmentError]:
    """Yields the topic's name by each manifest of a directory, or the error of one that cannot be read or believed.

    The first is read alone, as it is nearly always enough.
    """

    def read(entry: Entry) -> str | KafkaSegmentError:
        path, name = join_path(home, entry.name), parse_object(entry.name)
        assert name is not None
        try:
            with InputFile(path, storage, entry.version) as file:
                manifest = parse_manifest(file.read_all(MOST_MANIFEST))
            fault = check_manifest(manifest, name, place)
        except ManifestError as error:
            fault = error
        except (PathError, StorageError, FileChangedError) as error:
            return error
        return manifest.topic if fault is None else make_manifest_error(path, fault)

    manifests = sorted(
        entry for entry in entries if (name := parse_object(entry.name)) is not None and name.suffix == MANIFEST
    )
    yield from map(read, manifests[:1])
    yield from map_ahead(read, manifests[1:], storage.read_cost(home).at_once)
