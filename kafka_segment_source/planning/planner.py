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
from kafka_segment_source.decoding.tables import SplitTable, reads_headers_only
from kafka_segment_source.errors import FileChangedError
from kafka_segment_source.logdir.segment_view import SegmentView
from kafka_segment_source.logdir.segments import PartitionLog
from kafka_segment_source.option_values import NEWEST
from kafka_segment_source.options import ReadOptions
from kafka_segment_source.partition.logs import examined_logs
from kafka_segment_source.partition.missing import sum_up
from kafka_segment_source.planning.batch_queries import check_limits, check_partitions
from kafka_segment_source.planning.cuts import count_pieces, cut_by_bytes, cut_by_records, pack
from kafka_segment_source.planning.plan import ReadPlan
from kafka_segment_source.planning.selection import Selection, Sources, SplitOf, select
from kafka_segment_source.planning.stable_end import StableEnds
from kafka_segment_source.reporting import Warnings, few
from kafka_segment_source.request import Content, Cutting, ReadBounds
from kafka_segment_source.source import Source
from kafka_segment_source.storage.ahead import map_ahead, requests_at_once
from kafka_segment_source.storage.retrying import try_again
from kafka_segment_source.trust import Trust
from kafka_segment_source.zones.maps import ZoneMaps, update_command

PACK_MORE_THAN = 256  # tasks of a batch read; fewer do not need to share
HEADERS_TOGETHER = 2**30  # bytes of segments that share a task where only batch headers are read

WORTH_SAYING = 64 * 2**20  # bytes that `until` cannot leave out; fewer are read in less than a second

SelectAll = Callable[[Sources, Warnings], Selection]


def make_plan(
    options: ReadOptions,
    warnings: Sequence[str] = (),
    pushed: RowFilter = EVERY_ROW,
    table: SplitTable | None = None,
) -> ReadPlan:
    """Makes the plan of a batch read. The plan includes the `warnings` of parsing.

    pushed: the rows that the filters above the read leave possible. table: makes other rows of the same splits.
    Raises PathError for a path without logs, OptionError for an invalid request, and DataLossError for missing offsets.
    """
    plan = plan_selected(options, warnings, lambda sources, warnings: select(sources, [pushed], warnings)[0])
    return plan if table is None else replace(plan, other_table=table)


def plan_selected(options: ReadOptions, warnings: Sequence[str], select_all: SelectAll) -> ReadPlan:
    """Makes the plan of what `select_all` takes from the logs. If files change meanwhile, the logs are listed again."""
    check_limits(options.bounds)
    requests = options.source.storage.count_requests()
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
    options = options._replace(source=options.source.to_end_of_files(), bounds=options.bounds.without_start())
    sources = _make_sources(options, logs, has_stable_ends=True)
    requests = options.source.storage.count_requests()
    return _plan_sources(
        options,
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
    logs = examined_logs(options.source, options.policy, noted)
    check_partitions(options.bounds.starting, options.bounds.ending, logs)
    return _plan_sources(options, _make_sources(options, logs), noted, select_all, requests, cuts_all)


def _make_sources(options: ReadOptions, logs: list[PartitionLog], has_stable_ends: bool = False) -> Sources:
    """has_stable_ends: whether the offsets of the logs end at the last stable offset already."""
    source, content = options.source, options.content
    stable = StableEnds(source, options.policy, read_committed=content.read_committed and not has_stable_ends)
    maps = ZoneMaps(source, options.bounds.zone_maps, content.include_control)
    return Sources(source, options.policy, content, options.bounds, logs, stable, maps)


def _plan_sources(
    options: ReadOptions,
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
    selection = select_all(sources, warnings)
    content, trust, cutting = options.content, options.policy.trust, options.cutting
    kept = _cut_splits(selection, cutting, trust, cuts_all, warnings)
    warnings.add_all(sum_up(selection.missing), "missing offsets")
    warnings += few(dict.fromkeys(selection.faults))
    sources.maps.report_problems(warnings)
    if selection.late_bytes >= WORTH_SAYING:
        warnings.add(_make_late_warning(selection.late_bytes, options.source, options.bounds, content.include_control))
    splits = tuple(split for _, split in kept)
    saved = 0
    if options.bounds.zone_maps is not None:
        saved = _sum_bytes(selection.without_maps) - _sum_bytes(selection.kept)
    tasks = _pack_splits(splits, content, trust, cutting, pack_more_than)
    paths = {split.path for split in splits}  # a chain of copies may name a segment more than once
    dropped = {segment.path: segment for segment in reversed(selection.dropped) if segment.path not in paths}
    return ReadPlan(
        options=options._replace(content=content.with_keys(selection.keys)),
        splits=splits,
        tasks=tuple(tasks),
        dropped=tuple(reversed(dropped.values())),
        bytes_total=sources.bytes_total,
        warnings=tuple(dict.fromkeys(warnings)),
        bytes_saved_by_zone_maps=saved,
        bytes_saved_by_key_filters=min(selection.bytes_left_by_keys, saved),
        requests=options.source.storage.count_requests() - requests,
    )


def _pack_splits(
    splits: tuple[SegmentSplit, ...], content: Content, trust: Trust, cutting: Cutting, more_than: int
) -> list[tuple[SegmentSplit, ...]]:
    """Groups splits into tasks. Where the user asks for a number or size of Spark partitions, none share one."""
    if content.view == NEWEST:  # the newest record of a key may be in any segment
        return [tuple(some) for _, some in groupby(splits, key=lambda split: (split.topic, split.partition))]
    asked = cutting.min_partitions is not None or cutting.max_records is not None
    most = 0 if asked else cutting.pack_bytes
    if most and reads_headers_only(content, trust):  # a task costs as much as the headers of hundreds of megabytes
        return pack(splits, 0, max(most, HEADERS_TOGETHER))
    return pack(splits, more_than, most)


def _sum_bytes(kept: list[SplitOf]) -> int:
    return sum(split.size for _, split in kept)


def _cut_splits(
    selection: Selection, cutting: Cutting, trust: Trust, cuts_all: bool, warnings: Warnings
) -> list[SplitOf]:
    """Cuts the splits by minPartitions and maxRecordsPerPartition."""
    kept, most = selection.kept, cutting.max_records
    if most is not None:
        kept = _cut_each(kept, trust, cuts_all, warnings, lambda view, split: cut_by_records(view, split, most))
    if cutting.min_partitions is not None and len(kept) < cutting.min_partitions:
        whole = [split for _, split in kept]
        counts = dict(zip(whole, count_pieces([split.size for split in whole], cutting.min_partitions), strict=True))
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


def _make_late_warning(late_bytes: int, source: Source, bounds: ReadBounds, include_control: bool) -> str:
    bound = "option 'until'" if bounds.times.has_until else "a filter 'timestamp < …'"
    cost = f"{bound} cannot end the read early: {late_bytes:,} of the bytes to read come after the first timestamp that reaches it"
    remedies = []
    if not include_control:
        then = " and then zoneMaps=DIR" if bounds.zone_maps is None else ""
        remedies.append(
            f"`{update_command(source, bounds.zone_maps)}`{then} leaves out those that hold no row of that time"
        )
    if bounds.disorder is None:
        remedies.append(
            "where no record is older than the newest before it by more than 10 s, say, timestampDisorder=10s leaves them out"
        )
    elif include_control:
        remedies.append("timestampDisorder says nothing about control records, so includeControl=false leaves them out")
    else:
        remedies.append(
            "records without a timestamp count as -1 ms, so timestampDisorder needs a 'since' of 0 or later to leave them out"
        )
    return f"{cost}; {'; or, '.join(remedies)}"
