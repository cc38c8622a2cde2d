"""`export`: reads what the logs have gained since the last run, writes it into a table, and ends.

The options of the request are checked here; `export_run.py` does the work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC
from typing import Unpack

from kafka_segment_source.errors import KafkaSegmentError, OptionError
from kafka_segment_source.exporting.data_files import parse_by
from kafka_segment_source.exporting.export_run import TOPIC, ExportRun, TableReport, Targets
from kafka_segment_source.exporting.target_tables import FORMATS
from kafka_segment_source.keywords import PathsLike, ReadingOptions, check_threads, option_texts
from kafka_segment_source.option_table import OPTIONS, PACE
from kafka_segment_source.option_values import PERMISSIVE, Context, TopicSelection, parse_positive_bytes
from kafka_segment_source.options import ReadOptions, parse_options
from kafka_segment_source.reporting import OnProgress, ignore_progress, log_warnings, logger
from kafka_segment_source.storage.paths import find_real_path, is_inside
from kafka_segment_source.storage.settings import Settings, looks_like_setting, make_settings
from kafka_segment_source.streams.stream import LogStream

TARGET_BYTES = "128m"
_STARTS = ("startingoffsets", "startingtimestamp", "startingoffsetsbytimestamp")
_NOT_HERE = {
    option.name.lower(): option.name for option in OPTIONS if option.group == PACE or option.name.startswith("ending")
}
_OF_MISFITS = {"valuemode": "valueMode", "columnnameofcorruptrecord": "columnNameOfCorruptRecord"}


def export(  # noqa: PLR0913  # each is a question of its own
    path: PathsLike,
    to: str,
    format: str = "parquet",
    *,
    by: Sequence[str] = (),
    rejected: str | None = None,
    target_bytes: int | str = TARGET_BYTES,
    catalog: Mapping[str, str] | None = None,
    threads: int | None = None,
    dry_run: bool = False,
    on_progress: OnProgress = ignore_progress,
    on_report: Callable[[TableReport], None] = lambda _: None,
    **options: Unpack[ReadingOptions],
) -> list[TableReport]:
    """Adds to a table what the logs have gained since the last run, each record once, and ends.

    The first run begins at the start of the logs, or where the starting options say. A run may be killed at any moment.
    The next one goes on where the table ends. One run at a time writes into a table: of two, one ends with an error,
    and what it read comes with its next run.

    Args:
        path: A partition directory, a log directory, a `.log` file or a glob; or a list of these.
        to: The table: a directory or a bucket's URL for Parquet and Delta, CATALOG.NAMESPACE.TABLE for Iceberg. With
            `{topic}` in it, each topic has a table of its own. If one of these fails, the others are exported first.
        format: `parquet`, `delta` or `iceberg`.
        by: How the table is divided, in order, as in `["topic", "day(timestamp)"]` (all rules: docs/export.md).
        rejected: A second table of the same format, for rows whose key or value does not fit (docs/values.md): topic,
            partition, offset, timestamp, key and value as bytes, and the reason. It needs valueFormat or keyFormat.
        target_bytes: The size of a file, as a number or as `128m`. The last file of a run and those of a divided table
            may be smaller.
        catalog: Properties of the Iceberg catalog, over those of `.pyiceberg.yaml`.
        threads: How many threads read and decode. By default, as many as `scan` takes.
        dry_run: True: write nothing, and report what a run would read.
        on_progress: Is called with the bytes of `.log` files that are done, and with all of them, for each table.
        on_report: Is called with the report of each table, as soon as it is done.
        options: The options of a read under their own names, but those of its end. By default, isolationLevel is
            read_committed.

    Returns:
        A report for each table.

    Raises:
        UsageError: An invalid request. TargetError: the target is no table of an export, has another schema, or was
            changed by somebody else during the run.
        DataLossError: Offsets that were not exported yet are gone.
        DataError: Data is damaged, or a value does not fit and `rejected` is not given.
        StorageError: A file cannot be read or written. A retry may help.

    Example:
        >>> import kafka_segment_source, tempfile
        >>> target = tempfile.mkdtemp()
        >>> [first] = kafka_segment_source.export("examples/data/orders/data", target, subscribe="orders")
        >>> [second] = kafka_segment_source.export("examples/data/orders/data", target, subscribe="orders")
        >>> first.rows, second.rows
        (4000, 0)
    """
    parts = parse_by(by)
    size = _check_request(to, format, rejected, target_bytes, catalog)
    texts = option_texts(path, options)
    parsed, settings = _parse_options(texts, rejected)
    run = ExportRun(parts, size, check_threads(threads), dry_run, on_progress, Targets(format, settings, catalog or {}))
    if TOPIC not in to:
        report = run.export_table(to, rejected, None, parsed)
        on_report(report)
        return [report]
    reports: list[TableReport] = []
    failed: list[KafkaSegmentError] = []
    for topic in sorted({topic for topic, _ in LogStream(parsed).find_latest()}):
        try:
            reports.append(run.export_table(to, rejected, topic, _select_topic(parsed, topic)))
        except KafkaSegmentError as error:
            failed.append(error)
        else:
            on_report(reports[-1])
    for other in failed[1:]:
        logger.warning("%s", other)
    if failed:
        raise failed[0]
    return reports


def _select_topic(options: ReadOptions, topic: str) -> ReadOptions:
    """Returns the options for one of the selected topics."""
    assign = options.source.topics.assign
    topics = (
        TopicSelection((topic,))
        if assign is None
        else TopicSelection(assign=frozenset(key for key in assign if key[0] == topic))
    )
    return options._replace(
        source=options.source._replace(topics=topics), bounds=options.bounds.start_of(lambda key: key[0] == topic)
    )


def _check_request(
    to: str, format: str, rejected: str | None, target_bytes: int | str, catalog: Mapping[str, str] | None
) -> int:
    """Checks what needs no file. Returns the size of a file."""
    if format not in FORMATS:
        raise OptionError(f"format is {format!r}: expected one of {', '.join(FORMATS)}")
    if catalog and format != "iceberg":
        raise OptionError(f"catalog is for format iceberg alone, and the format is {format}")
    if not to.strip() or (rejected is not None and not rejected.strip()):
        raise OptionError("the name of a target is empty")
    if rejected is not None and (TOPIC in to) != (TOPIC in rejected):
        raise OptionError(f"{TOPIC} must be in both targets, to and rejected, or in none")
    if rejected is not None and _share_place(to, rejected, is_named=format == "iceberg"):
        raise OptionError(f"rejected is {rejected!r}, and the target is {to!r}: neither may be inside the other")
    try:
        return parse_positive_bytes(str(target_bytes), Context(UTC, 0))
    except ValueError as error:
        raise OptionError(f"target_bytes is {target_bytes!r}: {error}") from error


def _share_place(one: str, other: str, is_named: bool) -> bool:
    if is_named:
        return one == other
    paths = find_real_path(one), find_real_path(other)
    return is_inside(*paths) or is_inside(*reversed(paths))


def _parse_options(texts: dict[str, str], rejected: str | None) -> tuple[ReadOptions, Settings]:
    """Parses the options of the read, with the defaults of an export. Returns those of object stores too."""
    given = {name.lower(): name for name in texts}
    for key in given:
        if key in _NOT_HERE:
            raise OptionError(
                f"option {_NOT_HERE[key]!r} is not for an export, which takes all that is there when it begins",
                options=(_NOT_HERE[key],),
            )
        if key == "until":
            raise OptionError(
                "option 'until' is not for an export: the rows that it leaves out would not come with the next run",
                options=("until",),
            )
        if rejected is not None and key in _OF_MISFITS:
            raise OptionError(
                f"option {_OF_MISFITS[key]!r} does not go with rejected, which says what becomes of misfits",
                options=(_OF_MISFITS[key],),
            )
    if not given.keys() & _STARTS:
        texts["startingOffsets"] = "earliest"
    if not given.keys() & {"isolationlevel", "isolation.level", "kafka.isolation.level"}:
        texts["isolationLevel"] = "read_committed"
    if rejected is not None:
        texts["valueMode"] = PERMISSIVE
    parsed, warnings = parse_options(texts, is_stream=True)
    if rejected is not None and parsed.formats.are_binary:
        raise OptionError(
            "rejected needs option 'valueFormat' or option 'keyFormat': without one, every row fits",
            options=("valueFormat", "keyFormat"),
        )
    log_warnings(warnings)
    return parsed, make_settings({name: text for name, text in texts.items() if looks_like_setting(name.lower())})
