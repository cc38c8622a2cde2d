"""Kafka's own log segment directories as a Spark table and as Arrow batches, without a broker.

    spark.read.format("kafkaseg").load("/var/kafka-logs/orders-0")
    kafka_segment_source.scan("/var/kafka-logs/orders-0", since="-2h")

The import is light: each name is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

# A test compares the three lists below: one for type checkers, one for `import *`, one for lazy loading.

if TYPE_CHECKING:
    from kafka_segment_source import errors
    from kafka_segment_source.bounds import OffsetRange, ScanBounds, TimeRange
    from kafka_segment_source.decoding.split import SegmentSplit
    from kafka_segment_source.errors import (
        CorruptRecordError,
        DataError,
        DataLossError,
        FileChangedError,
        KafkaSegmentError,
        MisfitError,
        OptionError,
        PathError,
        RetentionError,
        SchemaError,
        StorageError,
        UnsupportedError,
        UnsupportedFormatError,
        UsageError,
    )
    from kafka_segment_source.exporting.export import export
    from kafka_segment_source.exporting.export_run import TableReport
    from kafka_segment_source.exporting.target_errors import TargetError
    from kafka_segment_source.frames.dataset import LogDataset, LogScanner, dataset
    from kafka_segment_source.frames.polars_frame import scan_polars
    from kafka_segment_source.inspection.contents import ListedPartition, ListedSegment, Listing, list_partitions
    from kafka_segment_source.inspection.findings import Finding
    from kafka_segment_source.inspection.offset_of_time import OffsetsForTime, PartitionOffset, offsets_for_time
    from kafka_segment_source.inspection.offset_places import Fetch, OffsetPlace, OffsetPlaces, locate_offset
    from kafka_segment_source.inspection.summary import IndexHealth, Summary
    from kafka_segment_source.inspection.verification import VerifyReport, verify
    from kafka_segment_source.inspection.verify import Verified
    from kafka_segment_source.keywords import ScanOptions, StreamOptions
    from kafka_segment_source.logdir.segments import DropKind, DroppedSegment, Evidence
    from kafka_segment_source.named_indexes import OffsetIndex, TimeIndex, TransactionIndex
    from kafka_segment_source.planning.offset_search import FoundBatch, OffsetEntry, SearchStep, TimeEntry
    from kafka_segment_source.planning.plan import ReadPlan
    from kafka_segment_source.queries import plan, scan
    from kafka_segment_source.rebuilding.rebuild import rebuild
    from kafka_segment_source.rebuilding.rebuild_report import LeftOut, RebuildReport, RebuiltPartition
    from kafka_segment_source.searching.every_copy import KeyPlace, KeyPlaces, every_copy
    from kafka_segment_source.searching.search import search
    from kafka_segment_source.spark.datasource import KafkaSegmentDataSource, read, read_stream, register
    from kafka_segment_source.spark.zone_maps import update_zone_maps
    from kafka_segment_source.statistics.stats import stats
    from kafka_segment_source.statistics.totals import LargeRecord, Share, Shares, TopicStats
    from kafka_segment_source.views.view import ViewPlan
    from kafka_segment_source.zones.updates import ZoneMapSummary, update_zone_maps_locally

__version__ = "0.1.0"
__all__ = [
    "CorruptRecordError",
    "DataError",
    "DataLossError",
    "DropKind",
    "DroppedSegment",
    "Evidence",
    "Fetch",
    "FileChangedError",
    "Finding",
    "FoundBatch",
    "IndexHealth",
    "KafkaSegmentDataSource",
    "KafkaSegmentError",
    "KeyPlace",
    "KeyPlaces",
    "LargeRecord",
    "LeftOut",
    "ListedPartition",
    "ListedSegment",
    "Listing",
    "LogDataset",
    "LogScanner",
    "MisfitError",
    "OffsetEntry",
    "OffsetIndex",
    "OffsetPlace",
    "OffsetPlaces",
    "OffsetRange",
    "OffsetsForTime",
    "OptionError",
    "PartitionOffset",
    "PathError",
    "ReadPlan",
    "RebuildReport",
    "RebuiltPartition",
    "RetentionError",
    "ScanBounds",
    "ScanOptions",
    "SchemaError",
    "SearchStep",
    "SegmentSplit",
    "Share",
    "Shares",
    "StorageError",
    "StreamOptions",
    "Summary",
    "TableReport",
    "TargetError",
    "TimeEntry",
    "TimeIndex",
    "TimeRange",
    "TopicStats",
    "TransactionIndex",
    "UnsupportedError",
    "UnsupportedFormatError",
    "UsageError",
    "Verified",
    "VerifyReport",
    "ViewPlan",
    "ZoneMapSummary",
    "__version__",
    "dataset",
    "errors",
    "every_copy",
    "export",
    "list_partitions",
    "locate_offset",
    "offsets_for_time",
    "plan",
    "read",
    "read_stream",
    "rebuild",
    "register",
    "scan",
    "scan_polars",
    "search",
    "stats",
    "update_zone_maps",
    "update_zone_maps_locally",
    "verify",
]

_HOMES = {
    "bounds": ("OffsetRange", "ScanBounds", "TimeRange"),
    "decoding.split": ("SegmentSplit",),
    "exporting.export": ("export",),
    "exporting.export_run": ("TableReport",),
    "exporting.target_errors": ("TargetError",),
    "frames.dataset": ("LogDataset", "LogScanner", "dataset"),
    "frames.polars_frame": ("scan_polars",),
    "inspection.contents": ("ListedPartition", "ListedSegment", "Listing", "list_partitions"),
    "inspection.findings": ("Finding",),
    "inspection.offset_of_time": ("OffsetsForTime", "PartitionOffset", "offsets_for_time"),
    "inspection.offset_places": ("Fetch", "OffsetPlace", "OffsetPlaces", "locate_offset"),
    "inspection.summary": ("IndexHealth", "Summary"),
    "inspection.verification": ("VerifyReport", "verify"),
    "inspection.verify": ("Verified",),
    "keywords": ("ScanOptions", "StreamOptions"),
    "logdir.segments": ("DropKind", "DroppedSegment", "Evidence"),
    "named_indexes": ("OffsetIndex", "TimeIndex", "TransactionIndex"),
    "planning.plan": ("ReadPlan",),
    "planning.offset_search": ("FoundBatch", "OffsetEntry", "SearchStep", "TimeEntry"),
    "queries": ("plan", "scan"),
    "rebuilding.rebuild": ("rebuild",),
    "rebuilding.rebuild_report": ("LeftOut", "RebuildReport", "RebuiltPartition"),
    "searching.every_copy": ("KeyPlace", "KeyPlaces", "every_copy"),
    "searching.search": ("search",),
    "spark.datasource": ("KafkaSegmentDataSource", "read", "read_stream", "register"),
    "spark.zone_maps": ("update_zone_maps",),
    "statistics.stats": ("stats",),
    "statistics.totals": ("LargeRecord", "Share", "Shares", "TopicStats"),
    "views.view": ("ViewPlan",),
    "zones.updates": ("ZoneMapSummary", "update_zone_maps_locally"),
}


if not TYPE_CHECKING:  # with `__getattr__`, a type checker would accept every name

    def __getattr__(name: str) -> Any:
        from importlib import import_module

        if name == "errors":
            return import_module(f"{__name__}.errors")
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        home = next((module for module, names in _HOMES.items() if name in names), "errors")
        return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return __all__
