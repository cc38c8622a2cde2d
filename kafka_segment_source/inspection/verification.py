"""`verify`: a path and keyword options → whether the logs under the path are whole."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import Any, Unpack

from kafka_segment_source.errors import StorageError, UsageError
from kafka_segment_source.inspection.findings import Finding
from kafka_segment_source.inspection.verify import Verified, verify_log
from kafka_segment_source.keywords import DecodeOptions, PathsLike, check_names, option_texts
from kafka_segment_source.logdir.catalog import list_directories
from kafka_segment_source.logdir.checkpoints import Checkpoints
from kafka_segment_source.logdir.segments import ListedLog
from kafka_segment_source.options import ReadOptions, parse_options
from kafka_segment_source.partition.missing import lost_partitions
from kafka_segment_source.reporting import OnProgress, add_up, ignore_progress


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The result of `verify`.

    partitions: one for each partition directory. warnings: one sentence about each partition without a directory.
    """

    partitions: tuple[Verified, ...]
    warnings: tuple[str, ...]

    @property
    def is_ok(self) -> bool:
        """Whether there is no problem. Notes are not problems."""
        return not self.problems

    @property
    def problems(self) -> tuple[Finding, ...]:
        return tuple(finding for each in self.partitions for finding in each.problems)

    @property
    def notes(self) -> tuple[Finding, ...]:
        return tuple(finding for each in self.partitions for finding in each.notes)

    def to_dict(self) -> dict[str, Any]:
        """The report as `kafkaseg verify --json` prints it."""
        return {
            "ok": self.is_ok,
            "partitions": len(self.partitions),
            "segments": sum(each.segments for each in self.partitions),
            "bytes": sum(each.size for each in self.partitions),
            "batches": sum(each.batches for each in self.partitions),
            "problems": [finding.to_dict() for finding in self.problems],
            "notes": [finding.to_dict() for finding in self.notes],
        }


def verify(
    path: PathsLike,
    *,
    deep: bool = False,
    on_progress: OnProgress = ignore_progress,
    **options: Unpack[DecodeOptions],
) -> VerifyReport:
    """Checks every CRC, length, offset order and index entry, by the rules of every Kafka version.

    It goes on after damage. Internal topics are checked too.

    Args:
        path: A partition directory, a log directory, a `.log` file or a glob; or a list of these.
        deep: Whether each record is decompressed and decoded as well.
        on_progress: Is called with the number of verified bytes and the number of all bytes.
        options: subscribe, subscribePattern, assign, topic, partition, maxBatchBytes.

    Returns:
        Problems, and notes. A note is about something legal that is worth knowing.

    Raises:
        UsageError: An invalid request: an option, a path or a topic that cannot be served.

    Example:
        >>> import kafka_segment_source
        >>> report = kafka_segment_source.verify("examples/data/orders/data", subscribe="orders")
        >>> report.is_ok, len(report.partitions)
        (True, 3)
    """
    check_names(options, DecodeOptions, "verify, which takes")
    parsed, _ = parse_options(option_texts(path, options))
    logs = list_directories(parsed)
    advance = add_up(sum(segment.size for log in logs for segment in log.segments), on_progress)
    partitions = [
        verify_log(
            log,
            deep=deep,
            max_batch_bytes=parsed.max_batch_bytes,
            advance=advance,
            list_again=partial(_list_again, parsed),
        )
        for log in logs
    ]
    warnings = lost_partitions(logs, Checkpoints([]), parsed, time.monotonic())
    return VerifyReport(tuple(partitions), tuple(warnings))


def _list_again(options: ReadOptions, log: ListedLog) -> ListedLog | None:
    """Lists the log of one directory again; None if it is gone, or cannot be listed."""
    try:
        logs = list_directories(options)
    except (UsageError, StorageError):
        return None
    return next((each for each in logs if each.directory == log.directory), None)
