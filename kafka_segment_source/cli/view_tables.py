"""Commands that print a view: as a table for people, as JSON lines for programs, or as a Parquet file.

A table is grouped: the values that many rows share, such as topic and partition, are one line above their rows. Columns
that do not fit into the terminal are left out, the least important first, and a line at the end says so.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, groupby, islice
from textwrap import wrap
from typing import Any, Protocol

import click
import pyarrow as pa
import pyarrow.compute as pc

from kafka_segment_source.cli.parquet import check_output, write_parquet
from kafka_segment_source.cli.record_lines import escape
from kafka_segment_source.cli.shared import (
    DAMAGED,
    F,
    count,
    output_options,
    parse,
    paths_argument,
    read_options,
    skipped_data,
    view_options,
    warn,
    warn_of_plan,
    width,
)
from kafka_segment_source.option_values import TRANSACTIONS
from kafka_segment_source.options import ReadOptions
from kafka_segment_source.planning.plan import read_rows
from kafka_segment_source.planning.planner import make_plan
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.schema import Table
from kafka_segment_source.times import format_millis
from kafka_segment_source.views.by_name import table_of, view_of
from kafka_segment_source.views.view import plan_view

_LOOK = 1000  # rows whose values decide how wide the columns are
_LONGEST = 60  # characters of a value in a table
_NOTHING = "–"
_INDENT = "  "
_GAP = "  "
_to_json = json.JSONEncoder(ensure_ascii=False).encode

Row = dict[str, Any]


@dataclass(frozen=True)
class Shown:
    """How a view is printed as a table.

    title: makes the line above the rows that share it.
    columns: those of the table, the most important first: heading and what gives the value of a row.
    summary: makes what adds up the rows for the lines below them.
    """

    title: Callable[[Row], str]
    columns: dict[str, Callable[[Row], Any]]
    summary: Callable[[], Summary] | None = None


class Summary(Protocol):
    """Adds up the rows of a table."""

    def add(self, row: Row) -> None:
        """Takes a row."""

    def lines(self) -> Iterator[str]:
        """Yields the lines below the table."""


@dataclass(frozen=True)
class Choice:
    """A flag that keeps the rows with certain values of one column.

    values: those that the column may have.
    """

    column: str
    values: tuple[str, ...]


def make_view_command(
    name: str,
    view: str,
    shown: Shown,
    short_help: str,
    help_text: str,
    *,
    choice: Choice | None = None,
    only_damage_counts: bool = False,
) -> click.Command:
    """Makes the command that prints a view.

    It takes the options of that view, --columns, --format, --json, --output and --limit, and the flag of the choice.
    only_damage_counts: whether only damage that was left out makes the exit code 1. Else any warning of the tasks does.
    """

    @click.command(name, short_help=short_help, help=help_text)
    @paths_argument
    @output_options("rows")
    @click.option("--columns", metavar="NAMES", help="Columns of the view to print, separated by commas.")
    @read_options(*view_options(view), view=view)
    def command(
        paths: tuple[str, ...],
        kind: str,
        as_json: bool,
        output: str | None,
        limit: int | None,
        columns: str | None,
        kept: tuple[str, ...] = (),
        **options: Any,
    ) -> None:
        kind = "jsonl" if as_json else kind
        check_output(kind, output)
        parsed, warnings = parse(paths, {**options, "view": view})
        table = table_of(view)
        names = table.check_names(columns.replace(" ", "").split(",")) if columns else None
        with skipped_data() as skipped:
            every = table.default_names(parsed.content)
            wanted = every if choice is not None and kept else names or every
            goes_on = view == TRANSACTIONS and options.get("failOnDataLoss") is None
            rows = read_view(parsed, warnings, wanted, goes_on=goes_on)
            if choice is not None and kept:
                rows = (batch.filter(pc.is_in(batch[choice.column], pa.array(kept))) for batch in rows)
            schema = table.arrow_schema(names or every)
            rows = (batch.select(schema.names) for batch in _limit(rows, limit))
            if output is not None:
                warn(f"{count(write_parquet(output, schema, rows), 'row')} written to {output!r}")
            elif kind == "jsonl":
                print_json_lines(rows)
            elif names is None:
                print_table(to_rows(rows), _fit_to_read(shown, table, every))
            else:
                print_table(to_rows(rows), Shown(lambda _: "", {name: _get(name) for name in names}))
        if any(not only_damage_counts or hasattr(record, "is_damage") for record in skipped):
            sys.exit(DAMAGED)

    return command if choice is None else _make_flag(choice)(command)


def _fit_to_read(shown: Shown, table: Table, read: Sequence[str]) -> Shown:
    """Returns how the columns of one read are printed: without those that it does not have, and with those that its
    options add."""
    lacking = {column.name for column in table.columns} - {*read}
    added = [column.name for column in table.columns if column.is_added is not None and column.name in read]
    columns = {heading: value for heading, value in shown.columns.items() if heading not in lacking}
    return replace(shown, columns=columns | {name: _get(name) for name in added if name not in columns})


def _make_flag(choice: Choice) -> Callable[[F], F]:
    return click.option(
        f"--{choice.column}",
        "kept",
        type=click.Choice(choice.values),
        multiple=True,
        help="Keep these rows only; may be given several times.",
    )


def read_view(
    options: ReadOptions, warnings: Warnings, columns: Sequence[str], *, goes_on: bool = False
) -> Iterator[pa.RecordBatch]:
    """Plans the view that the options name, prints the warnings of planning, and yields the rows.

    goes_on: whether offsets that a partition has lost since it was planned are a warning, and no error. The other
        partitions are read then.
    """
    view = view_of(options.content.view)
    plan = make_plan(options, warnings) if view is None else plan_view(view, options, warnings)
    if goes_on:
        plan = replace(
            plan, options=plan.options._replace(policy=plan.options.policy._replace(fail_on_data_loss=False))
        )
    warn_of_plan(plan.warnings)
    return read_rows(plan, plan.schema(columns))


def _limit(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    left = sys.maxsize if limit is None else limit
    while left > 0 and (batch := next(batches, None)) is not None:
        yield batch.slice(0, left)
        left -= batch.num_rows


def to_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    """Yields each row as a dict: timestamps as ISO-8601 in UTC with milliseconds, all else as Python values."""
    for batch in batches:
        columns = [_format_column(column) for column in batch.columns]
        for values in zip(*columns, strict=True):
            yield dict(zip(batch.schema.names, values, strict=True))


def print_json_lines(batches: Iterable[pa.RecordBatch]) -> None:
    """Prints each row as one JSON object."""
    for row in to_rows(batches):
        sys.stdout.write(_to_json(row) + "\n")


def _format_column(column: pa.Array) -> list[Any]:
    if pa.types.is_map(column.type):
        return [None if value is None else dict(value) for value in column.to_pylist()]
    if not pa.types.is_timestamp(column.type):
        values: list[Any] = column.to_pylist()
        return values
    # by way of integers, since Python's datetime has a smaller range
    micros = column.cast(pa.int64()).to_pylist()
    return [None if micro is None else format_millis(micro // 1000) for micro in micros]


def print_table(rows: Iterator[Row], shown: Shown) -> None:
    """Prints rows as a table. It begins to print after the first 1,000 rows, and keeps no more of them."""
    first = list(islice(rows, _LOOK))
    if not first:
        warn("no row matches; `kafkaseg ls` shows what is there")
        return
    columns = [_Column(heading, value, first) for heading, value in shown.columns.items()]
    indent = _INDENT if shown.title(first[0]) else ""
    fitting = _select_fitting(columns, width() - len(indent))
    click.echo(
        click.style((indent + _GAP.join(column.justify(column.heading) for column in fitting)).rstrip(), dim=True)
    )
    summary = None if shown.summary is None else shown.summary()
    for title, group in groupby(chain(first, rows), key=shown.title):
        if title:
            click.echo(click.style(escape(title), bold=True))
        for row in group:
            click.echo((indent + _GAP.join(column.justify(column.text(row)) for column in fitting)).rstrip())
            if summary is not None:
                summary.add(row)
    if summary is not None:
        for line in summary.lines():
            click.echo(escape(line))
    left_out = [column.heading for column in columns if column not in fitting]
    if left_out:
        show_remark(f"not shown for lack of room: {', '.join(left_out)} (--columns NAMES, --json)")


def show_remark(text: str) -> None:
    """Prints a remark below a table, in as many lines as it takes."""
    for line in wrap(text, width()):
        click.echo(click.style(line, dim=True))


def _select_fitting(columns: Sequence[_Column], room: int) -> list[_Column]:
    """Returns the first columns that fit into a line, and at least one."""
    ends = accumulate(column.width + len(_GAP) for column in columns)
    fitting = sum(end - len(_GAP) <= room for end in ends)
    return [*columns[: max(fitting, 1)]]


class _Column:
    """One column of a table, as wide as its heading and its first values. Numbers are aligned to the right."""

    def __init__(self, heading: str, value: Callable[[Row], Any], first: Sequence[Row]) -> None:
        self.heading = heading
        self._value = value
        values = [value(row) for row in first]
        self._is_number = all(
            value is None or (isinstance(value, int) and not isinstance(value, bool)) for value in values
        )
        self.width = max(len(heading), *(len(self.text(row)) for row in first))

    def text(self, row: Row) -> str:
        value = self._value(row)
        if value is None:
            return _NOTHING
        if isinstance(value, bool):
            return "yes" if value else ""
        if isinstance(value, int):
            return str(value)
        text = escape(value if isinstance(value, str) else _to_json(value))
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"

    def justify(self, text: str) -> str:
        return text.rjust(self.width) if self._is_number else text.ljust(self.width)


def _get(name: str) -> Callable[[Row], Any]:
    return lambda row: row[name]


def columns_of(*names: str, **made: Callable[[Row], Any]) -> dict[str, Callable[[Row], Any]]:
    """Makes the columns of a table: those of the view, by name, and then those that are made of several values."""
    return {name: _get(name) for name in names} | made
