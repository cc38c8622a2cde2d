"""Several copies of a partition → what they hold together.

A read of several copies takes each offset from a copy that holds it (`partition/chain.py`, `reading/mending.py`). So
damage of one copy loses records only if no other copy holds them. Every copy is read once more if one has a loss. If
they hold all records together, the partition is read as a query reads it: what that ends with is the last word. So it
is if a copy has gaps that no checkpoint explains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.errors import DataError, DataLossError, FileChangedError, PathError, StorageError
from kafka_segment_source.inspection.copy_places import find_contradictions
from kafka_segment_source.inspection.findings import Finding
from kafka_segment_source.inspection.segment_check import CHANGED
from kafka_segment_source.inspection.verify import Verified
from kafka_segment_source.logdir.segments import ListedLog, PartitionLog
from kafka_segment_source.options import ReadOptions
from kafka_segment_source.partition.chain import list_paths
from kafka_segment_source.partition.logs import available_copies, examined_logs
from kafka_segment_source.partition.missing import all_evidence
from kafka_segment_source.reading.lost_offsets import find_lost
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.source import Source
from kafka_segment_source.storage.retrying import try_again
from kafka_segment_source.trust import Policy

_HELD = "another of the given copies holds these records: a query of all these paths returns them"
_LOST = "a query of these offsets ends with an error (mode, failOnDataLoss); look for another replica of this partition"
_CUT = "a broker would drop these records from this copy; a query of all these paths leaves them out"
_UNDECIDED = "a query of all these paths ends with this error"


@dataclass(frozen=True, slots=True)
class _Loss:
    """Offsets that no copy holds, and why.

    offsets: None where the error of a read does not say them.
    is_missing: whether no copy has any batch or damage there.
    """

    offsets: OffsetRange | None
    what: str
    is_missing: bool = False


def combine_copies(
    copies: Sequence[Verified], logs: Sequence[ListedLog], source: Source, policy: Policy, *, deep: bool
) -> tuple[list[Verified], list[Finding]]:
    """Returns the results of one partition's copies, and findings about what the copies hold together.

    A loss of one copy is a note, not a problem, if another copy holds the records.

    copies: the results for single copies. logs: the copies as they were listed. deep: whether records are decoded.
    """
    paths = source.in_order(dict.fromkeys(path for log in logs for path in list_paths(log)))
    here = source.at(paths).to_end_of_files()
    directory = copies[0].directory
    try:
        losses, cuts, contradictions = try_again(partial(_find_losses, copies, here, policy, deep))
    except FileChangedError as error:
        return list(copies), [Finding(False, directory, str(error), CHANGED)]
    except (PathError, StorageError) as error:
        return list(copies), [Finding(True, directory, str(error), _UNDECIDED)]
    together = [
        Finding(True, directory, loss.what, _LOST, None, None if loss.offsets is None else loss.offsets.start)
        for loss in losses
    ]
    together += [*contradictions, *(Finding(False, directory, cut, _CUT) for cut in cuts)]
    return [_note_held_losses(copy, losses) for copy in copies], together


def _find_losses(
    copies: Sequence[Verified], source: Source, policy: Policy, deep: bool
) -> tuple[list[_Loss], list[str], list[Finding]]:
    """Returns the offsets that no copy holds, a sentence for each copy that is cut by its history, and problems of
    copies that contradict each other."""
    cuts = Warnings()
    contradictions = list(find_contradictions(copies, available_copies(source, policy, cuts)))
    [log] = examined_logs(source, policy, Warnings())
    where = f"{log.topic}-{log.partition}"
    losses = [
        _Loss(evidence.offsets, evidence.lost(where)) for evidence in all_evidence(log, log.end) if evidence.is_hard
    ]
    has_losses = any(finding.is_loss for copy in copies for finding in copy.findings)
    if has_losses:
        losses += [
            _Loss(lost.offsets, str(lost.error), isinstance(lost.error, DataLossError))
            for lost in find_lost(source, policy, decodes=deep)
        ]
    holes = [hole for hole in log.holes if not any(_overlap(loss, hole.offsets) for loss in losses)]
    losses += [_Loss(hole.offsets, _explain_hole(log, hole.offsets, hole.why)) for hole in holes]
    asks_in_gaps = not log.compacted and any(copy.has_gaps for copy in copies)
    may_be_compaction = asks_in_gaps and all(loss.is_missing for loss in losses)
    if may_be_compaction or (has_losses and not losses):
        found = _read_once(source, policy)
        losses = (losses or found) if found else []
    return losses, cuts, contradictions


def _overlap(loss: _Loss, offsets: OffsetRange) -> bool:
    return loss.offsets is not None and not loss.offsets.intersect(offsets).is_empty


def _read_once(source: Source, policy: Policy) -> list[_Loss]:
    """Returns the error that a read of a partition ends with, as a loss. Nothing if it reads to the end."""
    from kafka_segment_source.planning.planner import make_plan  # noqa: PLC0415  # most copies have no loss

    try:
        for _ in make_plan(ReadOptions(source, policy=policy)).to_reader(["offset"], threads=1):
            pass
    except (DataError, DataLossError) as error:
        offset = error.offset if isinstance(error, DataError) else None
        return [_Loss(None if offset is None else OffsetRange(offset, offset + 1), str(error))]
    return []


def _explain_hole(log: PartitionLog, offsets: OffsetRange, why: str) -> str:
    return f"no copy holds the offsets {offsets.start} to {offsets.end - 1} of {log.topic}-{log.partition}: {why}"


def _note_held_losses(copy: Verified, losses: Sequence[_Loss]) -> Verified:
    """Returns the results of a copy, with a note for each loss whose records another copy holds."""

    def is_held(finding: Finding) -> bool:
        if finding.offset is None:
            return not losses
        return not any(_overlap(loss, OffsetRange(finding.offset, finding.offset + 1)) for loss in losses)

    findings = [
        replace(finding, problem=False, meaning=_HELD) if finding.is_loss and is_held(finding) else finding
        for finding in copy.findings
    ]
    return replace(copy, findings=tuple(findings))
