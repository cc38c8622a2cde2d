"""`kafkaseg report`: makes one page about a log directory."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from kafka_segment_source.cli.shared import (
    WRONG_USE,
    Fault,
    count,
    follow,
    json_flag,
    paths_argument,
    paths_of,
    print_json,
    read_options,
)
from kafka_segment_source.errors import StorageError
from kafka_segment_source.keywords import TopicOptions, option_names


@click.command("report", short_help="One HTML page: volume, gaps, transactions, groups, damage.")
@paths_argument
@click.option(
    "--to", "target", required=True, type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="The page."
)
@click.option("--stats", "with_stats", is_flag=True, help="Read all records too, for the statistics of each topic.")
@json_flag
@read_options(*option_names(TopicOptions))
def report_command(paths: tuple[str, ...], target: Path, with_stats: bool, as_json: bool, **options: Any) -> None:
    """Make one self-contained HTML page about what is there.

    It has volume over time for each partition, gaps and disorder, codecs and batch sizes, producers, transactions,
    consumer groups with their lag, damage, and what retention takes next. It reads batch headers, index files and
    internal topics, and other records only with --stats. The page needs no network. With --json, a summary of what was
    written is JSON.

    It needs the libraries of the extra `report`: pip install jinja2 matplotlib

    \b
    kafkaseg report /var/kafka-logs --to report.html
    kafkaseg report s3://backups/kafka --subscribe orders --to report.html
    """
    absent = [name for name in ("jinja2", "matplotlib") if find_spec(name) is None]
    if absent:
        raise Fault(f"report needs {' and '.join(absent)}: pip install {' '.join(absent)}", WRONG_USE)
    # these load libraries that no other command needs
    from kafka_segment_source.report.facts import collect_facts  # noqa: PLC0415
    from kafka_segment_source.report.page import make_page  # noqa: PLC0415

    with follow("reading headers") as on_progress:
        facts = collect_facts(paths_of(paths), on_progress, with_stats=with_stats, **options)
    page = make_page(facts)
    try:
        target.write_text(page, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"file {str(target)!r} cannot be written: {error.strerror}", errno=error.errno) from error
    size, partitions = len(page.encode()), len(facts.listing.partitions)
    if as_json:
        print_json({"path": str(target), "bytes": size, "partitions": partitions, "warnings": facts.damage})
    else:
        click.echo(f"{target}: {size / 1000:,.0f} kB, {count(partitions, 'partition')}")
