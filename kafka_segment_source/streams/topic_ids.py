"""The ids of the topics of a stream: another id says that a topic was deleted and made again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kafka_segment_source.logdir.checkpoints import read_topic_id
from kafka_segment_source.logdir.segments import PartitionLog
from kafka_segment_source.option_values import TopicPartition
from kafka_segment_source.storage.files import lasting_version
from kafka_segment_source.storage.store import NO_VERSION, FileVersion


class MadeAgain(NamedTuple):
    """A partition whose topic has another id than before.

    before, now: the ids.
    """

    log: PartitionLog
    before: str
    now: str


class TopicIds:
    """The id that `partition.metadata` states, of each partition. A file is read again only if it has changed."""

    def __init__(self) -> None:
        self._ids: dict[TopicPartition, tuple[FileVersion, str | None]] = {}

    def by_topic(self) -> dict[str, str]:
        """Returns the id of each topic whose `partition.metadata` was there."""
        return {topic: known for (topic, _), (_, known) in self._ids.items() if known is not None}

    def look(self, logs: Iterable[PartitionLog]) -> Iterator[MadeAgain]:
        """Reads the ids of listed logs. Yields those that have another one than at the last look.

        An id that is not known, before or now, says nothing.
        """
        for log in logs:
            key, version = log.topic_partition, log.beside.metadata
            known = self._ids.get(key)
            if version == NO_VERSION or (known is not None and known[0] == version):
                continue
            topic_id = read_topic_id(log.directory, log.storage)
            self._ids[key] = lasting_version(version), topic_id
            before = None if known is None else known[1]
            if before is not None and topic_id is not None and topic_id != before:
                yield MadeAgain(log, before, topic_id)
