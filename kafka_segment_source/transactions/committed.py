"""Selects the committed batches of a split (isolationLevel=read_committed). It runs on executors.

The next ABORT or COMMIT marker of producer p decides about a transactional batch of p. The producer id alone counts,
because a marker's epoch may be one above that of its data (`transaction.version=2`).

`committed_chunks` takes a split's chunks. It returns them without the batches that a read_committed consumer does not
get. It learns markers from the chunks themselves. If a producer's marker is not in the chunk, a second reader goes
ahead. It reads later segments too, up to the marker and no further. A chunk without a transactional batch costs
nothing.

A row is returned only if its COMMIT was read. So batches without a known marker are withheld, in two cases:

- Damage lies between a batch and the next marker of its producer (mode=DROPMALFORMED). It may have hit the marker, and
  the next one may belong to a later transaction. The batch is withheld. A warning names producer, offset and file.
- The log has no further marker of the producer, although the transaction ended before the last stable offset. So a
  segment is missing: DataLossError. Under failOnDataLoss=false the batch is withheld with such a warning.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Generator, Iterable, Iterator

import numpy as np
import numpy.typing as npt

from kafka_segment_source import kafka_format
from kafka_segment_source.data_loss import allow_loss
from kafka_segment_source.decoding.batches import Chunk
from kafka_segment_source.decoding.damage import UnloggedDamage
from kafka_segment_source.decoding.header_table import Mask, is_transactional_data
from kafka_segment_source.decoding.split_file import SplitFile
from kafka_segment_source.errors import DataLossError
from kafka_segment_source.kernels import batch_headers
from kafka_segment_source.kernels.batch_headers import HeaderTable
from kafka_segment_source.reporting import logger
from kafka_segment_source.source import Source
from kafka_segment_source.transactions.markers import Marker, MarkerReader
from kafka_segment_source.transactions.stretches import Stretch, cut_stretch
from kafka_segment_source.transactions.walk import walk_after
from kafka_segment_source.trust import Policy

# Fates of a transactional batch
OPEN = 0  # no marker was read yet
COMMITTED = 1
ABORTED = 2
UNKNOWN = 3  # its marker may have been lost

Fates = npt.NDArray[np.int8]


def committed_chunks(chunks: Iterator[Chunk], file: SplitFile, source: Source, policy: Policy) -> Iterator[Chunk]:
    """Yields the chunks of `file` without batches whose transaction was aborted or is not known to be committed.

    Control batches stay. The plan's bounds end at the last stable offset, so rows after it are no concern here. Raises
    DataLossError if a transaction has no marker at all. Reading ahead may raise its errors too.
    """
    transactions = _SplitTransactions(file, source, policy)
    try:
        for chunk in chunks:
            yield transactions.committed(chunk)
    finally:
        transactions.close()


class _SplitTransactions:
    """Decides about one split's chunks in order. It knows the markers of the current chunk and of the batches read
    ahead."""

    def __init__(self, file: SplitFile, source: Source, policy: Policy) -> None:
        self._file = file
        self._split = file.split
        self._source = source
        self._policy = policy
        self._own = MarkerReader(file.split, policy.trust, UnloggedDamage(policy.drop_malformed))
        self._known = _KnownMarkers()
        self._known_to = 0  # every marker below this offset, from the chunk at hand on, is known
        self._lost_places = file.split.lost_places
        self._ahead: Generator[Stretch, None, None] | None = None
        self._loss: DataLossError | None = None  # the offsets that end the reading ahead
        self._reported: set[int] = set()

    def committed(self, chunk: Chunk) -> Chunk:
        """Returns the chunk without the batches that must be withheld."""
        data = is_transactional_data(chunk.headers) & self._find_wanted(chunk.headers)
        if not data.any():
            return chunk
        self._learn_markers(chunk)
        batches = chunk.headers[:, data]
        fates = self._known.fates(batches)
        undecided = fates == OPEN
        looks_ahead = bool(undecided.any())
        while undecided.any() and self._look_ahead(chunk):
            fates[undecided] = self._known.fates(batches[:, undecided])
            undecided = fates == OPEN
        if looks_ahead:
            # A cleaner removes a marker only after the records of its transaction. If these batches are still in the
            # log now, the markers that were read ahead are theirs.
            self._file.confirm()
        for fate in (OPEN, UNKNOWN):
            self._report_withheld(batches[:, fates == fate], fate)
        keep = ~data
        keep[data] = fates == COMMITTED
        return Chunk(chunk.data, chunk.headers[:, keep], chunk.position)

    def _find_wanted(self, headers: HeaderTable) -> Mask:
        """Returns which batches may hold offsets of the split. Nothing is asked about the others."""
        offsets = self._split.bounds.offsets
        after_start = headers[batch_headers.LAST_OFFSET] >= offsets.start
        return np.asarray(after_start & (headers[batch_headers.BASE_OFFSET] < offsets.end))

    def close(self) -> None:
        """Closes the file that is read ahead."""
        if self._ahead is not None:
            self._ahead.close()
        self._ahead = self._loss = None

    def _learn_markers(self, chunk: Chunk) -> None:
        first, last = (
            int(chunk.headers[batch_headers.BASE_OFFSET, 0]),
            int(chunk.headers[batch_headers.LAST_OFFSET, -1]),
        )
        if self._known_to <= first:
            self._known = _KnownMarkers()
        if self._known_to <= last:
            markers = self._own.read(chunk)
            self._known.add(markers.markers, markers.gaps, self._known_to)
            self._known_to = last + 1
            self.close()

    def _look_ahead(self, chunk: Chunk) -> bool:
        """Learns the markers of the next stretch ahead of the chunk. Returns False at the end of the log, and where
        offsets are missing."""
        if self._loss is not None:
            return False
        if self._ahead is None:
            self._ahead = walk_after(self._split, chunk, self._source, self._policy)
        stretch = next(self._ahead, None)
        if stretch is None:
            return False
        if stretch.loss is not None:
            self._loss = stretch.loss
            return False
        place = next((place for place in self._lost_places if place >= self._known_to), kafka_format.MAX_OFFSET)
        if stretch.headers.shape[1] and stretch.headers[batch_headers.LAST_OFFSET, -1] >= place:
            self._loss = DataLossError(f"no file holds the offsets from {place} on")
            stretch, _ = cut_stretch(stretch, place)
        self._known.add(stretch.markers, stretch.gaps, self._known_to)
        if stretch.headers.shape[1]:
            self._known_to = max(self._known_to, int(stretch.headers[batch_headers.LAST_OFFSET, -1]) + 1)
        return True

    def _report_withheld(self, batches: HeaderTable, fate: int) -> None:
        """Handles batches that are withheld because their marker was not found: raises, or warns once for each
        producer."""
        for producer_id in np.unique(batches[batch_headers.PRODUCER_ID]).tolist():
            first = int(batches[batch_headers.BASE_OFFSET, batches[batch_headers.PRODUCER_ID] == producer_id].min())
            whose = f"the transaction of producer {producer_id} around offset {first} in {self._split.path}"
            if fate == OPEN:
                why = (
                    "a segment is missing, or files have come back since the read was planned or its micro-batch began,"
                    " and the transaction is open: then start again once it has ended"
                    if self._loss is None
                    else "offsets after it are missing"
                )
                error = DataLossError(
                    f"{whose} has no marker in the files: {why}; failOnDataLoss=false withholds what cannot be shown to be"
                    f" committed{'' if self._loss is None else f'; {self._loss}'}"
                )
                allow_loss(error, self._policy)
            if producer_id not in self._reported:
                self._reported.add(producer_id)
                why = "no marker in the files" if fate == OPEN else "no marker before the next damage"
                logger.warning("withheld (isolationLevel=read_committed): %s has %s", whose, why)


class _KnownMarkers:
    """Markers by producer, in offset order. Of equal markers in a row only the last is kept."""

    def __init__(self) -> None:
        self._runs: dict[int, tuple[list[int], list[int]]] = {}  # producer id → offsets, fates
        self._gaps: list[int] = []

    def add(self, markers: Iterable[Marker], gaps: Iterable[int], least: int) -> None:
        """Adds the gaps, and the markers at offsets ≥ `least`. Those below are known already."""
        for gap in gaps:
            insort(self._gaps, gap)
        for marker in markers:
            if marker.offset >= least:
                self._add_marker(marker)

    def _add_marker(self, marker: Marker) -> None:
        offsets, fates = self._runs.setdefault(marker.producer_id, ([], []))
        fate = ABORTED if marker.aborts else COMMITTED
        gap_between = bool(self._gaps) and bool(offsets) and self._gaps[-1] > offsets[-1]
        if offsets and fates[-1] == fate and not gap_between:
            offsets[-1] = marker.offset
        else:
            offsets.append(marker.offset)
            fates.append(fate)

    def fates(self, batches: HeaderTable) -> Fates:
        """Returns the fate of each transactional batch by its next marker."""
        producers, offsets = batches[batch_headers.PRODUCER_ID], batches[batch_headers.BASE_OFFSET]
        fates = np.zeros(len(producers), np.int8)
        next_marker = np.full(len(producers), kafka_format.MAX_OFFSET)
        order = np.argsort(producers, kind="stable")
        starts = np.flatnonzero(np.diff(producers[order], prepend=kafka_format.NO_PRODUCER))
        for own in np.split(order, starts[1:]):
            run_offsets, run_fates = self._runs.get(int(producers[own[0]]), ((), ())) if len(own) else ((), ())
            slots = np.searchsorted(np.array(run_offsets, np.int64), offsets[own], side="right")
            decided = slots < len(run_offsets)
            fates[own[decided]] = np.array(run_fates, np.int8)[slots[decided]]
            next_marker[own[decided]] = np.array(run_offsets, np.int64)[slots[decided]]
        next_gap = np.append(np.array(self._gaps, np.int64), kafka_format.MAX_OFFSET)[
            np.searchsorted(np.array(self._gaps, np.int64), offsets, side="right")
        ]
        fates[(next_gap < kafka_format.MAX_OFFSET) & (next_gap <= next_marker)] = UNKNOWN
        return fates
