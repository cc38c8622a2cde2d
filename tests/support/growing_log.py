"""For tests of streams: a log directory that grows step by step, and an engine that reads it as Spark does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kafka_segment_source.decoding.tables import RECORDS
from kafka_segment_source.option_values import TopicPartition
from kafka_segment_source.options import parse_options
from kafka_segment_source.scanning import read_splits
from kafka_segment_source.streams.positions import from_json, to_json
from kafka_segment_source.streams.stream import LogStream
from tests.support import writer
from tests.support.writer import Marker, Rec

Rows = list[tuple[int, bytes]]  # offset and value

_SCHEMA = RECORDS.arrow_schema(["topic", "partition", "offset", "value"])


@dataclass
class GrowingPartition:
    """One partition on the disk, and what a consumer may see of it.

    rows: of each offset that is not a control record. ended: producers of ended transactions, by the offset of the
    marker: whether they were committed. torn: the rest of a batch that is half written.
    """

    directory: Path
    end: int = 0
    high_watermark: int = 0
    bases: list[int] = field(default_factory=list)
    rows: dict[int, tuple[bytes, int]] = field(default_factory=dict)  # value and producer, -1 without a transaction
    open: dict[int, list[int]] = field(default_factory=dict)  # producer → offsets
    aborted: set[int] = field(default_factory=set)
    decided: dict[int, int] = field(default_factory=dict)  # offset of a row → offset of its marker
    torn: bytes = b""
    torn_base: int = 0

    def append(self, batch: bytes) -> None:
        if not self.bases:
            self.roll()
        with (self.directory / writer.segment_name(self.bases[-1])).open("ab") as file:
            file.write(batch)

    def roll(self) -> None:
        """Begins a segment at the end, unless the last one is empty."""
        if self.torn or (self.bases and self.bases[-1] == self.end):
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        self.bases.append(self.end)
        (self.directory / writer.segment_name(self.end)).write_bytes(b"")

    def write(self, count: int, producer: int = -1, tears: bool = False) -> None:
        """Appends a batch of `count` records. tears: only its first half is written now."""
        base = self.end
        recs = [Rec(at, 1000 + base + at, b"k", b"%d" % (base + at)) for at in range(count)]
        kind = {} if producer < 0 else {"producer_id": producer, "producer_epoch": 0, "transactional": True}
        batch = writer.record_batch(recs, base_offset=base, last_offset_delta=count - 1, **kind)  # type: ignore[arg-type]
        if tears:
            self.append(batch[: len(batch) // 2])
            self.torn, self.torn_base = batch[len(batch) // 2 :], base
        else:
            self.append(batch)
        self.end += count
        for offset in range(base, self.end):
            self.rows[offset] = b"%d" % offset, producer
            if producer >= 0:
                self.open.setdefault(producer, []).append(offset)

    def mend(self) -> None:
        """Writes the rest of a torn batch."""
        if self.torn:
            self.append(self.torn)
            self.torn = b""

    def end_transaction(self, producer: int, commits: bool) -> None:
        offset = self.end
        kind: Marker = "commit" if commits else "abort"
        self.append(writer.control_batch(kind, offset=offset, timestamp=2000, producer_id=producer, producer_epoch=0))
        self.end += 1
        for each in self.open.pop(producer):
            self.decided[each] = offset
            if not commits:
                self.aborted.add(each)

    @property
    def whole_end(self) -> int:
        """The offset after the last whole batch."""
        return self.torn_base if self.torn else self.end

    def stable_end(self, high_watermark: int) -> int:
        """The last stable offset: where the first transaction without a marker below the high watermark begins."""
        undecided = [
            offset
            for offset, (_, producer) in self.rows.items()
            if producer >= 0 and offset < high_watermark and self.decided.get(offset, high_watermark) >= high_watermark
        ]
        return min(undecided, default=high_watermark)

    def delete_before(self, offset: int) -> int:
        """Deletes segments that end at or before an offset, as retention does. Returns the first offset left."""
        while len(self.bases) > 1 and self.bases[1] <= offset:
            (self.directory / writer.segment_name(self.bases.pop(0))).unlink()
        return self.bases[0] if self.bases else 0


@dataclass
class Engine:
    """Calls a stream as Spark's MicroBatchExecution does, with a checkpoint and a sink that knows batch ids.

    log: the ends of the micro-batches, as their JSON; the first is where the query began. done: how many of them are
    committed. sink: rows by batch id and partition.
    """

    options: dict[str, str]
    clock: float = 0.0
    log: list[dict[str, dict[str, int]]] = field(default_factory=list)
    done: int = 0
    sink: dict[int, dict[TopicPartition, Rows]] = field(default_factory=dict)
    stream: LogStream | None = None

    def start(self, available_now: bool = False) -> None:
        """Begins a query, or begins it again from its checkpoint: a micro-batch that was begun is repeated."""
        options, _ = parse_options(self.options, is_stream=True)
        self.stream = LogStream(options, clock=lambda: self.clock, now=lambda: 1e12)
        if available_now:
            self.stream.set_target()
        if not self.log:
            self.log.append(to_json(self.stream.find_initial()))
        elif len(self.log) - 1 > self.done:
            self._run(len(self.log) - 2)
            self.done += 1

    def trigger(self, limited: bool = True, dies: bool = False) -> bool:
        """Runs one micro-batch. Returns whether there was one. dies: the engine stops before it is committed."""
        assert self.stream is not None
        start = self.log[-1]
        end = to_json(self.stream.find_next(from_json(start), limited))
        if end == start:
            return False
        self.log.append(end)
        self._run(len(self.log) - 2)
        if dies:
            self.stream = None
        else:
            self.done += 1
        return True

    def _run(self, batch: int) -> None:
        assert self.stream is not None
        plan = self.stream.plan(from_json(self.log[batch]), from_json(self.log[batch + 1]))
        rows: dict[TopicPartition, Rows] = {}
        for splits in () if plan is None else plan.tasks:
            assert plan is not None
            for found in read_splits(splits, plan.reading, _SCHEMA):
                for each in found.to_pylist():
                    rows.setdefault((each["topic"], each["partition"]), []).append((each["offset"], each["value"]))
        self.sink[batch] = rows

    @property
    def positions(self) -> dict[TopicPartition, int]:
        return from_json(self.log[-1])

    @property
    def committed(self) -> dict[TopicPartition, int]:
        """The position that no repeated micro-batch begins before."""
        return from_json(self.log[self.done])

    def rows(self) -> dict[TopicPartition, Rows]:
        """All rows, in the order in which they came."""
        found: dict[TopicPartition, Rows] = {}
        for batch in sorted(self.sink):
            for key, rows in self.sink[batch].items():
                found.setdefault(key, []).extend(rows)
        return found


def write_high_watermarks(root: Path, ends: Mapping[TopicPartition, int]) -> None:
    """Writes `replication-offset-checkpoint` as a broker does, by a rename."""
    lines = [f"{topic} {partition} {offset}\n" for (topic, partition), offset in sorted(ends.items())]
    temporary = root / "replication-offset-checkpoint.tmp"
    temporary.write_text(f"0\n{len(lines)}\n{''.join(lines)}")
    temporary.rename(root / "replication-offset-checkpoint")


def list_rows(partitions: Sequence[GrowingPartition]) -> list[tuple[int, int, bytes]]:
    """The partition, offset and value of each record, in order. No batch may be torn, and none transactional."""
    assert not any(each.torn for each in partitions)
    return [
        (number, offset, value)
        for number, each in enumerate(partitions)
        for offset, (value, _) in sorted(each.rows.items())
    ]
