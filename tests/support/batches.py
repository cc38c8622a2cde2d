"""One batch of a simulated partition: what to write (`BatchSpec`), and the truth about what was written (`Written`).

In: offsets, timestamps and the circumstances of a batch. Out: its bytes at a position, the records a consumer will get,
and the facts that index writers use. Keys, values and headers follow from the offset alone, so that logs stay small to
read and to shrink. Section numbers are those of docs/kafka-log-format.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from . import writer
from .naive import CREATE_TIME, LOG_APPEND_TIME, NO_TIMESTAMP, NO_TIMESTAMP_TYPE, Header, Record
from .writer import Codec, Marker, Rec


@dataclass(frozen=True)
class BatchSpec:
    """A batch to write. `rows` are (offset, timestamp given by the producer); offsets may have gaps anywhere.

    `append_time` makes the batch LogAppendTime. `max_timestamp` overrides the true one: of an empty batch (which keeps
    that of removed rows), or of a v1 wrapper of 0.10.0 (which keeps what the producer sent).
    """

    base_offset: int
    last_offset: int
    rows: tuple[tuple[int, int], ...] = ()
    magic: Literal[0, 1, 2] = 2
    codec: Codec = "none"
    append_time: int | None = None
    max_timestamp: int | None = None
    base_timestamp: int | None = None
    delete_horizon: bool = False
    control: Marker | None = None
    producer_id: int = -1
    transactional: bool = False
    leader_epoch: int = 0
    payload: int = 0


@dataclass(frozen=True)
class Written:
    """A v2 batch or a v0/v1 entry in a `.log`: bytes, records, and what index writers know of it.

    `shallow_offset` is the offset field of its header (of a v0/v1 wrapper: the last inner offset); `base_offset` is its
    first offset; `exact_offset` that of the first record with the largest timestamp.
    """

    position: int
    data: bytes
    magic: int
    compressed: bool
    append_time: bool
    is_control: bool
    base_offset: int
    shallow_offset: int
    last_offset: int
    max_timestamp: int
    records: tuple[Record, ...]

    @property
    def end(self) -> int:
        """Position after it."""
        return self.position + len(self.data)

    @property
    def exact_offset(self) -> int:
        """Offset of the first record with the batch's largest timestamp, or the last offset if no record has it."""
        having = [record.offset for record in self.records if record.timestamp == self.max_timestamp]
        return having[0] if having else self.last_offset

    @property
    def max_retained_offset(self) -> int:
        """Offset of its last record, or its last offset if it has none."""
        return self.records[-1].offset if self.records else self.last_offset


# --- short ways to write a spec, for examples ------------------------------------------------------------------------


def data(
    first: int,
    *timestamps: int,
    offsets: Sequence[int] | None = None,
    base: int | None = None,
    last: int | None = None,
    codec: Codec = "none",
    magic: Literal[0, 1, 2] = 2,
    append_time: int | None = None,
    max_timestamp: int | None = None,
    payload: int = 0,
) -> BatchSpec:
    """Data rows at `first`, `first`+1 … (or at `offsets`), one a timestamp; `base` and `last` widen the batch."""
    places = range(first, first + len(timestamps)) if offsets is None else offsets
    return BatchSpec(
        base_offset=first if base is None else base,
        last_offset=places[-1] if last is None else last,
        rows=tuple(zip(places, timestamps, strict=True)),
        codec=codec,
        magic=magic,
        append_time=append_time,
        max_timestamp=max_timestamp,
        payload=payload,
    )


def control(offset: int, timestamp: int, marker: Marker = "commit", producer_id: int = 1) -> BatchSpec:
    """A transaction marker (section 1.4)."""
    return BatchSpec(
        offset, offset, ((offset, timestamp),), control=marker, producer_id=producer_id, transactional=True
    )


def empty(first: int, last: int, max_timestamp: int) -> BatchSpec:
    """A compacted batch without records that kept its largest timestamp (section 1.3)."""
    return BatchSpec(first, last, max_timestamp=max_timestamp, producer_id=1)


# --- from spec to bytes and truth ------------------------------------------------------------------------------------


def content(offset: int, payload: int = 0) -> tuple[bytes | None, bytes | None, tuple[Header, ...]]:
    """Key, value and headers of the record at `offset`: some null, some empty; values carry `payload` more bytes."""
    key = None if offset % 7 == 3 else b"k%d" % offset
    value = None if offset % 5 == 2 else b"v%d" % offset + b"." * payload
    headers: tuple[Header, ...] = ((b"h", b"%d" % offset), (b"h", None)) if offset % 3 == 1 else ()
    return key, value, headers


def write_batch(spec: BatchSpec, position: int) -> list[Written]:
    """The spec as bytes from `position` on: one `Written`, or one for each plain entry of a v0/v1 message set."""
    if spec.magic == 2:
        return [_write_v2(spec, position)]
    if spec.codec != "none":
        return [_write_legacy(spec, position)]
    entries = []
    for offset, timestamp in spec.rows:
        one = replace(spec, rows=((offset, timestamp),), base_offset=offset, last_offset=offset)
        entries.append(_write_legacy(one, position))
        position = entries[-1].end
    return entries


