"""Which topics the directories of a read are of, and which of them the options select.

Comes in: each `PartitionPlace`, with what its name says. Goes out: those that are wanted, each with its topic and
partition.

The name of a tier's topic may not be known, as no manifest can be read (`tiers.py`). A local directory with the same
topic id says it, and so does the option `topic`. Otherwise a selection includes the topic wherever it could be meant.
So its damage, or the storage's error, is that of the read, and none of its records is missing in silence.

Raises OptionError if a selection names a topic or partition that the paths do not hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple

from kafka_segment_source import kafka_format
from kafka_segment_source.errors import OptionError, PathError, StorageError
from kafka_segment_source.logdir.checkpoints import read_topic_id
from kafka_segment_source.option_values import TopicPartition, TopicSelection
from kafka_segment_source.reporting import name_some
from kafka_segment_source.source import Source
from kafka_segment_source.storage.store import Entry, Storage
from kafka_segment_source.storage.tiered.names import is_shown

if TYPE_CHECKING:
    from kafka_segment_source.logdir.segments import ListedLog
    from kafka_segment_source.logdir.tiers import FoundPartition

_MOST_NAMED = 4  # most partitions or topics that one sentence names


class PartitionPlace(NamedTuple):
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


def name_partitions(places: list[PartitionPlace], source: Source) -> list[tuple[TopicPartition, PartitionPlace]]:
    """Returns each directory with its topic and partition.

    These come from the directory's name, or from the options `topic` and `partition`.
    """
    renamed = source.topic is not None or source.partition is not None
    if renamed and len({place.directory for place in places}) > 1:
        raise OptionError(
            f"options 'topic' and 'partition' name one partition directory, but the path holds {len(places)}; leave them out",
            options=("topic", "partition"),
        )
    named = []
    for place in places:
        own_topic, own_partition = place.named or (None, None)
        topic = source.topic if source.topic is not None else own_topic
        partition = source.partition if source.partition is not None else own_partition
        if topic is None or partition is None:
            raise PathError(
                f"directory {place.directory!r} does not say which topic and partition it holds:"
                " give the options 'topic' and 'partition'"
            )
        named.append(((topic, partition), _rename(place) if renamed else place))
    return _name_by_ids(named, source.storage)


def _rename(place: PartitionPlace) -> PartitionPlace:
    """Returns a directory that the source names."""
    tier = place.tier if place.tier is None else replace(place.tier, nameless=None)
    return place._replace(explicit=True, tier=tier)


def _name_by_ids(
    named: list[tuple[TopicPartition, PartitionPlace]], storage: Storage
) -> list[tuple[TopicPartition, PartitionPlace]]:
    """Names the tiers of topics without a name by the local directories that have their topic ids."""
    if not any(_is_nameless(place) for _, place in named):
        return named
    topics = {
        topic_id: topic
        for (topic, _), place in named
        if place.tier is None and (topic_id := read_topic_id(place.directory, storage)) is not None
    }

    def name(own: TopicPartition, place: PartitionPlace) -> tuple[TopicPartition, PartitionPlace]:
        if place.tier is None or place.tier.nameless is None or place.tier.topic_id not in topics:
            return own, place
        known = topics[place.tier.topic_id], own[1]
        return known, place._replace(tier=replace(place.tier, named=known, nameless=None))

    return [name(own, place) for own, place in named]


def _is_nameless(place: PartitionPlace) -> bool:
    return place.tier is not None and place.tier.nameless is not None


def note_nameless(wanted: list[tuple[TopicPartition, PartitionPlace]]) -> list[tuple[TopicPartition, PartitionPlace]]:
    """Returns the wanted directories. Each of a topic without a name has a note that says so.

    Raises StorageError if the storage does not give the manifests of such a topic.
    """
    if not any(_is_nameless(place) for _, place in wanted):
        return wanted
    from kafka_segment_source.logdir.tiers import explain_nameless  # noqa: PLC0415  # most paths hold no tier

    def note(place: PartitionPlace) -> PartitionPlace:
        if place.tier is None or place.tier.nameless is None:
            return place
        if isinstance(place.tier.nameless.fault, StorageError):
            raise place.tier.nameless.fault
        return place._replace(notes=(*place.notes, explain_nameless(place.tier)))

    return [(name, note(place)) for name, place in wanted]


def check_selection(named: Sequence[tuple[TopicPartition, PartitionPlace]], selection: TopicSelection) -> None:
    """Raises OptionError if a partition or topic that is selected by name is not there.

    A tier's topic without a name may be it. So what is wrong with that is the error of the read.
    """
    there = {topic_partition for topic_partition, _ in named}
    there |= {
        name
        for (_, partition), place in named
        if place.tier is not None and place.tier.nameless is not None and place.tier.nameless.fault is not None
        for name in _list_possible(place.tier.nameless.above, partition, selection)
    }
    topics = sorted({topic for topic, _ in there})
    for topic in selection.subscribe or ():
        if topic not in topics:
            held = _join_names(topics, topic)
            raise OptionError(
                f"option 'subscribe' names topic {topic!r}, but the path holds {held}", options=("subscribe",)
            )
    for topic, partition in sorted((selection.assign or frozenset()) - there):
        held = _join_names((f"{t}-{p}" for t, p in sorted(there)), f"{topic}-{partition}")
        raise OptionError(
            f"option 'assign' names partition {topic}-{partition}, but the path holds {held}", options=("assign",)
        )


def _list_possible(above: str, partition: int, selection: TopicSelection) -> list[TopicPartition]:
    """Returns the partitions that are selected by name, and that a tier's topic without a name may be."""
    named = [(topic, partition) for topic in selection.subscribe or ()]
    named += [topic_partition for topic_partition in selection.assign or () if topic_partition[1] == partition]
    return [(topic, number) for topic, number in named if above.endswith(topic)]


