"""The key filters of one partition, as a plan asks them for its keys."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from kafka_segment_source.errors import FileChangedError
from kafka_segment_source.storage.files import UNUSABLE, list_directory
from kafka_segment_source.storage.store import FileVersion, Storage

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from kafka_segment_source.zones.key_filters import KeyQuery
    from kafka_segment_source.zones.zone_table import ZoneTable

Note = Callable[[str, str | None], None]
"""Takes the path of a segment's filters that are missing, or cannot be used, and why."""


@lru_cache(maxsize=8)
def _make_query(keys: frozenset[bytes]) -> KeyQuery:
    """Makes what filters are asked. All partitions of a plan are asked the same."""
    from kafka_segment_source.zones.key_filters import KeyQuery  # noqa: PLC0415  # it loads xxhash

    return KeyQuery(keys)


class KeyFilters:
    """The key filters below a directory, for some keys. Several threads may ask for other segments.

    Of each file, the header is read and what the keys need of the filters. A filter that is missing or damaged leaves
    nothing out, and `note` is told of it.
    """

    def __init__(self, directory: str, storage: Storage, keys: frozenset[bytes], note: Note) -> None:
        self._directory = directory
        self._storage = storage
        self._query = _make_query(keys)
        self._note = note

    @cached_property
    def versions(self) -> dict[str, FileVersion]:
        """The files of the directory, by name. It is listed once."""
        try:
            entries = list_directory(self._directory, self._storage)
        except (FileChangedError, *UNUSABLE) as error:
            self._note(self._directory, str(error))
            return {}
        return {entry.name: entry.version for entry in entries if entry.version is not None}

    def find_holding(self, base_offset: int, zones: ZoneTable) -> npt.NDArray[np.bool_] | None:
        """Returns which zones of a segment may hold a row with one of the keys. None: all."""
        from kafka_segment_source.zones.key_filters import (  # noqa: PLC0415  # it loads xxhash
            filter_path,
            find_holding,
            identify,
        )

        if not zones.shape[1]:
            return None
        path = filter_path(self._directory, base_offset)
        version = self.versions.get(path[len(self._directory) + 1 :])
        if version is None:
            self._note(path, None)
            return None
        try:
            holding, is_whole = find_holding(path, self._storage, version, self._query, identify(zones))
        except FileChangedError:  # another process has written it just now
            self._note(path, None)
            return None
        except ValueError as error:
            self._note(path, str(error))
            return None
        if not is_whole:
            self._note(path, None)
        return holding
