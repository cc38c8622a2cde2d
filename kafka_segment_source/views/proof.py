"""Whether the log bears out the entries of an index file, by the rules of `verify`. It reads the whole `.log`."""

from __future__ import annotations

import pyarrow as pa

from kafka_segment_source.inspection.index_rules import judge_offset_index, judge_time_index, judge_transaction_index
from kafka_segment_source.inspection.segment_check import SegmentCheck
from kafka_segment_source.logdir.indexes import AbortEntries, OffsetEntries, TimeEntries
from kafka_segment_source.logdir.segments import ListedLog, Segment


def prove_entries(
    log: ListedLog, segment: Segment, index: OffsetEntries | TimeEntries | AbortEntries, max_batch_bytes: int
) -> tuple[pa.Array, list[str]]:
    """Returns a boolean for each entry, and a sentence for each thing that hides a part of the log.

    True: the log bears the entry out. False: `verify` calls the entry a problem. Null: neither can be said.
    """
    check = SegmentCheck(log, segment, deep=False, max_batch_bytes=max_batch_bytes)
    if not check.read():
        return pa.nulls(len(index), pa.bool_()), [finding.what for finding in check.findings]
    if isinstance(index, OffsetEntries):
        verdicts = judge_offset_index(check.facts, index)
    elif isinstance(index, TimeEntries):
        verdicts = judge_time_index(check.facts, index)
    else:
        verdicts = judge_transaction_index(check.facts, index)
    unknown = ~verdicts.is_borne_out & ~verdicts.is_wrong
    said = [
        f"file {finding.path!r} is damaged at byte {finding.position}: {finding.what}"
        for finding in check.findings
        if finding.problem
    ]
    return pa.array(verdicts.is_borne_out, mask=unknown), said