def make_nothing_error(there: set[TopicPartition], source: Source) -> OptionError | PathError:
    """Makes the error about options that select none of the partitions that are there."""
    topics = sorted({topic for topic, _ in there})
    pattern = source.topics.pattern
    if not topics:
        return PathError(f"no partition directory is in {name_first(source.paths, 'paths')}")
    if pattern is None:
        internal, what = topics, f"path {name_first(source.paths, 'paths')} holds internal topics alone"
    else:
        internal = [topic for topic in topics if re.fullmatch(pattern, topic)]
        if not internal:
            return OptionError(
                f"option 'subscribePattern' ({pattern}) matches none of {_join_names(topics)}",
                options=("subscribePattern",),
            )
        what = f"option 'subscribePattern' ({pattern}) matches internal topics alone"
    error = f"{what}: name those to read by option 'subscribe' ({_join_names(internal)})"
    return PathError(error) if pattern is None else OptionError(error)


def choose_topics(
    wanted: list[tuple[TopicPartition, PartitionPlace]], storage: Storage
) -> list[tuple[TopicPartition, PartitionPlace]]:
    """Leaves out the partitions of tiers that are of another topic of the same name.

    A topic that is deleted and made again has another id. Its objects in a tier may outlive it. The topic id of a local
    directory says which topic is meant. Raises OptionError if there is none.
    """
    homes: dict[str, dict[str, str]] = {}  # topic → its ids, each with the path of a partition
    for (topic, _), place in wanted:
        if place.tier is not None and place.tier.topic_id is not None:
            homes.setdefault(topic, {}).setdefault(place.tier.topic_id, place.tier.directory)
    several = {topic: ids for topic, ids in homes.items() if len(ids) > 1}
    if not several:
        return wanted
    local: dict[str, set[str]] = {}
    for (topic, _), place in wanted:
        if topic in several and place.tier is None:
            topic_id = read_topic_id(place.directory, storage)
            if topic_id is not None:
                local.setdefault(topic, set()).add(topic_id)
    kept = []
    for (topic, partition), place in wanted:
        ids, own = several.get(topic), local.get(topic, set())
        if ids is None or place.tier is None:
            kept.append(((topic, partition), place))
            continue
        if len(own) != 1:
            paths = ", ".join(f"{topic_id} ({path!r})" for topic_id, path in sorted(ids.items()))
            raise OptionError(
                f"the paths hold {len(ids)} topics of the name {topic!r}, as it was deleted and made again: their ids are"
                f" {paths}; give the path of one, or with it the local directory of the topic, whose partition.metadata"
                " has its id"
            )
        if place.tier.topic_id in own:
            others = ", ".join(sorted(ids.keys() - own))
            note = f"topic {topic!r} has the id {place.tier.topic_id} by its partition.metadata: what a tier holds of the deleted topic of that name ({others}) is not read"
            kept.append(((topic, partition), place._replace(notes=(note,))))
    return kept


