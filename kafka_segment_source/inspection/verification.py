"""`verify`: a path and keyword options → whether the logs under the path are whole."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, Unpack

from kafka_segment_source.errors import StorageError, UsageError
from kafka_segment_source.inspection.copies import combine_copies
from kafka_segment_source.inspection.findings import Finding
from kafka_segment_source.inspection.verify import Verified, verify_log
from kafka_segment_source.keywords import DecodeOptions, PathsLike, check_names, count_threads, option_texts
from kafka_segment_source.logdir.checkpoints import Checkpoints
from kafka_segment_source.logdir.segments import ListedLog
from kafka_segment_source.logdir.topic_choice import list_deleted
from kafka_segment_source.options import parse_options
from kafka_segment_source.partition.logs import shown_logs
from kafka_segment_source.partition.missing import report_lost_partitions
from kafka_segment_source.reporting import OnProgress, Warnings, add_up, ignore_progress
from kafka_segment_source.source import Source
from kafka_segment_source.storage.ahead import Turns, map_ahead, requests_at_once
from kafka_segment_source.trust import Policy


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The result of `verify`.

    partitions: one for each partition directory.
    together: what several copies of a partition hold together.
    warnings: one sentence about each partition without a directory.
    """

    partitions: tuple[Verified, ...]
    together: tuple[Finding, ...]
    warnings: tuple[str, ...]

    @property
    def is_ok(self) -> bool:
        """Whether there is no problem. Notes are not problems."""
        return not self.problems

    @property
    def problems(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self._findings() if finding.problem)

    @property
    def notes(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self._findings() if not finding.problem)

    def _findings(self) -> Iterator[Finding]:
        for partition in self.partitions:
            yield from partition.findings
        yield from self.together

    def to_dict(self) -> dict[str, Any]:
        """The report as `kafkaseg verify --json` prints it."""
        return {
            "ok": self.is_ok,
            "partitions": len(self.partitions),
            "segments": sum(partition.segments for partition in self.partitions),
            "bytes": sum(partition.size for partition in self.partitions),
            "batches": sum(partition.batches for partition in self.partitions),
            "problems": [finding.to_dict() for finding in self.problems],
            "notes": [finding.to_dict() for finding in self.notes],
        }


def verify(
    path: PathsLike,
    *,
    deep: bool = False,
    threads: int | None = None,
    on_progress: OnProgress = ignore_progress,
    **options: Unpack[DecodeOptions],
) -> VerifyReport:
    """Checks every CRC, length, offset order and index entry, by the rules of every Kafka version.

    It goes on after damage. Internal topics are checked too. If the paths hold several copies of a partition, a loss of
    one copy is a note if another copy holds the records. What no copy holds is a problem, as in a query of all these
    paths. So are batches of two compacted copies that share offsets and do not lie at the same ones (Kafka:
    MemoryRecords.buildRetainedRecordsInto keeps both ends of a batch): a query does not notice them. To verify one copy
    alone, give its path alone.

    Args:
        path: A partition directory, a log directory, a `.log` file or a glob; or a list of these.
        deep: Whether each record is decompressed and decoded as well.
        threads: How many threads read and decode. By default, one.
        on_progress: Is called with the number of verified bytes and the number of all bytes. Any thread may call it.
        options: subscribe, subscribePattern, assign, topic, partition, maxBatchBytes.

    Returns:
        Problems, and notes. A note is about something legal that is worth knowing.

    Raises:
        UsageError: An invalid request: an option, a path or a topic that cannot be served.
        StorageError: No directory can be listed. One of several partition directories that cannot be listed is a
            problem, and so is a `.log` that cannot be read.

    Example:
        >>> import kafka_segment_source
        >>> report = kafka_segment_source.verify("examples/data/orders/data", subscribe="orders")
        >>> report.is_ok, len(report.partitions)
        (True, 3)
    """
    check_names(options, DecodeOptions, "verify, which takes")
    parsed, _ = parse_options(option_texts(path, options))
    return verify_source(
        parsed.source, parsed.policy, deep=deep, threads=count_threads(threads), on_progress=on_progress
    )


def verify_source(
    source: Source,
    policy: Policy,
    *,
    deep: bool = False,
    threads: int = 1,
    on_progress: OnProgress = ignore_progress,
) -> VerifyReport:
    """Verifies the partitions of a source. `verify` has the parameters."""
    logs = shown_logs(source)
    advance = add_up(sum(segment.size for log in logs for segment in log.segments), on_progress)
    at_once = requests_at_once((log.storage, log.directory) for log in logs)
    turns = Turns(threads, at_once)
    check = partial(
        verify_log,
        turns=turns,
        deep=deep,
        max_batch_bytes=policy.trust.max_batch_bytes,
        advance=advance,
        list_again=partial(_list_again, source),
    )
    single = list(map_ahead(check, logs, turns.count))
    partitions: list[Verified] = []
    together: list[Finding] = []
    deleted = list_deleted(logs)
    for _, group in groupby(zip(single, logs, strict=True), key=lambda pair: pair[1].topic_partition):
        pairs = list(group)
        copies = [partition for partition, _ in pairs if partition.directory not in deleted]
        if len(copies) > 1:
            kept = [log for _, log in pairs if log.directory not in deleted]
            copies, findings = combine_copies(copies, kept, source, policy, deep=deep)
            together += findings
        by_directory = {copy.directory: copy for copy in copies}
        partitions += [by_directory.get(partition.directory, partition) for partition, _ in pairs]
    warnings = Warnings()
    report_lost_partitions(logs, Checkpoints(Warnings(), source.storage), source, time.monotonic(), warnings)
    return VerifyReport(tuple(partitions), tuple(together), tuple(warnings))


def _list_again(source: Source, log: ListedLog) -> ListedLog | None:
    """Lists the log of one directory again; None if it is gone, or cannot be listed."""
    try:
        logs = shown_logs(source)
    except (UsageError, StorageError):
        return None
    return next((other for other in logs if other.directory == log.directory), None)
