"""Shows a plan as a table, for a terminal of any width and for a notebook.

This module takes rows and sentences. It does not know the class ReadPlan.
"""

from __future__ import annotations

import io
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from itertools import groupby
from typing import NamedTuple

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.filesize import decimal
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kafka_segment_source.reporting import first_of_each_kind
from kafka_segment_source.storage.paths import join_name, name_apart, name_of, parent_of

_MOST_ROWS = 40
_MANY_ROWS = 200  # of more rows, the reasons are counted
_MOST_REASONS = 8
_MANY_WARNINGS = 20
_LEAST_DETAIL = 25  # columns; enough for a byte range, so that only reasons are wrapped
_DETAIL = "bytes, or why not"
_NOTEBOOK_WIDTH = 140


class Row(NamedTuple):
    """One split, or one segment that is not read.

    detail: its byte range, or why it is not read.
    kind: why it is not read, in words that are the same for each segment.
    """

    path: str
    is_read: bool
    detail: str
    kind: str = ""


def sums_line(segments: tuple[int, int], sizes: tuple[int, int], saved: tuple[int, int], requests: int = 0) -> str:
    """The sums of a plan in one line.

    segments, sizes (bytes): first those that are read, then all. saved: bytes that zone maps leave out, and
    those of them that key filters alone leave out.
    requests: what planning has asked of object stores.
    """
    read, total = sizes
    share = 100 * read / total if total else 0.0
    noun = "segment" if segments[1] == 1 else "segments"
    sums = f"reads {segments[0]:,} of {segments[1]:,} {noun}, {decimal(read)} of {decimal(total)} ({share:.1f} %)"
    by_maps, by_keys = saved
    if by_maps:
        means = "key filters" if by_keys == by_maps else "zone maps"
        of_keys = f", {decimal(by_keys)} of it by key filters" if 0 < by_keys < by_maps else ""
        sums = f"{sums}, {decimal(by_maps)} less by {means}{of_keys}"
    return f"{sums}, planned by {requests:,} requests" if requests else sums


def as_table(sums: str, rows: Sequence[Row], warnings: Iterable[str]) -> RenderableType:
    """Makes a line of sums, a line for each row, and the warnings.

    Rows that are read come first. Both kinds are sorted by partition, log directory and offset, numbers by their value.
    Of many rows, a line for each reason comes before them, with the number of segments that it leaves out.
    """
    keys = {directory: _make_sort_key(directory) for directory in {parent_of(row.path) for row in rows}}
    first = nsmallest(_MOST_ROWS, rows, lambda row: (not row.is_read, keys[parent_of(row.path)], name_of(row.path)))
    parts: list[RenderableType] = [Text(sums, style="bold")]
    if len(rows) > _MANY_ROWS:
        parts += [Text(line) for line in _count_reasons(rows)]
    parts.append(_Rows(first, _name_directories(keys)))
    if len(rows) > _MOST_ROWS:
        read = sum(row.is_read for row in rows) - sum(row.is_read for row in first)
        said = f", of which {read:,} {'is' if read == 1 else 'are'} read" if read else ""
        parts.append(Text(f"… and {len(rows) - _MOST_ROWS:,} more{said}", style="dim"))
    return Group(*parts, *_as_lines(warnings))


def as_lines(sums: str, warnings: Iterable[str]) -> RenderableType:
    """Makes a line of sums and the warnings, for a plan that has no rows."""
    return Group(Text(sums, style="bold"), *_as_lines(warnings))


def _as_lines(warnings: Iterable[str]) -> list[Text]:
    return [Text(f"warning: {warning}", style="yellow") for warning in _shorten_warnings(list(warnings))]


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows as one table. If names leave no room for the details, they have lines of their own.

    names: of the partition directories, by their paths.
    """

    rows: Sequence[Row]
    names: Mapping[str, str]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        labels = [f"{self.names[parent_of(row.path)]}/{_base_offset(row.path)}" for row in self.rows]
        details = max((len(row.detail) for row in self.rows), default=0)
        room = options.max_width - len("  yes   ") - max(map(len, labels), default=0)
        if room >= min(details, _LEAST_DETAIL):
            yield self._make_table(self.rows, labels, "segment")
            return
        width = max(len("segment"), *(len(_base_offset(row.path)) for row in self.rows))
        yield Text(f"  {'segment'.ljust(width)}  read  {_DETAIL}", style="dim")
        for directory, group in groupby(self.rows, key=lambda row: parent_of(row.path)):
            rows = list(group)
            yield Text(self.names[directory], overflow="fold", style="" if rows[0].is_read else "dim")
            table = self._make_table(rows, [_base_offset(row.path).ljust(width) for row in rows])
            yield Padding(table, (0, 0, 0, 2))

    def _make_table(self, rows: Sequence[Row], labels: Sequence[str], heading: str | None = None) -> Table:
        table = Table(box=None, pad_edge=False, header_style="dim", show_header=heading is not None)
        table.add_column(heading or "", no_wrap=True)
        table.add_column("read", no_wrap=True, min_width=len("read"))
        table.add_column(_DETAIL, overflow="fold")
        for row, label in zip(rows, labels, strict=True):
            table.add_row(label, "yes" if row.is_read else "no", row.detail, style="" if row.is_read else "dim")
        return table


def as_text(shown: RenderableType) -> str:
    """Converts it to plain text, as wide as the terminal."""
    out = io.StringIO()
    width = shutil.get_terminal_size().columns
    Console(file=out, width=width, color_system=None, force_jupyter=False).print(shown)
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())


def as_html(shown: RenderableType) -> str:
    """Converts it to HTML for a notebook."""
    console = Console(file=io.StringIO(), width=_NOTEBOOK_WIDTH, record=True, force_jupyter=False)
    console.print(shown)
    return console.export_html(
        inline_styles=True, code_format='<pre style="font-family:monospace;line-height:1.3">{code}</pre>'
    )


def _count_reasons(rows: Iterable[Row]) -> list[str]:
    """Counts why segments are not read, the most frequent reason first."""
    reasons = Counter(str(row.kind) for row in rows if not row.is_read)
    lines = [f"not read: {number:,}, {reason}" for reason, number in reasons.most_common(_MOST_REASONS)]
    others = len(reasons) - _MOST_REASONS
    if others > 0:
        lines.append(
            f"not read: {reasons.total() - sum(n for _, n in reasons.most_common(_MOST_REASONS)):,}, other reasons"
        )
    return lines


def _shorten_warnings(warnings: Sequence[str]) -> Sequence[str]:
    return warnings if len(warnings) <= _MANY_WARNINGS else first_of_each_kind(warnings)


def _name_directories(paths: Iterable[str]) -> dict[str, str]:
    """Names each partition directory, by its path. Where there are several log directories, the name says which."""
    directories = sorted(paths)
    parents = name_apart(parent_of(directory) for directory in directories)
    return {directory: join_name(parents[parent_of(directory)], name_of(directory)) for directory in directories}


def _make_sort_key(directory: str) -> tuple[list[str | int], str]:
    """Sorts by partition and log directory: partition 10 comes after 9."""
    name = [int(part) if part.isdecimal() else part for part in re.split("([0-9]+)", name_of(directory))]
    return name, parent_of(directory)


def _base_offset(path: str) -> str:
    """The base offset of a segment file: `364`."""
    return name_of(path).removesuffix(".log").lstrip("0") or "0"
