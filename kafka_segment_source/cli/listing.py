"""Summaries as a table, for a terminal of any width, and as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from kafka_segment_source.catalog import PartitionLog
from kafka_segment_source.cli.shared import count
from kafka_segment_source.inspection.summary import Summary
from kafka_segment_source.times import format_millis

Listed = dict[PartitionLog, tuple[list[Summary], Summary]]
"""Each partition with its segments, in order, and their sum."""

_UNBOUNDED = 10_000  # columns; to measure how wide a table would like to be
_NOTHING = "–"


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows to list: a name, a text for the second column, a summary; and the headings of the first two."""

    name: str
    second: str
    rows: list[tuple[str, str, Summary]]


def listing(rows: Rows, sums: Summary, width: int) -> RenderableType:
    """Rows as a table below a line of sums, for a terminal `width` columns wide."""
    head = f"{count(sums.segments, 'segment')}, {decimal(sums.size)}, {_records(sums)} records{_control(sums)}"
    table = _wide(rows)
    if Console(width=_UNBOUNDED).measure(table).maximum > width:
        table = _narrow(rows)
    return Group(Text(head, style="bold"), table)


def listing_json(listed: Listed) -> dict[str, Any]:
    """What `kafkaseg ls --json` prints: partitions, each with its segments."""
    return {
        "partitions": [
            {
                "topic": log.topic,
                "partition": log.partition,
                "directory": log.directory,
                **_json(sums),
                "segments": [
                    {"path": segment.path, **_json(each)} for segment, each in zip(log.segments, segments, strict=True)
                ],
            }
            for log, (segments, sums) in listed.items()
        ]
    }


def _json(sums: Summary) -> dict[str, Any]:
    return {
        "startOffset": sums.start_offset,
        "endOffset": sums.end_offset,
        "records": sums.records,
        "recordsExact": sums.records_exact,
        "controlRecords": sums.control_records,
        "batches": sums.batches,
        "bytes": sums.size,
        "oldestTimestampAtMost": _time(sums.oldest_at_most),
        "newestTimestamp": _time(sums.newest),
        "codecs": list(sums.codecs),
        "magics": list(sums.magics),
        "indexFiles": {
            "missing": sums.indexes.missing,
            "empty": sums.indexes.empty,
            "damaged": sums.indexes.damaged,
        },
        "damage": list(sums.faults),
    }


def _wide(rows: Rows) -> Table:
    table = _table(rows, "segments", rows.second, "records", "bytes")
    for name in ("oldest ≤", "newest"):
        table.add_column(name, no_wrap=True)
    table.add_column("codecs")
    table.add_column("indexes")
    for name, second, sums in rows.rows:
        table.add_row(
            name,
            f"{sums.segments:,}",
            second,
            _records(sums) + _control(sums),
            decimal(sums.size),
            _time(sums.oldest_at_most) or _NOTHING,
            _time(sums.newest) or _NOTHING,
            _codecs(sums),
            _health(sums),
        )
    return table


def _narrow(rows: Rows) -> Table:
    """The columns that do not fit stand below the name."""
    table = _table(rows, "segments", "records", "bytes")
    table.add_column("indexes")
    for name, second, sums in rows.rows:
        control = f", {sums.control_records:,} control records" if sums.control_records else ""
        below = [f"{rows.second} {second}{control}", f"codecs {_codecs(sums)}"]
        if sums.newest is not None:
            below += [f"oldest ≤ {_time(sums.oldest_at_most)}", f"newest   {_time(sums.newest)}"]
        cell = Text(name)
        cell.append("".join(f"\n  {line}" for line in below), style="dim")
        table.add_row(cell, f"{sums.segments:,}", _records(sums), decimal(sums.size), _health(sums))
    return table


def _table(rows: Rows, *numbers: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column(rows.name, overflow="fold")
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def offsets_text(sums: Summary) -> str:
    """First and last offset, as far as batches tell."""
    return f"{sums.start_offset:,} – {sums.end_offset - 1:,}" if sums.batches else f"from {sums.start_offset:,}"


def _records(sums: Summary) -> str:
    return f"{'' if sums.records_exact else '≤ '}{sums.records:,}"


def _control(sums: Summary) -> str:
    return f" + {sums.control_records:,} control" if sums.control_records else ""


def _codecs(sums: Summary) -> str:
    return ", ".join(sums.codecs) or _NOTHING


def _health(sums: Summary) -> Text:
    indexes = sums.indexes
    said = {"damaged": indexes.damaged, "missing": indexes.missing, "empty": indexes.empty}
    text = Text(", ".join(f"{count:,} {how}" for how, count in said.items() if count) or "ok")
    text.stylize("red" if indexes.damaged else "yellow" if len(text) > len("ok") else "")
    if sums.faults:
        text.append(f"\nlog damaged: {sums.faults[0]}", style="red")
    return text


def _time(timestamp: int | None) -> str | None:
    return None if timestamp is None else format_millis(timestamp)
