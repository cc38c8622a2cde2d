"""`kafkaseg groups`: prints the offsets that consumer groups have committed, and how far behind they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kafka_segment_source.cli.view_tables import Row, Shown, columns_of, make_view_command
from kafka_segment_source.option_values import CONSUMER_OFFSETS

_MOST_NAMED = 5  # groups below the table


def _title(row: Row) -> str:
    kind = row.get("groupType")  # a history does not say it
    return f"{row['group']} ({kind})" if kind else str(row["group"])


class _Lags:
    """Adds up the lag of each group, as far as it is known."""

    def __init__(self) -> None:
        self._lags: Counter[str] = Counter()

    def add(self, row: Row) -> None:
        """Adds the lag of a row."""
        self._lags[row["group"]] += row.get("lag") or 0  # a history has no lag

    def lines(self) -> Iterator[str]:
        """Yields a line for each of the groups that are furthest behind."""
        for group, lag in self._lags.most_common(_MOST_NAMED):
            if lag > 0:
                yield f"behind: {group} by {lag:,} offsets"


groups_command = make_view_command(
    "groups",
    CONSUMER_OFFSETS,
    Shown(
        _title,
        {"partition": lambda row: f"{row['topic']}-{row['partition']}"}
        | columns_of("offset", "lag", "commitTimestamp", "logEndOffset", "leaderEpoch", "metadata", "expireTimestamp"),
        _Lags,
    ),
    "Consumer groups: committed offsets and lag.",
    """Print the offsets that consumer groups have committed, with the lag where the topic is under the path too.

    They are those of __consumer_offsets at the end of the files, or as of --until. docs/views.md says what each
    column is. Exits with 1 if damage was left out (--mode DROPMALFORMED).

    \b
    kafkaseg groups /var/kafka-logs
    kafkaseg groups /var/kafka-logs --until 2026-03-10T09:30 --json
    """,
    only_damage_counts=True,
)
