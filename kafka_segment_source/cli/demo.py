"""`kafkaseg demo`: answers a question from a real log, from the plan to the result, without Spark."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.compute as pc
from rich.table import Table
from rich.text import Text

import kafka_segment_source
from kafka_segment_source.cli.record_lines import Encoder, Encoding, text_fields, text_lines
from kafka_segment_source.cli.shared import json_flag, print_json, show, width
from kafka_segment_source.errors import PathError
from kafka_segment_source.times import format_millis

_SINCE, _UNTIL = "2026-03-10T09:30", "2026-03-10T09:35"
_ROWS = 5
_DISORDER = "5s"
_BUNDLED = Path(kafka_segment_source.__file__).parent / "demo_data"
_IN_REPOSITORY = Path(kafka_segment_source.__file__).parents[1] / "examples" / "data" / "orders" / "data"


@click.command("demo", short_help="A question to a real log, answered in seconds.")
@json_flag
def demo_command(as_json: bool) -> None:
    """Ask a real log a question: the plan of five minutes of orders, some rows, and their count per minute.

    Runs on segments that a Kafka 4.1 broker wrote and that come with this package. Needs neither Spark nor a broker.
    """
    path = os.path.relpath(_find_data())
    plan = kafka_segment_source.plan(path, subscribe="orders", since=_SINCE, until=_UNTIL)
    declared = kafka_segment_source.plan(
        path, subscribe="orders", since=_SINCE, until=_UNTIL, timestampDisorder=_DISORDER
    )
    table = declared.to_reader().read_all().sort_by([("timestamp", "ascending"), ("partition", "ascending")])
    minutes = _count_per_minute(table)
    if as_json:
        print_json({"path": path, "plan": plan.to_dict(), "ordersPerMinute": minutes})
        return
    flags = f"--subscribe orders --since {_SINCE} --until {_UNTIL}"
    show(
        _make_heading(
            f"What would the orders of {_SINCE[11:16]} to {_UNTIL[11:16]} cost?", f"kafkaseg plan {path} {flags}"
        ),
        plan,
        _make_heading(
            "And if no record is late by more than 5 s?", f"kafkaseg plan {path} {flags} --timestamp-disorder 5s"
        ),
        declared,
        _make_heading("The first rows", f"kafkaseg cat {path} {flags} --timestamp-disorder 5s"),
        *_format_first_rows(table),
        _make_heading(
            "Orders per minute", "kafka_segment_source.scan(path, subscribe=…, since=…, until=…)  gives Arrow batches"
        ),
        _draw_chart(minutes),
        Text("\nAs a Spark table: spark.read.format('kafkaseg').option('since', …).load(path)", style="dim"),
    )


def _make_heading(question: str, command: str) -> Text:
    text = Text(f"\n── {question}\n", style="bold cyan")
    return text.append(f"   {command}\n", style="not bold dim")


def _format_first_rows(table: pa.Table) -> list[Text]:
    fields = text_fields(table.column_names)
    first = table.slice(0, _ROWS).combine_chunks().to_batches()
    lines = [
        line.rstrip("\n").replace("\t", "  ")
        for batch in first
        for line in text_lines(batch, Encoder(Encoding.TEXT), fields).to_pylist()
    ]
    for_width = [Text(line) for line in lines]
    for line in for_width:
        line.truncate(width(), overflow="ellipsis")
    return for_width


def _find_data() -> Path:
    """Finds the log directory of the example: in the repository, or the part of it in the wheel."""
    for path in (_IN_REPOSITORY, _BUNDLED):
        if path.is_dir():
            return path
    raise PathError(f"the example's data is not there, neither in {str(_IN_REPOSITORY)!r} nor in {str(_BUNDLED)!r}")


def _count_per_minute(table: pa.Table) -> dict[str, int]:
    millis = pc.floor_temporal(table["timestamp"], unit="minute").cast(pa.int64())
    counts = pc.value_counts(millis).to_pylist()
    return {
        format_millis(minute["values"] // 1000): minute["counts"]
        for minute in sorted(counts, key=lambda count: count["values"])
    }


def _draw_chart(minutes: dict[str, int]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    most = max(minutes.values(), default=1)
    for minute, count in minutes.items():
        table.add_row(minute[11:16], str(count), "█" * max(1, round(40 * count / most)), style=None)
    return table
