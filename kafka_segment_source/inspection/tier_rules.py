"""One segment of a remote tier: its manifest and its objects against the batches that were read.

Comes in: the facts about a segment. Goes out: a finding for each contradiction. A segment of any other place has none.
A chunk that is damaged or missing is found when its bytes are read (`storage/tiered/chunks.py`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

import numpy as np

from kafka_segment_source.inspection.findings import Finding
from kafka_segment_source.inspection.index_rules import Facts
from kafka_segment_source.storage.routed import find_segment
from kafka_segment_source.storage.tiered.manifest import Manifest
from kafka_segment_source.storage.tiered.segments import INDEXES, LOG, MANIFEST, TierSegment
from kafka_segment_source.times import format_millis

_LEFT_OVER = "no read asks for the bytes after the last chunk"
_CUT = "reads do without the part"
_WRONG_END = "a read of several copies may look for these offsets elsewhere"
_TOO_EARLY = "a read with 'since', and a broker that looks up an offset by time, may pass over the records after that"
_WRONG_EPOCH = "where segments overlap, leader epochs decide which one is read"


def check_tier(facts: Facts) -> Iterator[Finding]:
    """Yields what contradicts the manifest of a segment."""
    tier_segment = find_segment(facts.segment.storage, facts.segment.path)
    if tier_segment is None or tier_segment[1].manifest is None:
        return
    home, segment = tier_segment
    assert segment.manifest is not None
    path = f"{home}/{segment.name.stem}.{MANIFEST}"
    yield from _check_sizes(home, segment, segment.manifest)
    if facts.damaged or not len(facts.batches):
        return
    yield from _check_facts(path, facts, segment.manifest)


def _check_sizes(home: str, segment: TierSegment, manifest: Manifest) -> Iterator[Finding]:
    log = segment.objects[LOG]
    if log.size > manifest.chunks.stored_size:
        what = f"has {log.size:,} bytes, where its manifest states {manifest.chunks.stored_size:,}"
        yield Finding(False, f"{home}/{log.name}", what, _LEFT_OVER)
    indexes = segment.objects.get(INDEXES)
    if indexes is None:
        what = "is missing, although the manifest, which is written after it, is there"
        yield Finding(True, f"{home}/{segment.name.stem}.{INDEXES}", what, _CUT)
        return
    for part, (position, size) in manifest.parts.items():
        if position + size > indexes.size:
            what = f"part {part!r} ends at byte {position + size:,} by the manifest, after the {indexes.size:,} bytes that are there"
            yield Finding(True, f"{home}/{indexes.name}", what, _CUT, position)


def _check_facts(path: str, facts: Facts, manifest: Manifest) -> Iterator[Finding]:
    batches = facts.batches
    last = int(batches.last_offsets[-1])
    if last != manifest.last_offset:
        what = f"states endOffset {manifest.last_offset}, but its last batch ends at offset {last}"
        yield Finding(True, path, what, _WRONG_END, None, last)
    latest = int(batches.max_timestamps[~batches.is_empty].max(initial=-1))
    if latest > manifest.latest:
        at = int(np.argmax(batches.max_timestamps > manifest.latest))
        what = f"states maxTimestampMs {format_millis(manifest.latest)}, but a batch has {format_millis(latest)}"
        yield Finding(True, path, what, _TOO_EARLY, int(batches.positions[at]), int(batches.base_offsets[at]))
    if manifest.epochs:
        starts = [start for _, start in manifest.epochs]
        for base, epoch in zip(batches.base_offsets.tolist(), batches.leader_epochs.tolist(), strict=True):
            slot = bisect_right(starts, base) - 1
            if epoch >= 0 and (slot < 0 or manifest.epochs[slot][0] != epoch):
                stated = "none" if slot < 0 else manifest.epochs[slot][0]
                what = f"states leader epoch {stated} for offset {base}, but its batch has {epoch}"
                yield Finding(True, path, what, _WRONG_EPOCH, None, base)
                return
