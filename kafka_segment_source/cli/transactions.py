"""`kafkaseg transactions`: prints the transactions of each partition, with what the open ones withhold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rich.filesize import decimal

from kafka_segment_source.cli.view_tables import Choice, Row, Shown, columns_of, make_view_command
from kafka_segment_source.option_values import TRANSACTIONS
from kafka_segment_source.views.transaction_table import OPEN, STATES

_MOST_NAMED = 5  # open transactions below the table
_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000


def format_duration(millis: int | None) -> str | None:
    """Formats a duration in its two largest units: 850 ms, 12.3 s, 4 min 5 s, 3 h 20 min, 12 d 4 h."""
    if millis is None:
        return None
    sign, size = ("-", -millis) if millis < 0 else ("", millis)
    if size < _SECOND:
        return f"{sign}{size} ms"
    if size < _MINUTE:
        return f"{sign}{size / _SECOND:.1f} s"
    if size < _HOUR:
        return f"{sign}{size // _MINUTE} min {size % _MINUTE // _SECOND} s"
    if size < _DAY:
        return f"{sign}{size // _HOUR} h {size % _HOUR // _MINUTE} min"
    return f"{sign}{size // _DAY} d {size % _DAY // _HOUR} h"


def _withholds(row: Row) -> str | None:
    size = row["withheldBytes"]
    return None if size is None else decimal(size)


class _Sums:
    """Counts the transactions of each state, and finds the open ones that began first."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._open: list[Row] = []

    def add(self, row: Row) -> None:
        """Counts a row."""
        self._counts[row["state"]] += 1
        if row["state"] == OPEN:
            self._open = sorted([*self._open, row], key=lambda row: -row["withheldBytes"])[:_MOST_NAMED]

    def lines(self) -> Iterator[str]:
        """Yields the counts, and a line for each open transaction, those that withhold most first."""
        yield ", ".join(f"{self._counts[state]:,} {state}" for state in STATES if self._counts[state])
        for row in self._open:
            since = f" ({row['firstTimestamp']})" if row["firstTimestamp"] else ""
            yield (
                f"open in {row['topic']}-{row['partition']}: producer {row['producerId']} since offset"
                f" {row['firstOffset']}{since}"
            )
            yield f"  withholds {row['withheldRecords']:,} records, {_withholds(row)}"


transactions_command = make_view_command(
    "transactions",
    TRANSACTIONS,
    Shown(
        lambda row: f"{row['topic']}-{row['partition']}",
        columns_of("state", "producerId", "firstOffset", "lastOffset", "records")
        | {"lasted": lambda row: format_duration(row["durationMs"]), "withholds": _withholds}
        | columns_of("firstTimestamp", "batches", "bytes", "producerEpoch", "coordinatorEpoch", "lastTimestamp"),
        _Sums,
    ),
    "The transactions in a log: committed, aborted, open.",
    """Print the transactions of each partition: those that ended by their markers, then those that are open.

    An open transaction withholds from consumers of read_committed all that follows its first offset. The state
    unknown means that damage or missing offsets may hold its marker. docs/views.md says what each column is.
    Exits with 1 if damage was left out or offsets are lost, or if a .txnindex file contradicts the log. With
    --fail-on-data-loss true it ends at the first loss.

    \b
    kafkaseg transactions /var/kafka-logs --subscribe orders
    kafkaseg transactions /var/kafka-logs --state open --state unknown
    kafkaseg transactions /var/kafka-logs --json
    kafkaseg transactions /var/kafka-logs --format parquet --output found.parquet
    """,
    choice=Choice("state", STATES),
)
