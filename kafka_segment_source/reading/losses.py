"""Offsets of a partition that no copy holds whole, and the errors that say so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kafka_segment_source import kafka_format
from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.errors import DataError, DataLossError, KafkaSegmentError
from kafka_segment_source.partition.copy_view import CopyView
from kafka_segment_source.partition.survey import Extent

_MOST_NAMED = 20  # ranges of offsets in one sentence


@dataclass(frozen=True, slots=True)
class Lost:
    """Offsets that no copy holds whole.

    error: a DataError if a copy has damage there, a StorageError if a copy cannot be read, else a DataLossError.
    """

    offsets: OffsetRange
    error: KafkaSegmentError


class LossReport:
    """Makes errors for offsets of a partition that no copy holds whole.

    failures: the errors of unreadable files, by path.
    met: the error that started the search, if one did.
    """

    def __init__(
        self,
        partition: str,
        copies: Sequence[CopyView],
        failures: dict[str, KafkaSegmentError],
        met: KafkaSegmentError | None = None,
    ) -> None:
        self._partition = partition
        self._tried = ", ".join(dict.fromkeys(repr(copy.log.directory) for copy in copies))
        self._met = met
        self._failure = next(iter(failures.values()), None)

    def damaged(self, offsets: OffsetRange, extent: Extent) -> Lost:
        """Returns the loss of offsets where a copy has damaged batches."""
        met, error = self._met, extent.error
        assert error is not None
        if isinstance(met, type(error)) and (met.path, met.position) == (error.path, error.position):
            error = met
        what = f"{error.what} (no copy holds the offsets {_name_offsets(offsets)} whole, of {self._tried})"
        return Lost(offsets, self._failure or error.with_what(what))

    def describe_thinned(self, damage: Sequence[tuple[DataError | None, OffsetRange]]) -> str:
        """Returns a sentence about offsets that are read from a copy that was compacted, as another one is damaged
        there. damage: each range of these offsets, and why; at least one."""
        ranges = sorted({offsets for _, offsets in damage})
        named = ", ".join(map(_name_offsets, ranges[:_MOST_NAMED]))
        more = f" and {len(ranges) - _MOST_NAMED:,} more ranges" if len(ranges) > _MOST_NAMED else ""
        return (
            f"offsets {named}{more} of partition {self._partition} are read from a copy that was compacted, as another"
            f" copy is damaged there: records that compaction removed are not returned; the first damage: {damage[0][0]}"
        )

    def missing(self, offsets: OffsetRange) -> Lost:
        """Returns the loss of offsets that are in no copy."""
        where = f"offsets {offsets.start} to {offsets.end - 1} of partition {self._partition}"
        met = self._met if isinstance(self._met, DataLossError) else DataLossError("")
        because = f"; {met.what}" if met.what else ""
        loss = DataLossError(f"{where} are missing: no copy holds them, of {self._tried}{because}", met.remedy)
        return Lost(offsets, self._failure or loss)


def _name_offsets(offsets: OffsetRange) -> str:
    end = "on" if offsets.end == kafka_format.MAX_OFFSET else f"to {offsets.end - 1}"
    return f"{offsets.start} {end}"
