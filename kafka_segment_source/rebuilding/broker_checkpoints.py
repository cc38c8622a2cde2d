"""The checkpoints of a log directory, as a broker writes them when it stops."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from kafka_segment_source import kafka_format
from kafka_segment_source.logdir.checkpoints import Checkpoints
from kafka_segment_source.logdir.segments import PartitionLog
from kafka_segment_source.option_values import TopicPartition
from kafka_segment_source.rebuilding.rebuild_report import RebuiltPartition
from kafka_segment_source.rebuilding.target_files import replace_file
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.storage.paths import join_path


def write_checkpoints(target: str, logs: Sequence[PartitionLog], parts: Sequence[RebuiltPartition]) -> None:
    """Writes the checkpoints of the log directory `target`. logs: what each part was rebuilt from."""
    ends = {(part.topic, part.partition): part.end_offset for part in parts}
    starts = {
        log.topic_partition: part.start_offset
        for log, part in zip(logs, parts, strict=True)
        if log.offsets.start > _first_base(part.directory)
    }
    cleaned = {
        log.topic_partition: _find_clean_end(log, part) for log, part in zip(logs, parts, strict=True) if log.compacted
    }
    for name, entries in (
        (kafka_format.RECOVERY_POINT_CHECKPOINT, ends),
        (kafka_format.HIGH_WATERMARK_CHECKPOINT, ends),
        (kafka_format.LOG_START_CHECKPOINT, starts),
        (kafka_format.CLEANER_CHECKPOINT, cleaned),
    ):
        if entries or name != kafka_format.CLEANER_CHECKPOINT:
            replace_file(join_path(target, name), _format_checkpoint(entries))


def _find_clean_end(log: PartitionLog, part: RebuiltPartition) -> int:
    """Returns the offset up to which every copy was compacted, as far as checkpoints say it."""
    checkpoints = Checkpoints(Warnings(), log.storage)
    offsets = [
        checkpoints.entry(replace(log, directory=source), kafka_format.CLEANER_CHECKPOINT) for source in part.sources
    ]
    lowest = min((offset or 0 for offset in offsets), default=0)
    return min(max(lowest, part.start_offset), part.end_offset)


def _first_base(directory: str) -> int:
    suffix = kafka_format.LOG_SUFFIX
    return min(int(name.removesuffix(suffix)) for name in os.listdir(directory) if name.endswith(suffix))


def _format_checkpoint(entries: Mapping[TopicPartition, int]) -> bytes:
    lines = [str(kafka_format.CHECKPOINT_VERSION), str(len(entries))]
    lines += [f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(entries.items())]
    return ("\n".join(lines) + "\n").encode()
