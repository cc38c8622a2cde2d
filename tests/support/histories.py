"""What may become of a log after somebody looked at it: it grows, shrinks, is refilled, compacted, or is another log.

In: a `GeneratedLog` and bytes that say where. Out: another, whose truth is its own. Batches that are written again come
without index files.
"""

from __future__ import annotations

from dataclasses import replace

from .batches import BatchSpec, Written
from .logs import GeneratedLog, Segment, simple_segment

NEW_EPOCHS = 1000  # above any that the strategies give


def spec_of(batch: Written, keep: int = 0b11111111, shift: int = 0, epochs: int = 0) -> BatchSpec:
    """A batch as a spec: uncompressed, of the records that the bits of `keep` name, `shift` ms later, of a later epoch.

    An entry of magic 0 or 1 keeps its records: one without any is no entry.
    """
    is_v2 = batch.magic == 2
    kept = [record for n, record in enumerate(batch.records) if not is_v2 or batch.is_control or keep >> n % 8 & 1]
    value = next((record.value for record in batch.records if record.value is not None), b"")
    marker = "abort" if batch.is_control and (batch.records[0].key or b"")[-1:] == b"\0" else "commit"
    first = batch.records[0] if batch.records else None
    return BatchSpec(
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        rows=tuple((r.offset, _moved(r.timestamp, shift)) for r in kept),
        magic=batch.magic,  # type: ignore[arg-type]  # 0, 1 or 2
        append_time=_moved(batch.max_timestamp, shift) if batch.append_time else None,
        max_timestamp=None if kept else _moved(batch.max_timestamp, shift),
        control=marker if batch.is_control else None,  # type: ignore[arg-type]  # one of two words
        producer_id=-1 if first is None else first.producer_id,
        transactional=first is not None and first.is_transactional,
        leader_epoch=epochs + (0 if first is None else max(first.leader_epoch, 0)),
        payload=value.count(b"."),
    )


def _moved(timestamp: int, shift: int) -> int:
    """A timestamp some ms later, still a timestamp; a missing one stays missing."""
    return timestamp if timestamp < 0 else min(max(timestamp + shift, 0), 2**63 - 1)


def cut(log: GeneratedLog, at: int) -> GeneratedLog:
    """The log's first `at` batches; index files stay as they are, and so may run ahead."""
    segments = []
    for segment in log.segments:
        batches = segment.batches[:at]
        size = batches[-1].end if batches else 0
        segments.append(replace(segment, log=segment.log[:size], batches=batches))
        at -= len(segment.batches)
        if at <= 0:
            break
    return replace(log, segments=tuple(segments))


def refilled(log: GeneratedLog, at: int, shift: int) -> GeneratedLog:
    """The log truncated to its first `at` batches; then a new leader wrote as many again, at other times."""
    segments = []
    for segment in log.segments:
        old, new = segment.batches[: max(at, 0)], segment.batches[max(at, 0) :]
        if new:
            specs = [spec_of(batch) for batch in old] + [spec_of(batch, 255, shift, NEW_EPOCHS) for batch in new]
            again = simple_segment(specs, base=segment.base_offset)
            head = b"".join(batch.data for batch in old)
            tail = [batch for batch in again.batches if batch.base_offset > (old[-1].last_offset if old else -1)]
            segments.append(_of(segment, head, old, tail))
        else:
            segments.append(segment)
        at -= len(segment.batches)
    return replace(log, segments=tuple(segments))


def compacted(log: GeneratedLog, choices: bytes, merge: bool) -> GeneratedLog:
    """The log less some records and some batches, never the last one; two segments may have become one."""
    segments = []
    for number, segment in enumerate(log.segments):
        specs = []
        for n, batch in enumerate(segment.batches):
            choice = choices[(number + n) % len(choices)]
            is_last = number == len(log.segments) - 1 and n == len(segment.batches) - 1
            if is_last or choice % 4 or batch.magic != 2:
                specs.append(spec_of(batch, 255 if choice % 4 == 1 or is_last else choice | 1))
        segments.append(simple_segment(specs, base=segment.base_offset))
    if merge and len(segments) > 1:
        specs = [spec_of(batch) for segment in segments[:2] for batch in segment.batches]
        segments[:2] = [simple_segment(specs, base=segments[0].base_offset)]
    return replace(log, segments=tuple(segments))


def share_a_batch(one: GeneratedLog, other: GeneratedLog) -> bool:
    """Whether a batch of one log is in the other, byte for byte, in the same place of the same segment."""
    places = [
        {(s.base_offset, batch.position, batch.data) for s in log.segments for batch in s.batches}
        for log in (one, other)
    ]
    return bool(places[0] & places[1])


def _of(segment: Segment, head: bytes, old: tuple[Written, ...], tail: list[Written]) -> Segment:
    """A segment of batches as they were and then of others, with the positions that this gives them."""
    position = len(head)
    moved = []
    for batch in tail:
        records = tuple(replace(record, position=position) for record in batch.records)
        moved.append(replace(batch, position=position, records=records))
        position = moved[-1].end
    log = head + b"".join(batch.data for batch in moved)
    return replace(segment, log=log, index=None, timeindex=None, batches=(*old, *moved))
