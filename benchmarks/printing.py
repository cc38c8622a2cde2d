"""Rows as a table for a terminal."""

from __future__ import annotations

from rich.table import Table

from benchmarks.results import Row


def table(title: str, rows: list[Row]) -> Table:
    """One group's rows."""
    shown = Table("what", "figure", "quartiles", "goal", "holds", "note", title=title, title_justify="left")
    for row in rows:
        spread = "" if row.low is None or row.high is None else f"{row.low:.3g}–{row.high:.3g}"
        holds = "" if row.holds is None else "[green]yes[/green]" if row.holds else "[red]NO[/red]"
        shown.add_row(row.name, figure(row), spread, row.goal or "", holds, row.note)
    return shown


def figure(row: Row) -> str:
    """A row's figure with its unit."""
    return f"{row.figure:.0f} {row.unit}" if row.figure >= 1000 else f"{row.figure:.3g} {row.unit}"
