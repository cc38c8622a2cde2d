"""Says which rows transactions withhold from a read with read_committed, and why. It runs on the driver.

Comes in: a log, and the transactions that are open at its end (`open_transactions.py`). Goes out: one sentence.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafka_segment_source.logdir.segment_view import find_header
from kafka_segment_source.logdir.segments import PartitionLog
from kafka_segment_source.reporting import name_some
from kafka_segment_source.times import format_millis
from kafka_segment_source.trust import Trust

_MOST_NAMED = 5  # open transactions in one warning


def describe_withheld(
    log: PartitionLog, waiting: Mapping[int, int], missing: int | None, stable: int, end: int, trust: Trust
) -> str:
    """One sentence about the open transactions and the rows that they withhold.

    waiting: the first offset of each transaction, by producer id. missing: the first of the offsets that are missing.
    stable: the last stable offset. end: the offset up to which the scan was wanted (exclusive).
    """
    if missing is None:
        advice = (
            f"one that stays open for long is hanging, and kafka-transactions.sh abort --topic {log.topic} --partition"
            f" {log.partition} --start-offset {stable} on the brokers ends it"
        )
    else:
        advice = f"as offsets from {missing} on are missing, they may have begun before"
    return (
        f"partition {log.topic}-{log.partition} ends at its last stable offset, {stable} (isolationLevel=read_committed):"
        f" {_count_bytes_from(log, stable, end, trust):,} bytes from there on are withheld, as transactions are open of"
        f" {_name_transactions(log, [*waiting.items()], trust)}; {advice}"
    )


def describe_undecided(log: PartitionLog, undecided: list[tuple[int, int]], missing: int | None, trust: Trust) -> str:
    """One sentence about the transactions that may have ended in missing offsets."""
    return (
        f"partition {log.topic}-{log.partition}: it is not known how the transactions of"
        f" {_name_transactions(log, undecided, trust)} ended, as offsets from {missing} on are missing"
        " (isolationLevel=read_committed); their rows are lost, and failOnDataLoss=false withholds them"
    )


def _name_transactions(log: PartitionLog, transactions: list[tuple[int, int]], trust: Trust) -> str:
    """Names transactions by producer id and first offset, the oldest first."""

    def name(transaction: tuple[int, int]) -> str:
        producer_id, first = transaction
        return f"producer {producer_id} since offset {first} ({_describe_begin(log, first, trust)})"

    return name_some(sorted(transactions, key=lambda transaction: transaction[1]), _MOST_NAMED, name)


def _describe_begin(log: PartitionLog, first: int, trust: Trust) -> str:
    """When a transaction began: the timestamp of its first record, as in view=transactions."""
    holding = [segment for segment in log.segments if segment.base_offset <= first]
    header = find_header(holding[-1], first, trust) if holding else None
    return "before the files begin" if header is None else format_millis(header.first_timestamp)


def _count_bytes_from(log: PartitionLog, stable: int, end: int, trust: Trust) -> int:
    """Counts the bytes of the log from the offset `stable`, to the end of the segment before or at `end`."""
    total = 0
    for segment in log.segments:
        if segment.base_offset >= end or segment.span.end <= stable:
            continue
        header = find_header(segment, stable, trust) if segment.base_offset < stable else None
        total += segment.size - (0 if header is None else header.position)
    return total
