"""Shows summaries as a table, for a terminal of any width."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from kafka_segment_source.cli.shared import count
from kafka_segment_source.inspection.summary import Summary
from kafka_segment_source.times import format_millis

_UNBOUNDED = 10_000  # columns; to measure the width of a table without wrapping
_NOTHING = "–"
_NO_TIMESTAMP = "no timestamp"
_WELL = "ok"


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a table.

    what: what a row is.
    second: the heading of the second column.

    rows: the name, the second column and the summary of each row.
    """

    what: str
    second: str
    rows: list[tuple[str, str, Summary]]


def listing(rows: Rows, sums: Summary, notes: list[str], width: int) -> RenderableType:
    """Makes a line of sums, the rows, and the notes below them, for a terminal of `width` columns."""
    records = (
        f"{_format_bound(sums, sums.records)} {'record' if sums.records == 1 else 'records'}{_format_control(sums)}"
    )
    head = f"{count(sums.segments, 'segment')}, {decimal(sums.size)}, {records}"
    if sums.without_timestamp:
        head += f" ({_format_bound(sums, sums.without_timestamp)} without a timestamp)"
    well = is_well(sums)
    table = _make_wide_table(rows, well)
    fits = Console(width=_UNBOUNDED).measure(table).maximum <= width
    return Group(
        Text(head + (f", indexes {_WELL}" if well else ""), style="bold"),
        *([table if fits else _make_narrow_list(rows, width)] if rows.rows else []),
        *(Text(note, style="yellow") for note in notes),
    )


def is_well(sums: Summary) -> bool:
    """Whether nothing is wrong with the log and its indexes."""
    indexes = sums.indexes
    return not (sums.faults or sums.unreadable or indexes.damaged or indexes.missing or indexes.empty)


def _make_wide_table(rows: Rows, well: bool) -> Table:
    """Makes one line for each row. It has a column for the health only if a row is not well."""

    def cells(second: str, sums: Summary) -> dict[str, str | Text]:
        return {
            **_format_numbers(rows, sums),
            rows.second: second,
            "oldest ≤": _format_time(sums.oldest_at_most),
            "newest": _NO_TIMESTAMP if sums.newest is None and sums.without_timestamp else _format_time(sums.newest),
            "codecs": _format_codecs(sums),
            **({} if well else {"health": _format_health(sums)}),
        }

    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column(rows.what, no_wrap=True)
    for heading in cells("", Summary()):
        is_number = heading in ("segments", "records", "bytes", rows.second)
        table.add_column(heading, justify="right" if is_number else "left", no_wrap=True)
    for name, second, sums in rows.rows:
        table.add_row(name, *cells(second, sums).values())
    return table


def _make_narrow_list(rows: Rows, width: int) -> RenderableType:
    """Makes a line of numbers for each row, and below it lines for the values that do not fit."""
    numbers = [list(_format_numbers(rows, sums).values()) for _, _, sums in rows.rows]
    headings = list(_format_numbers(rows, Summary()))
    widths = [max(map(len, column)) + 2 for column in zip(headings, *numbers, strict=True)]
    room = min(max(len(name) for name in (rows.what, *(row[0] for row in rows.rows))), width - sum(widths))

    def line(name: str, cells: list[str], style: str) -> Text:
        start = name.ljust(room) if len(name) <= room else f"{name}\n{' ' * room}"
        return Text(start + "".join(cell.rjust(size) for cell, size in zip(cells, widths, strict=True)), style=style)

    lines = [line(rows.what, headings, "dim")]
    for (name, second, sums), cells in zip(rows.rows, numbers, strict=True):
        lines.append(line(name, cells, ""))
        lines.append(Text(f"  {rows.second} {second}, codecs {_format_codecs(sums)}", style="dim"))
        if sums.newest is not None:
            lines.append(
                Text(f"  oldest ≤ {_format_time(sums.oldest_at_most)}, newest {_format_time(sums.newest)}", style="dim")
            )
        elif sums.without_timestamp:
            lines.append(Text(f"  {_NO_TIMESTAMP}", style="dim"))
        health = _format_health(sums)
        if str(health) != _WELL:
            lines.append(Text.assemble("  ", health))
    return Group(*lines)


def _format_numbers(rows: Rows, sums: Summary) -> dict[str, str]:
    """Formats the numbers of a row, by their headings."""
    segments = {} if rows.what == "segment" else {"segments": f"{sums.segments:,}"}
    return {
        **segments,
        "records": _format_bound(sums, sums.records) + _format_control(sums),
        "bytes": decimal(sums.size),
    }


def offsets_text(sums: Summary) -> str:
    """Formats the first and the last offset; only the first one where there are no batches, none if none is known."""
    if sums.unreadable and not sums.segments:
        return _NOTHING
    return f"{sums.start_offset} – {sums.end_offset - 1}" if sums.batches else f"from {sums.start_offset}"


def _format_bound(sums: Summary, records: int) -> str:
    """Formats a number of records, as a bound if the headers do not tell it exactly, or not all can be read."""
    return f"{'' if sums.records_exact else '≥ ' if sums.unreadable else '≤ '}{records:,}"


def _format_control(sums: Summary) -> str:
    return f" + {sums.control_records:,} control" if sums.control_records else ""


def _format_codecs(sums: Summary) -> str:
    return ", ".join(sums.codecs) or _NOTHING


def _format_health(sums: Summary) -> Text:
    """Describes the faults of the log and its indexes. The worst fault decides the colour."""
    counts = {"damaged": sums.indexes.damaged, "missing": sums.indexes.missing, "empty": sums.indexes.empty}
    indexes = ", ".join(f"{number:,} {how}" for how, number in counts.items() if number)
    said = (
        ["log damaged"] * (len(sums.faults) > sums.unreadable)
        + ["log unreadable"] * bool(sums.unreadable)
        + [f"indexes: {indexes}"] * bool(indexes)
    )
    style = "red" if sums.faults or sums.indexes.damaged else "yellow" if indexes else ""
    return Text("; ".join(said) or _WELL, style=style)


def _format_time(timestamp: int | None) -> str:
    return _NOTHING if timestamp is None else format_millis(timestamp)
