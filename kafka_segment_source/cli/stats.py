"""`kafkaseg stats`: what the records of each topic are like, in one pass."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import click
from rich.console import RenderableType
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from kafka_segment_source.cli.record_lines import escape
from kafka_segment_source.cli.shared import (
    DAMAGED,
    follow,
    json_flag,
    parse,
    paths_argument,
    print_json,
    read_options,
    show,
    skipped_data,
    threads_option,
    view_options,
    warn,
    warn_of_plan,
)
from kafka_segment_source.in_order import count_processors
from kafka_segment_source.option_values import RECORDS
from kafka_segment_source.statistics.distinct import STANDARD_ERROR
from kafka_segment_source.statistics.heavy import Heaviest
from kafka_segment_source.statistics.stats import MOST, plan_stats, read_stats
from kafka_segment_source.statistics.totals import Shares, TopicStats

_OF_COLUMNS = ("includeHeaders", "includeMetadata", "keyFormat", "valueFormat", "schemas", "valueSchema", "keySchema",
               "schemaContext", "valueMode", "columnNameOfCorruptRecord")  # fmt: skip
_LONGEST_KEY = 40  # columns of a key in a table


@click.command("stats", short_help="Sizes, keys, headers, producers and schemas of each topic.")
@paths_argument
@click.option(
    "--top",
    "most",
    type=click.IntRange(min=1),
    default=MOST,
    show_default=True,
    help="How many of each list are shown.",
)
@threads_option("Threads that read.", "one a processor")
@json_flag
@read_options(*view_options(RECORDS, but=_OF_COLUMNS), view=RECORDS)
def stats_command(paths: tuple[str, ...], most: int, threads: int | None, as_json: bool, **options: Any) -> None:
    """Add up what the records of each topic are like: bytes, keys, headers, producers and schemas.

    Reads every record of the range once. Sums are exact. The number of different keys is an estimate, whose standard
    error is 0.81 %. The weight of a heavy key is exact, or up to the number beside it more. A schema is counted by the
    prefix that Confluent's serializers write.

    \b
    kafkaseg stats /var/kafka-logs --subscribe orders
    kafkaseg stats /var/kafka-logs --since -1h --top 3 --json
    """
    parsed, warnings = parse(paths, options)
    plan = plan_stats(parsed, warnings, most)
    with skipped_data() as skipped:
        warn_of_plan(plan.warnings)
        with follow("reading") as on_progress:
            topics = read_stats(plan, most, threads or count_processors(), on_progress)
        if as_json:
            print_json([topic.to_dict() for topic in topics])
        else:
            show(*(part for topic in topics for part in _render(topic)))
    if skipped:
        sys.exit(DAMAGED)
    if not topics:
        warn("no segment may hold a selected record; `kafkaseg plan` shows why")


def _render(topic: TopicStats) -> Iterator[RenderableType]:
    sums = topic.sums
    yield Text(escape(topic.topic), style="bold")
    distinct = "" if not topic.distinct_keys else f" (± {2 * STANDARD_ERROR:.1%} in 95 of 100 cases)"
    lines = (
        f"{sums['records']:,} records, {sums['tombstones']:,} of them with a null value",
        f"keys {decimal(sums['keyBytes'])}, values {decimal(sums['valueBytes'])}, headers {decimal(sums['headerBytes'])}"
        f" ({sums['headers']:,})",
        f"about {topic.distinct_keys:,} different keys{distinct}, {sums['nullKeys']:,} null",
    )
    yield from (Text(f"  {line}") for line in lines)
    yield from _table(
        "heaviest keys", ("key", "records", "at most"), _heavy_rows(topic.by_records, topic.most, "{:,}".format)
    )
    yield from _table("by their bytes", ("key", "bytes", "at most"), _heavy_rows(topic.by_bytes, topic.most, decimal))
    largest = [
        (f"{topic.topic}-{record.partition}", f"{record.offset}", decimal(record.size), _show_key(record.key))
        for record in topic.largest
    ]
    yield from _table("largest records", ("partition", "offset", "bytes", "key"), largest)
    for title, counted, shares in (
        ("header", "headers", topic.header_names),
        ("producer", "records", topic.producers),
        ("key schema", "records", topic.key_schemas),
        ("value schema", "records", topic.value_schemas),
    ):
        yield from _table("", (title, counted, "bytes"), _share_rows(shares, topic.most))
    yield Text("")


def _table(title: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[RenderableType]:
    if not rows:
        return
    table = Table(box=None, title=title or None, title_justify="left", title_style="italic", pad_edge=True)
    for number, name in enumerate(names):
        table.add_column(name, justify="left" if number == 0 or name == "key" else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    yield table


def _heavy_rows(heaviest: Heaviest, most: int, show_weight: Any) -> list[tuple[str, ...]]:
    """The rows of a table. Without an error, a weight is exact."""
    return [
        (_show_key(key), show_weight(weight), show_weight(weight + heaviest.error))
        for key, weight in heaviest.top(most)
    ]


def _share_rows(shares: Shares, most: int) -> Sequence[Sequence[str]]:
    ordered = shares.ordered()
    rows = [
        (
            _show_key(key) if isinstance(key, bytes) else "none" if key == -1 else str(key),
            f"{share.records:,}",
            decimal(share.size),
        )
        for key, share in ordered[:most]
    ]
    others = [share for _, share in ordered[most:]] + [shares.others]
    records, size = sum(other.records for other in others), sum(other.size for other in others)
    return rows + ([("others", f"{records:,}", decimal(size))] if records else [])


def _show_key(key: bytes | None) -> str:
    if key is None:
        return "null"
    text = escape(key.decode("utf-8", "surrogateescape"))
    return text if len(text) <= _LONGEST_KEY else text[: _LONGEST_KEY - 1] + "…"
