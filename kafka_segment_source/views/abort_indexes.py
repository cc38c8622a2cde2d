"""What the `.txnindex` files of a log say of its aborted transactions, against what the log says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kafka_segment_source import kafka_format
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.logdir.indexes import AbortEntries, written_aborts
from kafka_segment_source.reporting import logger
from kafka_segment_source.storage.files import file_version, list_directory
from kafka_segment_source.storage.paths import name_of, parent_of
from kafka_segment_source.storage.retrying import try_again
from kafka_segment_source.views.transaction_replay import Abort, Replay
from kafka_segment_source.views.transaction_table import TransactionTask


@dataclass(slots=True)
class AbortIndexes:
    """Compares the `.txnindex` files with the log, where they are there. The rows come from the log alone.

    sizes: bytes of the files by path, for each directory that was listed.
    """

    task: TransactionTask
    sizes: dict[str, dict[str, int]] = field(default_factory=dict)

    def compare(self, split: SegmentSplit, replay: Replay) -> None:
        """Compares the file of one segment with the aborts that the log has there. Logs a contradiction."""
        aborts, replay.aborts = replay.aborts, {}
        if replay.has_hole:
            return  # a marker, or the beginning of a transaction, may be in the hole
        path = split.path.removesuffix(kafka_format.LOG_SUFFIX) + kafka_format.TRANSACTION_INDEX_SUFFIX
        size = self._list_sizes(parent_of(path), split).get(name_of(path))
        if size is None:
            return
        wrong = [*self._find_wrong(written_aborts(path, split.storage, size), aborts, split, replay.reached)]
        if wrong and self._is_as_listed(split):
            more = f" (and {len(wrong) - 1:,} more contradictions)" if len(wrong) > 1 else ""
            logger.warning(
                "%r contradicts the log: it %s%s; the rows go by the markers in the log, but a broker tells its"
                " read_committed consumers which records to leave out by this file",
                path,
                wrong[0],
                more,
            )

    def _find_wrong(
        self, index: AbortEntries, found: dict[int, Abort], split: SegmentSplit, reached: int
    ) -> Iterator[str]:
        """Yields what an index says and the log does not, or the log and not the index, as parts of a sentence."""
        if index.fault is not None:
            return
        listed = set()
        columns = (index.producer_ids, index.first_offsets, index.last_offsets)
        for producer, first, last in zip(*(column.tolist() for column in columns), strict=True):
            if not split.start_offset <= last < min(reached, split.bounds.offsets.end):
                continue  # another copy's, or written since
            listed.add(last)
            abort = found.get(last)
            if abort is None or abort.producer_id != producer:
                if not self.task.compacted:
                    yield f"lists an abort of producer {producer} at offset {last}, where the log has none"
            elif first >= self.task.splits[0].base_offset and self._differs(first, abort.first_offset):
                begins = "has no data of it" if abort.first_offset is None else f"has it from {abort.first_offset} on"
                yield f"lists an abort of producer {producer} from offset {first} to {last}, but the log {begins}"
        for last, abort in found.items():
            if last not in listed and abort.first_offset is not None:
                yield f"lacks the abort of producer {abort.producer_id} from offset {abort.first_offset} to {last}"

    def _is_as_listed(self, split: SegmentSplit) -> bool:
        """Whether the `.log` is still the one that was walked. A cleaner replaces the index together with it."""
        version = file_version(split.path, split.storage)
        return version is not None and version.is_same_file(split.version)

    def _differs(self, listed: int, found: int | None) -> bool:
        """Whether the first offset in the index contradicts the log. Compaction removes aborted records."""
        if self.task.compacted:
            return found is not None and found < listed
        return found != listed

    def _list_sizes(self, directory: str, split: SegmentSplit) -> dict[str, int]:
        """Lists the `.txnindex` files of a directory once."""
        if directory not in self.sizes:
            entries = try_again(lambda: list_directory(directory, split.storage))
            self.sizes[directory] = {
                entry.name: entry.size
                for entry in entries
                if entry.name.endswith(kafka_format.TRANSACTION_INDEX_SUFFIX)
            }
        return self.sizes[directory]
