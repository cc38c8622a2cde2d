"""Which transactions are open, as the producers of a log are followed from their data to their markers.

It opens no file and knows no option. Events go in, in the order of offsets: data of a transaction, a marker, missing
offsets. What each changes comes out (Kafka: ProducerStateManager, ProducerAppendInfo).

A marker belongs to its producer id alone, because its epoch may be one above that of its data
(`transaction.version=2`). It ends what is open of its producer. If nothing is open, it ends nothing.

Nothing is guessed across missing offsets: the markers of all that is open before them may have been there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from kafka_segment_source.decoding.header_table import is_transactional_data
from kafka_segment_source.kernels import batch_headers
from kafka_segment_source.kernels.batch_headers import HeaderTable
from kafka_segment_source.transactions.markers import Marker

HOLE, DATA, MARKER = range(3)
Event = tuple[int, int, int]
"""An offset, one of HOLE, DATA and MARKER, and the producer id. A hole comes before the offset, and has none: 0."""


class Producers:
    """The open transactions of a log. open: producer id → first offset."""

    def __init__(self, first_offsets: Mapping[int, int]) -> None:
        self.open = dict(first_offsets)

    def take_data(self, producer_id: int, offset: int) -> bool:
        """Takes data of a transaction. Returns whether it begins one."""
        begins = producer_id not in self.open
        if begins:
            self.open[producer_id] = offset
        return begins

    def take_marker(self, producer_id: int) -> int | None:
        """Takes a marker. Returns the first offset of the transaction that it ends. None if it ends nothing."""
        return self.open.pop(producer_id, None)

    def take_hole(self, offset: int) -> dict[int, int]:
        """Takes missing offsets, which begin at `offset`. Returns what was open before them: its end is not known."""
        before = {producer_id: first for producer_id, first in self.open.items() if first < offset}
        for producer_id in before:
            del self.open[producer_id]
        return before


class Runs:
    """The data of transactions among some batches, as runs.

    A run is batches of one producer with no other producer's, no marker and no hole between them.

    columns: the columns of the header table that hold such data, int64[n].
    starts: where each run begins among the columns, int64[runs].
    """

    def __init__(self, headers: HeaderTable, markers: Iterable[Marker], holes: Iterable[int]) -> None:
        self.columns = np.flatnonzero(is_transactional_data(headers))
        self._bases, self._producers = headers[[batch_headers.BASE_OFFSET, batch_headers.PRODUCER_ID]][:, self.columns]
        edges = np.sort(np.array([*(marker.offset for marker in markers), *holes], np.int64))
        slots = np.searchsorted(edges, self._bases, side="right")
        differs = (np.diff(self._producers) != 0) | (np.diff(slots) != 0)
        first = np.ones(min(len(self.columns), 1), np.bool_)
        self.starts: npt.NDArray[np.int64] = np.flatnonzero(np.concatenate((first, differs)))

    def events(self) -> Iterator[Event]:
        """Yields an event for each run."""
        for offset, producer_id in zip(
            self._bases[self.starts].tolist(), self._producers[self.starts].tolist(), strict=True
        ):
            yield offset, DATA, producer_id


def list_events(runs: Runs, markers: Iterable[Marker], holes: Iterable[int]) -> list[Event]:
    """Lists what happens to the producers of a log among some batches, in the order of offsets."""
    events = [(hole, HOLE, 0) for hole in holes]
    events += runs.events()
    events += [(marker.offset, MARKER, marker.producer_id) for marker in markers]
    return sorted(events)
