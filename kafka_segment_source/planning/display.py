"""Shows a plan as a table, for a terminal of any width and for a notebook.

This module takes rows and sentences. It does not know the class ReadPlan.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.console import Console, Group, RenderableType
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

_MOST_ROWS = 40
_NOTEBOOK_WIDTH = 140


class Row(NamedTuple):
    """One split, or one segment that is not read. detail: its byte range, or why it is not read."""

    path: str
    is_read: bool
    detail: str


def sums_line(segments: tuple[int, int], sizes: tuple[int, int], saved: int, requests: int = 0) -> str:
    """The sums of a plan in one line.

    segments, sizes (bytes): first those that are read, then all. saved: bytes that zone maps leave out.
    requests: what planning has asked of object stores.
    """
    read, total = sizes
    share = 100 * read / total if total else 0.0
    sums = f"reads {segments[0]} of {segments[1]} segments, {decimal(read)} of {decimal(total)} ({share:.1f} %)"
    if saved:
        sums = f"{sums}, {decimal(saved)} less by zone maps"
    return f"{sums}, planned by {requests:,} requests" if requests else sums


def as_table(sums: str, rows: Sequence[Row], warnings: Iterable[str]) -> RenderableType:
    """Makes a line of sums, a line for each row, sorted by path, and the warnings."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("segment", no_wrap=True)
    table.add_column("read", no_wrap=True)
    table.add_column("bytes, or why not")
    for row in sorted(rows, key=lambda row: row.path)[:_MOST_ROWS]:
        table.add_row(
            _shorten_path(row.path), "yes" if row.is_read else "no", row.detail, style="" if row.is_read else "dim"
        )
    parts: list[RenderableType] = [Text(sums, style="bold"), table]
    if len(rows) > _MOST_ROWS:
        parts.append(Text(f"… and {len(rows) - _MOST_ROWS:,} more", style="dim"))
    parts += [Text(f"warning: {warning}", style="yellow") for warning in warnings]
    return Group(*parts)


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


def _shorten_path(path: str) -> str:
    """The directory and the base offset: `orders-0/364`."""
    directory, name = path.rsplit("/", 2)[-2:]
    return f"{directory}/{name.removesuffix('.log').lstrip('0') or '0'}"