def list_deleted(logs: Sequence[ListedLog]) -> set[str]:
    """Returns the directories of tiers whose topic was deleted and made again, where a local directory says so.

    A read leaves them out by the same rule (`choose_topics`), so they are no copies of the new topic.
    """
    in_tiers = {log.topic for log in logs if is_shown(log.directory)}
    in_both = {log.topic for log in logs if log.topic in in_tiers and not is_shown(log.directory)}
    ids = {log.directory: _read_id(log) for log in logs if log.topic in in_both}
    deleted = set()
    for topic in in_both:
        of_topic = [(log.directory, ids[log.directory]) for log in logs if log.topic == topic]
        uploaded = {topic_id for directory, topic_id in of_topic if topic_id is not None and is_shown(directory)}
        local = {topic_id for directory, topic_id in of_topic if topic_id is not None and not is_shown(directory)}
        if len(uploaded) > 1 and len(local) == 1:
            deleted |= {directory for directory, topic_id in of_topic if topic_id in uploaded - local}
    return deleted


def _read_id(log: ListedLog) -> str | None:
    """Returns the topic id of a directory. None if it has none, or if the storage does not give it."""
    try:
        return read_topic_id(log.directory, log.storage)
    except StorageError:  # whoever combines the copies needs the id too, and says so
        return None


def is_selected(topic_partition: TopicPartition, selection: TopicSelection) -> bool:
    """Whether a selection includes a partition that no path names itself."""
    return is_wanted(topic_partition, PartitionPlace("", topic_partition), selection)


def is_wanted(topic_partition: TopicPartition, place: PartitionPlace, selection: TopicSelection) -> bool:
    """Whether a selection includes a directory. It includes a tier's topic without a name if it could be meant."""
    topic, number = topic_partition
    if place.tier is not None and place.tier.nameless is not None:
        above = place.tier.nameless.above
        if _list_possible(above, number, selection) or selection == TopicSelection():
            return True
        if selection.pattern is not None:
            return any(re.fullmatch(selection.pattern, above[at:]) for at in range(len(above)))
    if selection.subscribe is not None:
        return topic in selection.subscribe
    if selection.assign is not None:
        return topic_partition in selection.assign
    internal = topic.startswith(kafka_format.INTERNAL_TOPIC_PREFIX) and not place.explicit
    if selection.pattern is not None:
        return not internal and re.fullmatch(selection.pattern, topic) is not None
    return not internal


def _join_names(names: Iterable[str], like: str = "") -> str:
    """Joins the first few names, and counts the others. Those that resemble `like` come first."""
    listed = list(names)
    if len(listed) > _MOST_NAMED:
        near = get_close_matches(like, listed, _MOST_NAMED)
        listed = [*near, *(name for name in listed if name not in near)]
    return name_some(listed, _MOST_NAMED, repr) or "nothing"


def name_first(names: Sequence[str], what: str) -> str:
    """Names the first one, and counts the others. what: what they are."""
    return name_some(names, 1, repr) + (f" {what}" if len(names) > 1 else "")
