"""Facts → the HTML page of a report: one file, which needs no network and no script."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from rich.filesize import decimal

import kafka_segment_source
from kafka_segment_source.inspection.summary import Summary, total
from kafka_segment_source.report.facts import Facts
from kafka_segment_source.report.pictures import MOST_PARTITIONS, draw_partitions, draw_volume
from kafka_segment_source.statistics.distinct import STANDARD_ERROR
from kafka_segment_source.statistics.totals import as_text
from kafka_segment_source.times import format_millis

_MOST = 100  # rows of a table


def make_page(facts: Facts) -> str:
    """Makes the page. All texts of users are escaped."""
    page = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page.filters |= {
        "moment": _moment_text,
        "bytes": decimal,
        "duration": _duration_text,
        "seconds": lambda seconds: _duration_text(seconds * 1000),
        "usual_size": _usual_size,
        "span": _span_text,
        "escaped": as_text,
    }
    partitions = sorted(facts.listing.partitions, key=lambda partition: -partition.summary.size)
    producers = sorted(facts.batches.producers.items(), key=lambda item: -item[1].size)
    groups = sorted(facts.groups, key=lambda group: -(group["lag"] or 0))
    return page.get_template("page.html.j2").render(
        facts=facts,
        distinct_error=f"{2 * STANDARD_ERROR:.1%}",
        version=kafka_segment_source.__version__,
        most=_MOST,
        sums=total([partition.summary for partition in partitions]),
        number_of=_count_partitions(facts),
        drawn=min(len(facts.batches.partitions), MOST_PARTITIONS),
        has_gaps=any(partition.gaps for partition in facts.batches.partitions.values()),
        has_disorder=any(partition.lateness for partition in facts.batches.partitions.values()),
        partitions=sorted(
            partitions[:_MOST], key=lambda partition: (partition.topic, partition.partition, partition.directory)
        ),
        more_partitions=max(len(partitions) - _MOST, 0),
        volume=draw_volume(facts),
        heat=draw_partitions(facts),
        outside=_count_outside(facts),
        codecs=sorted(facts.batches.codecs.items()),
        producers=producers[:_MOST],
        more_producers=max(len(producers) - _MOST, 0),
        states=sorted(facts.states.items()),
        lag=sum(group["lag"] or 0 for group in groups),
        groups=groups[:_MOST],
        more_groups=max(len(groups) - _MOST, 0),
    )


def _count_partitions(facts: Facts) -> str:
    """The number of partitions, and of their directories where some have several."""
    directories = len(facts.listing.partitions)
    partitions = len({(partition.topic, partition.partition) for partition in facts.listing.partitions})
    counted = f"{partitions:,} partition{'' if partitions == 1 else 's'}"
    return counted if directories == partitions else f"{counted} in {directories:,} directories"


def _count_outside(facts: Facts) -> int:
    """Counts the records that the pictures leave out."""
    first = facts.start // 1000 // facts.width
    return sum(
        records
        for partition in facts.batches.partitions.values()
        for slot, (records, _) in partition.slots.items()
        if not 0 <= slot - first < facts.slots
    )


def _moment_text(moment: Any) -> str:
    """A moment as text: from a datetime or from ms. It is empty where there is none."""
    if isinstance(moment, datetime):
        return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    return (
        ""
        if moment is None or moment < 0
        else format_millis(moment - moment % 1000).replace("T", " ").removesuffix(".000Z")
    )


def _span_text(summary: Summary) -> str:
    """The first and the last offset, as `kafkaseg ls` has them. Without batches the first alone."""
    return f"{summary.start_offset} – {summary.end_offset - 1}" if summary.batches else f"from {summary.start_offset}"


def _duration_text(millis: int) -> str:
    for unit, name in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")):
        if millis >= unit:
            return f"{millis / unit:.0f} {name}" if millis % unit == 0 else f"{millis / unit:.1f} {name}"
    return f"{millis} ms"


def _usual_size(sizes: Counter[int]) -> str:
    """The power of two that most batches are below."""
    [(power, number)] = sizes.most_common(1)
    return f"{decimal(2 ** max(power - 1, 0))} to {decimal(2**power)} ({number / sizes.total():.0%})"
