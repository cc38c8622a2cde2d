"""The leader epochs beside a log, checked by their own form.

Comes in: a partition's directory, as listed. Goes out: a finding for a `leader-epoch-checkpoint` that is not whole, and
for each damaged object or part of a tier that has leader epochs.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafka_segment_source import kafka_format
from kafka_segment_source.errors import StorageError
from kafka_segment_source.inspection.findings import Finding
from kafka_segment_source.logdir.leader_epochs import read_epochs
from kafka_segment_source.logdir.segments import ListedLog
from kafka_segment_source.storage.paths import join_path

_NOT_BELIEVED = "leader epochs decide between copies that differ; nothing that it says is believed"


def check_epochs(log: ListedLog) -> Iterator[Finding]:
    """Yields what is damaged of a partition's leader epochs."""
    for fault in log.beside.damaged:
        yield Finding(True, log.directory, fault, _NOT_BELIEVED)
    try:
        _, said = read_epochs(log.directory, log.storage)
    except StorageError as error:
        said = str(error)
    if said is not None:
        yield Finding(True, join_path(log.directory, kafka_format.LEADER_EPOCH_CHECKPOINT), said, _NOT_BELIEVED)