def _write_v2(spec: BatchSpec, position: int) -> Written:
    recs = [_rec(spec, offset, timestamp) for offset, timestamp in spec.rows]
    max_timestamp = _max_timestamp(spec)
    base_sequence = spec.base_offset % 2**31 if spec.producer_id >= 0 and spec.control is None else -1
    data = writer.record_batch(
        recs,
        base_offset=spec.base_offset,
        codec=spec.codec,
        timestamp_type=0 if spec.append_time is None else 1,
        leader_epoch=spec.leader_epoch,
        producer_id=spec.producer_id,
        producer_epoch=_producer_epoch(spec),
        base_sequence=base_sequence,
        transactional=spec.transactional,
        control=spec.control is not None,
        last_offset_delta=spec.last_offset - spec.base_offset,
        base_timestamp=spec.base_timestamp,
        max_timestamp=max_timestamp,
        delete_horizon=spec.delete_horizon,
    )
    sequences = [-1 if base_sequence < 0 else (base_sequence + rec.offset_delta) % 2**31 for rec in recs]
    records = [_record(spec, rec, position, sequence) for rec, sequence in zip(recs, sequences, strict=True)]
    return _written(spec, position, data, spec.base_offset, spec.last_offset, records)


def _write_legacy(spec: BatchSpec, position: int) -> Written:
    recs = [_rec(spec, offset, timestamp) for offset, timestamp in spec.rows]
    if spec.magic == 0:
        data = writer.message_set_v0(recs, base_offset=spec.base_offset, codec=spec.codec)
    else:
        data = writer.message_set_v1(
            recs,
            base_offset=spec.base_offset,
            codec=spec.codec,
            timestamp_type=0 if spec.append_time is None else 1,
            inner_offsets="absolute" if spec.base_offset % 2 else "relative",
            wrapper_timestamp=_max_timestamp(spec),
        )
    records = [_record(spec, rec, position, -1) for rec in recs]
    # The offset of an entry is that of its last record, whatever range the producer's batch once had.
    return _written(spec, position, data, records[0].offset, records[-1].offset, records)


def _written(spec: BatchSpec, position: int, data: bytes, first: int, last: int, records: Sequence[Record]) -> Written:
    return Written(
        position=position,
        data=data,
        magic=spec.magic,
        compressed=spec.codec != "none",
        append_time=spec.append_time is not None and spec.magic > 0,
        is_control=spec.control is not None,
        base_offset=first,
        shallow_offset=first if spec.magic == 2 else last,
        last_offset=last,
        max_timestamp=_max_timestamp(spec),
        records=tuple(records),
    )


def _max_timestamp(spec: BatchSpec) -> int:
    """What the header says: nothing in v0, the append time, the override, or the largest of the rows."""
    if spec.magic == 0:
        return NO_TIMESTAMP
    if spec.append_time is not None:
        return spec.append_time
    if spec.max_timestamp is not None and (spec.magic == 2 or spec.codec != "none"):
        return spec.max_timestamp
    return max((timestamp for _, timestamp in spec.rows), default=NO_TIMESTAMP)


def _producer_epoch(spec: BatchSpec) -> int:
    return 0 if spec.producer_id >= 0 else -1


def _rec(spec: BatchSpec, offset: int, timestamp: int) -> Rec:
    key, value, headers = content(offset, spec.payload)
    if spec.control is not None:
        key, value, headers = writer.marker_key(spec.control), bytes(6), ()
    return Rec(offset - spec.base_offset, timestamp, key, value, headers if spec.magic == 2 else ())


def _record(spec: BatchSpec, rec: Rec, position: int, sequence: int) -> Record:
    """What a consumer gets of `rec`."""
    timestamp, timestamp_type = rec.timestamp, CREATE_TIME
    if spec.magic == 0:
        timestamp, timestamp_type = NO_TIMESTAMP, NO_TIMESTAMP_TYPE
    elif spec.append_time is not None:
        timestamp, timestamp_type = spec.append_time, LOG_APPEND_TIME
    return Record(
        offset=spec.base_offset + rec.offset_delta,
        timestamp=timestamp,
        timestamp_type=timestamp_type,
        key=rec.key,
        value=rec.value,
        headers=list(rec.headers),
        base_offset=spec.base_offset if spec.magic == 2 else spec.rows[0][0],
        position=position,
        magic=spec.magic,
        codec=spec.codec.split("-")[0],
        leader_epoch=spec.leader_epoch if spec.magic == 2 else -1,
        producer_id=spec.producer_id if spec.magic == 2 else -1,
        producer_epoch=_producer_epoch(spec) if spec.magic == 2 else -1,
        sequence=sequence,
        is_transactional=spec.transactional and spec.magic == 2,
        is_control=spec.control is not None,
    )
