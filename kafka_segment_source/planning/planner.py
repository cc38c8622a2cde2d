"""Options → a ReadPlan: which byte range of which segment is read, which segments are not, and why.

Planning runs on the driver. It does not need Spark, and usually not the kernels: it reads file names, index files and a
few batch headers. Its splits are small frozen values that the driver sends to the executors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby

from kafka_segment_source.bounds import EVERY_ROW, RowFilter
from kafka_segment_source.decoding.split import SegmentSplit, anchored
from kafka_segment_source.decoding.tables import reads_headers_only
from kafka_segment_source.errors import FileChangedError
from kafka_segment_source.logdir.segment_view import SegmentView
from kafka_segment_source.logdir.segments import PartitionLog
from kafka_segment_source.option_values import EARLIEST, NEWEST
from kafka_segment_source.options import ReadOptions
from kafka_segment_source.partition.logs import examined_logs
from kafka_segment_source.partition.missing import sum_up
from kafka_segment_source.planning.batch_queries import check_limits, check_partitions
from kafka_segment_source.planning.cuts import count_pieces, cut_by_bytes, cut_by_records, pack
from kafka_segment_source.planning.plan import ReadPlan
from kafka_segment_source.planning.selection import Selection, Sources, SplitOf, select
from kafka_segment_source.planning.stable_end import StableEnds
from kafka_segment_source.reporting import Warnings, few
from kafka_segment_source.storage.ahead import map_ahead, requests_at_once
from kafka_segment_source.storage.retrying import try_again
from kafka_segment_source.trust import Trust
from kafka_segment_source.zones.maps import ZoneMaps, update_command

PACK_MORE_THAN = 256  # tasks of a batch read; fewer do not need to share
HEADERS_TOGETHER = 2**30  # bytes of segments that share a task where only batch headers are read

WORTH_SAYING = 64 * 2**20  # bytes that `until` cannot leave out; fewer are read in less than a second

SelectAll = Callable[[Sources, Warnings], Selection]


def make_plan(options: ReadOptions, warnings: Sequence[str] = (), pushed: RowFilter = EVERY_ROW) -> ReadPlan:
    """Makes the plan of a batch read. The plan includes the `warnings` of parsing.

    pushed: the rows that the filters above the read leave possible. Raises PathError for a path without logs,
    OptionError for an invalid request, and DataLossError for missing offsets.
    """
    return plan_selected(options, warnings, lambda sources, warnings: select(sources, [pushed], warnings)[0])


def plan_selected(options: ReadOptions, warnings: Sequence[str], select_all: SelectAll) -> ReadPlan:
    """Makes the plan of what `select_all` takes from the logs. If files change meanwhile, the logs are listed again."""
    check_limits(options)
    requests = options.storage.count_requests()
    try:
        return try_again(lambda: _plan_once(options, warnings, select_all, requests))
    except FileChangedError:
        return try_again(lambda: _plan_once(options, warnings, select_all, requests, cuts_all=False))


def plan_listed(logs: list[PartitionLog], options: ReadOptions) -> ReadPlan:
    """Plans all offsets of some logs that were listed already: a micro-batch of a stream.

    Small neighbours share a task, however few there are. A micro-batch is small, and comes again and again: each of its
    tasks is a file in the sink.

    logs: each with the wanted range as its offsets. No range goes beyond the last stable offset, under
    isolationLevel=read_committed. The starting and ending options do not count. Raises FileChangedError if files were
    replaced since they were listed.
    """
    options = replace(
        options,
        starting_timestamp=None,
        starting_offsets_by_timestamp=None,
        starting_offsets=EARLIEST,
        end_at_high_watermark=False,
    )
    stable = StableEnds(options.source, options.policy, read_committed=False)  # the ranges end there already
    sources = Sources(options, logs, stable, ZoneMaps(options.source, options.zone_maps, options.include_control))
    requests = options.storage.count_requests()
    return _plan_sources(
        sources,
        Warnings(),
        lambda sources, warnings: select(sources, [EVERY_ROW], warnings)[0],
        requests,
        pack_more_than=0,
    )


def _plan_once(
    options: ReadOptions,
    warnings: Sequence[str],
    select_all: SelectAll,
    requests: int,
    cuts_all: bool = True,
) -> ReadPlan:
    """Makes one attempt at a plan of a batch read. The parameters are those of `_plan_sources`."""
    noted = Warnings(warnings)
    source, policy = options.source, options.policy
    stable = StableEnds(source, policy, read_committed=options.read_committed)
    sources = Sources(
        options,
        examined_logs(source, policy, noted),
        stable,
        ZoneMaps(options.source, options.zone_maps, options.include_control),
    )
    check_partitions(options.starting, options.ending, sources.logs)
    return _plan_sources(sources, noted, select_all, requests, cuts_all)


def _plan_sources(
    sources: Sources,
    warnings: Warnings,
    select_all: SelectAll,
    requests: int,
    cuts_all: bool = True,
    pack_more_than: int = PACK_MORE_THAN,
) -> ReadPlan:
    """Makes the plan of what `select_all` takes from logs.

    requests: what the storage had counted before the first attempt.
    cuts_all: a segment that was replaced before it was cut is a FileChangedError. False: such a segment stays whole.
    pack_more_than: splits; with more of them, small neighbours share a task.
    """
    options = sources.options
    selection = select_all(sources, warnings)
    kept = _cut_splits(selection, options, cuts_all, warnings)
    warnings.add_all(sum_up(selection.missing), "missing offsets")
    warnings += few(dict.fromkeys(selection.faults))
    sources.maps.report_problems(warnings)
    if selection.late_bytes >= WORTH_SAYING:
        warnings.add(_make_late_warning(selection.late_bytes, options))
    splits = tuple(split for _, split in kept)
    saved = 0
    if options.zone_maps is not None:
        saved = _sum_bytes(selection.without_maps) - _sum_bytes(selection.kept)
    asked = options.min_partitions is not None or options.max_records_per_partition is not None
    tasks = _pack_splits(splits, options, asked, pack_more_than)
    paths = {split.path for split in splits}  # a chain of copies may name a segment more than once
    dropped = {segment.path: segment for segment in reversed(selection.dropped) if segment.path not in paths}
    return ReadPlan(
        options=options.with_keys(selection.keys),
        splits=splits,
        tasks=tuple(tasks),
        dropped=tuple(reversed(dropped.values())),
        bytes_total=sources.bytes_total,
        warnings=tuple(dict.fromkeys(warnings)),
        bytes_saved_by_zone_maps=saved,
        bytes_saved_by_key_filters=min(selection.bytes_left_by_keys, saved),
        requests=options.storage.count_requests() - requests,
    )


def _pack_splits(
    splits: tuple[SegmentSplit, ...], options: ReadOptions, asked: bool, more_than: int
) -> list[tuple[SegmentSplit, ...]]:
    """Groups splits into tasks. asked: whether the user asked for a number or size of Spark partitions."""
    if options.view == NEWEST:  # the newest record of a key may be in any segment
        return [tuple(some) for _, some in groupby(splits, key=lambda split: (split.topic, split.partition))]
    most = 0 if asked else options.pack_bytes
    if most and reads_headers_only(options):  # a task costs as much as the headers of hundreds of megabytes
        return pack(splits, 0, max(most, HEADERS_TOGETHER))
    return pack(splits, more_than, most)


def _sum_bytes(kept: list[SplitOf]) -> int:
    return sum(split.size for _, split in kept)


def _cut_splits(selection: Selection, options: ReadOptions, cuts_all: bool, warnings: Warnings) -> list[SplitOf]:
    """Cuts the splits by minPartitions and maxRecordsPerPartition."""
    kept, trust = selection.kept, options.trust
    most = options.max_records_per_partition
    if most is not None:
        kept = _cut_each(kept, trust, cuts_all, warnings, lambda view, split: cut_by_records(view, split, most))
    if options.min_partitions is not None and len(kept) < options.min_partitions:
        whole = [split for _, split in kept]
        counts = dict(zip(whole, count_pieces([split.size for split in whole], options.min_partitions), strict=True))
        kept = _cut_each(kept, trust, cuts_all, warnings, lambda view, split: cut_by_bytes(view, split, counts[split]))
    return kept


def _cut_each(
    kept: list[SplitOf],
    trust: Trust,
    cuts_all: bool,
    warnings: Warnings,
    cut: Callable[[SegmentView, SegmentSplit], list[SegmentSplit]],
) -> list[SplitOf]:
    def cut_one(of: SplitOf) -> list[SplitOf] | None:
        segment, split = of
        try:
            with SegmentView(segment, trust) as view:
                return [
                    (segment, piece if piece.start == split.start else anchored(piece, view.probe))
                    for piece in cut(view, split)
                ]
        except FileChangedError:
            if cuts_all:
                raise
            return None

    at_once = requests_at_once((split.storage, split.path) for _, split in kept)
    pieces: list[SplitOf] = []
    replaced = 0
    for whole, parts in zip(kept, map_ahead(cut_one, kept, at_once), strict=True):
        pieces += [whole] if parts is None else parts  # the task of a replaced one finds its offsets again
        replaced += parts is None
    if replaced:
        warnings.add(f"{replaced:,} segments were replaced while they were planned, and are not cut")
    return pieces


def _make_late_warning(late_bytes: int, options: ReadOptions) -> str:
    bound = "option 'until'" if options.times.has_until else "a filter 'timestamp < …'"
    cost = f"{bound} cannot end the read early: {late_bytes:,} of the bytes to read come after the first timestamp that reaches it"
    remedies = []
    if not options.include_control:
        then = " and then zoneMaps=DIR" if options.zone_maps is None else ""
        remedies.append(
            f"`{update_command(options.source, options.zone_maps)}`{then} leaves out those that hold no row of that time"
        )
    if options.timestamp_disorder is None:
        remedies.append(
            "where no record is older than the newest before it by more than 10 s, say, timestampDisorder=10s leaves them out"
        )
    elif options.include_control:
        remedies.append("timestampDisorder says nothing about control records, so includeControl=false leaves them out")
    else:
        remedies.append(
            "records without a timestamp count as -1 ms, so timestampDisorder needs a 'since' of 0 or later to leave them out"
        )
    return f"{cost}; {'; or, '.join(remedies)}"
