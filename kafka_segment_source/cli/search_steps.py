"""The steps of a search for a time or an offset, as text for the option `--explain` of `kafkaseg offsets`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table

from kafka_segment_source.cli.shared import count
from kafka_segment_source.inspection.offset_places import Fetch
from kafka_segment_source.planning.offset_search import SearchStep
from kafka_segment_source.storage.paths import name_of
from kafka_segment_source.times import format_millis

Line = tuple[str, str]


def explain_time(steps: Sequence[SearchStep], end: int) -> Table:
    """Explains a search for the first record at or after a time. end: where the log ends under the isolation level."""
    lines = [line for group in _group(steps) for line in _explain(group, by_time=True)]
    batch = steps[-1].found if steps else None
    if batch is not None and batch.offset is not None and batch.offset >= end:
        lines.append(("but", f"the log ends before it, at offset {end}"))
    return _make_table(lines)


def explain_offset(steps: Sequence[SearchStep], fetch: Fetch | None) -> Table:
    """Explains a search for an offset, and where a fetch from there ends."""
    lines = [line for group in _group(steps) for line in _explain(group, by_time=False)]
    if fetch is not None:
        size = fetch.end - fetch.start
        lines.append(("fetch", f"bytes {fetch.start} to {fetch.end} ({count(size, 'byte')})"))
        entry = fetch.upper_entry
        if entry is None:
            lines.append(
                (
                    "upper bound",
                    f"offset {fetch.upper_bound}, where this segment ends: no entry is at or behind byte {fetch.end}",
                )
            )
        else:
            told = f"offset {fetch.upper_bound}, of index entry {entry.slot} (ceiling), which leads to byte {entry.position}"
            lines.append(("upper bound", told))
    return _make_table(lines)


def _group(steps: Sequence[SearchStep]) -> Iterator[list[SearchStep]]:
    """Yields each step that scanned, with those before it that left their segment out."""
    group: list[SearchStep] = []
    for step in steps:
        group.append(step)
        if step.left_out is None:
            yield group
            group = []
    if group:
        yield group


def _explain(group: list[SearchStep], by_time: bool) -> Iterator[Line]:
    *before, step = group
    if step.left_out is not None:
        before.append(step)
    if before:
        last = before[-1]
        yield "left out", f"{count(len(before), 'segment')}, the last of them {name_of(last.path)}: {last.left_out}"
    if step.left_out is not None:
        return
    yield "segment", f"{name_of(step.path)}, {_why(step, by_time)}"
    if by_time:
        entry = step.time_entry
        told = "no entry helps: the scan begins where the segment or the log does"
        if entry is not None:
            told = (
                f"entry {entry.slot}: no record up to offset {entry.offset} is after {format_millis(entry.timestamp)}"
            )
        yield "time index", told
    place = step.offset_entry
    told = "no entry helps: the scan begins at byte 0"
    if place is not None:
        told = f"entry {place.slot} (floor): offset {place.offset}, byte {place.position}"
    yield "offset index", told
    yield "scan", f"bytes {step.start} to {step.scanned_to} ({count(step.scanned_to - step.start, 'byte')})"
    hit = step.found
    if hit is None:
        yield "found", "nothing"
        return
    batch = f"the batch of offsets {hit.base_offset} to {hit.last_offset} at byte {hit.position} ({count(hit.size, 'byte')})"
    if hit.offset is None or hit.timestamp is None:
        yield "found", batch
    else:
        yield "found", f"offset {hit.offset} of {format_millis(hit.timestamp)}, in {batch}"


def _why(step: SearchStep, by_time: bool) -> str:
    if by_time:
        return "the first that may hold such a record"
    until = "" if step.next_base_offset is None else f" (the next one begins at {step.next_base_offset})"
    return f"the last that begins at or before the offset{until}"


def _make_table(lines: Sequence[Line]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, told in lines:
        table.add_row(f"  {name}", told)
    return table
