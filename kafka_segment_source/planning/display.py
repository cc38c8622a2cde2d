"""A ReadPlan as a table, for a terminal of any width and for a notebook."""

from __future__ import annotations

import io
import shutil
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from kafka_segment_source.planning.plan import ReadPlan

_MOST_ROWS = 40
_NOTEBOOK_WIDTH = 140


def plan_table(plan: ReadPlan, most_rows: int = _MOST_ROWS) -> RenderableType:
    """The plan as something rich can print: one line of sums, one row a split or dropped segment, the warnings."""
    share = 100 * plan.bytes_to_read / plan.bytes_total if plan.bytes_total else 0.0
    sums = (
        f"reads {plan.segments_kept} of {plan.segments_total} segments,"
        f" {decimal(plan.bytes_to_read)} of {decimal(plan.bytes_total)} ({share:.1f} %)"
    )
    if plan.bytes_saved_by_zone_maps:
        sums += f", {decimal(plan.bytes_saved_by_zone_maps)} less by zone maps"
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("segment", no_wrap=True)
    table.add_column("read", no_wrap=True)
    table.add_column("bytes, or why not")
    rows = [(split.path, "yes", f"{split.start:,} to {split.end:,}", "") for split in plan.splits]
    rows += [(dropped.path, "no", dropped.reason, "dim") for dropped in plan.dropped]
    rows.sort(key=lambda row: row[0])
    for path, read, detail, style in rows[:most_rows]:
        table.add_row(_short(path), read, detail, style=style)
    parts: list[RenderableType] = [Text(sums, style="bold"), table]
    if len(rows) > most_rows:
        parts.append(Text(f"… and {len(rows) - most_rows:,} more", style="dim"))
    parts += [Text(f"warning: {warning}", style="yellow") for warning in plan.warnings]
    return Group(*parts)


def plan_text(plan: ReadPlan) -> str:
    """The plan as plain text, as wide as the terminal."""
    out = io.StringIO()
    Console(file=out, width=shutil.get_terminal_size().columns, color_system=None, force_jupyter=False).print(
        plan_table(plan)
    )
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())


def plan_html(plan: ReadPlan) -> str:
    """The plan as HTML for a notebook."""
    console = Console(file=io.StringIO(), width=_NOTEBOOK_WIDTH, record=True, force_jupyter=False)
    console.print(plan_table(plan))
    return console.export_html(
        inline_styles=True, code_format='<pre style="font-family:monospace;line-height:1.3">{code}</pre>'
    )


def _short(path: str) -> str:
    """Directory and base offset: `orders-0/364`."""
    directory, name = path.rsplit("/", 2)[-2:]
    return f"{directory}/{name.removesuffix('.log').lstrip('0') or '0'}"
