"""`rebuild`: takes the chain that a read of some paths takes, and writes one clean log directory."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Unpack

from kafka_segment_source import kafka_format
from kafka_segment_source.errors import OptionError, PathError, UnsupportedError
from kafka_segment_source.kafka_format import LARGEST_LOG
from kafka_segment_source.keywords import (
    STORAGE_OPTIONS,
    PathsLike,
    RebuildOptions,
    check_names,
    count_threads,
    option_texts,
)
from kafka_segment_source.option_values import BATCHES, Context, TopicSelection, parse_positive_bytes
from kafka_segment_source.options import ReadOptions, parse_options
from kafka_segment_source.partition.logs import shown_logs
from kafka_segment_source.rebuilding.journal import Journal
from kafka_segment_source.rebuilding.rebuild_report import RebuildReport
from kafka_segment_source.rebuilding.rebuild_run import RebuildRun
from kafka_segment_source.reporting import OnProgress, Warnings, ignore_progress
from kafka_segment_source.request import Content
from kafka_segment_source.source import Source
from kafka_segment_source.storage.paths import find_real_path, is_inside, is_remote

INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state", "_schemas")
"""The topics that `internal` adds: those that groups, transactions and schemas live in."""

_MOMENTS = ("since", "until", "starting_timestamp", "ending_timestamp")  # which may be given as a time ago


def rebuild(
    path: PathsLike,
    to: str | os.PathLike[str],
    *,
    segment_bytes: int | str | None = None,
    internal: bool = False,
    threads: int | None = None,
    on_progress: OnProgress = ignore_progress,
    **options: Unpack[RebuildOptions],
) -> RebuildReport:
    """Writes what a read of some paths takes as one clean log directory: batches byte for byte, and new index files.

    Nothing of the paths is changed. A run that was interrupted goes on if it is called again in the same way. What is
    left out is in the result, and in `rebuild.json` of the target.

    Args:
        path: A partition directory, a log directory, a `.log` file or a glob; or a list of these, as copies.
        to: The target: a local directory that is empty, that does not exist yet, or that holds an interrupted rebuild
            of the same request.
        segment_bytes: Where segments are rolled, as a number or as `1g`. By default, segments end where those of the
            sources do.
        internal: Whether `__consumer_offsets`, `__transaction_state` and `_schemas` are rebuilt too, beside what the
            options select.
        threads: How many partitions are written at the same time. By default, one.
        on_progress: Is called with the number of bytes that are done and the number of all bytes. Any thread may call
            it.
        options: The options of a read under their own names: those that select topics, partitions, offsets and times,
            and mode, failOnDataLoss, endAt, trustIndexes and maxBatchBytes. A batch is taken whole if it may hold a
            selected row.

    Returns:
        What was written, by partition, and what was left out.

    Raises:
        UsageError: An invalid request: an option, a path or a topic that cannot be served, or a target that cannot be
            used.
        DataLossError: Offsets are missing (failOnDataLoss).
        DataError: Data is damaged (mode), and no copy helps.
        StorageError: A file cannot be read or written, or the target has too little room.

    Example:
        >>> import kafka_segment_source, tempfile
        >>> report = kafka_segment_source.rebuild(
        ...     "examples/data/orders/data", tempfile.mkdtemp(), subscribe="orders"
        ... )
        >>> len(report.partitions), report.records, report.left_out
        (3, 4000, ())
    """
    check_names(options, RebuildOptions, "rebuild, which takes")
    count = count_threads(threads)
    size = _parse_segment_bytes(segment_bytes)
    texts = option_texts(path, options)
    parsed, warnings = parse_options(texts)
    shown = {name: str(value) for name, value in options.items() if name != STORAGE_OPTIONS and value is not None}
    return rebuild_parsed(
        parsed, warnings, to, shown, segment_bytes=size, internal=internal, threads=count, on_progress=on_progress
    )


def rebuild_parsed(
    parsed: ReadOptions,
    warnings: Warnings,
    to: str | os.PathLike[str],
    shown: Mapping[str, str],
    *,
    segment_bytes: int | None = None,
    internal: bool = False,
    threads: int = 1,
    on_progress: OnProgress = ignore_progress,
) -> RebuildReport:
    """Rebuilds what parsed options select. shown: their texts, which tell two requests apart."""
    parsed = parsed._replace(
        source=_select_topics(parsed.source, internal),
        content=Content(BATCHES, include_control=True),
        policy=parsed.policy.with_control().with_crcs(),
    )
    target = _resolve_target(to)
    _check_apart(target, parsed.source)
    request = {
        "paths": [find_real_path(path) for path in parsed.source.paths],
        "options": dict(shown),
        "segmentBytes": segment_bytes,
        "internal": internal,
    }
    with Journal(target, request) as journal:
        moments = journal.agree(request, {name: getattr(parsed.bounds, name) for name in _MOMENTS})
        run = RebuildRun(parsed._replace(bounds=parsed.bounds._replace(**moments)), segment_bytes, journal)
        return run.write_all(warnings, threads, on_progress)


def _parse_segment_bytes(value: int | str | None) -> int | None:
    if value is None:
        return None
    from datetime import UTC  # noqa: PLC0415

    try:
        size = parse_positive_bytes(str(value), Context(UTC, 0))
    except ValueError as error:
        raise OptionError(f"segment_bytes is {value!r}: {error}") from error
    if size > LARGEST_LOG:
        raise OptionError(f"segment_bytes is {value!r}, expected at most {LARGEST_LOG:,}: positions have 4 bytes")
    return size


def _resolve_target(to: str | os.PathLike[str]) -> str:
    text = os.fspath(to)
    if not text.strip():
        raise OptionError("the name of the target is empty")
    target = find_real_path(text)
    if is_remote(target):
        raise UnsupportedError(f"the target {text!r} is in a bucket: a log directory is rebuilt on a local disk")
    return target


def _check_apart(target: str, source: Source) -> None:
    """Raises PathError for a target inside a source, or that a source is inside."""
    for root in source.find_roots(log.directory for log in shown_logs(source)):
        if is_inside(target, root):
            raise PathError(
                f"the target {target!r} is inside {root!r}, which is read and never written to: give another"
            )
        if is_inside(root, target):
            raise PathError(f"the source {root!r} is inside the target {target!r}: give another target")


def _select_topics(source: Source, internal: bool) -> Source:
    """Returns the source with the internal topics beside the selected ones."""
    if not internal:
        return source
    there = {log.topic_partition for log in shown_logs(source.at(source.paths))}
    topics = sorted({topic for topic, _ in there})
    added = [topic for topic in topics if topic in INTERNAL_TOPICS]
    if not added:
        return source
    subscribe, pattern, assign = source.topics
    if assign is not None:
        beside = {topic_partition for topic_partition in there if topic_partition[0] in added}
        return source._replace(topics=TopicSelection(assign=assign | beside))
    if subscribe is not None:
        chosen = [*subscribe]
    else:
        chosen = [topic for topic in topics if not topic.startswith(kafka_format.INTERNAL_TOPIC_PREFIX)]
        chosen = [topic for topic in chosen if pattern is None or re.fullmatch(pattern, topic)]
    return source._replace(topics=TopicSelection(tuple(dict.fromkeys([*chosen, *added]))))
