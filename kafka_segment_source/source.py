"""Where the files of a read are, and which of their partitions it wants. The value is made once from the options."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kafka_segment_source.option_values import TopicSelection
from kafka_segment_source.storage.files import exists
from kafka_segment_source.storage.paths import find_real_path, join_path, parent_of
from kafka_segment_source.storage.store import Storage


class Source(NamedTuple):
    """Paths, and the partitions in them.

    storage: where the files of all paths are. It has their options, and opens nothing before it is asked.
    paths: as the user wrote them.
    topic: of a directory whose own name does not say it, or None.
    partition: of such a directory, or None.
    topics: which partitions are wanted.
    end_at_high_watermark: whether a log ends there (endAt). None: where it is known.
    """

    storage: Storage
    paths: tuple[str, ...]
    topic: str | None = None
    partition: int | None = None
    topics: TopicSelection = TopicSelection()
    end_at_high_watermark: bool | None = False

    def at(self, paths: tuple[str, ...]) -> Source:
        """Returns the source of every topic under other paths."""
        return self._replace(paths=paths, topics=TopicSelection())

    def in_order(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Returns paths in the order of the source's own that they are under, those of a glob last. Of copies that hold
        offsets equally well, a read takes the first."""
        given = [path.rstrip("/") for path in self.paths]

        def place_of(path: str) -> int:
            places = (at for at, above in enumerate(given) if path == above or path.startswith(f"{above}/"))
            return next(places, len(given))

        return tuple(sorted(paths, key=place_of))

    def to_end_of_files(self) -> Source:
        """Returns the same source without an end at the high watermark."""
        return self._replace(end_at_high_watermark=False)

    def find_roots(self, directories: Iterable[str]) -> list[str]:
        """Returns the directories that nothing is written into: a broker does not start with directories that it does
        not know.

        They are resolved: the paths, the partition `directories`, and the log directories and brokers above these.
        """
        given = {find_real_path(path) for path in self.paths}
        partitions = {find_real_path(directory): directory for directory in directories}
        logs = {find_real_path(parent_of(partitions[real])) for real in partitions.keys() - given}
        roots = given | partitions.keys() | logs
        brokers = {
            above for above in map(parent_of, roots) if exists(join_path(above, "meta.properties"), self.storage)
        }
        return sorted(roots | brokers)
