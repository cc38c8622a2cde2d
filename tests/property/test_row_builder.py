"""row_builder: its Arrow batches are those that `arrow.py` makes of the same records, and so is the error there."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import kafka_segment_source as kafkaseg
from kafka_segment_source.decoding import memory_blocks, records
from kafka_segment_source.decoding.row_builder import RowBuilder
from kafka_segment_source.errors import KafkaSegmentError
from kafka_segment_source.reporting import logger
from tests.support import writer
from tests.support.logs import GeneratedLog
from tests.support.strategies import Bounds, logs_and_bounds, options_of, partition_logs
from tests.support.writer import Rec

COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
Outcome = tuple[list[pa.RecordBatch], str]


@pytest.fixture(autouse=True, scope="module")
def _quiet() -> Iterator[None]:
    with mock.patch.object(logger, "propagate", False):
        logger.setLevel(logging.CRITICAL)
        yield
    logger.setLevel(logging.NOTSET)  # a level that is set as a field would stay in the logger's memory


def read(path: str, builds: bool, **options: Any) -> Outcome:
    """The batches of a scan, and the error after them."""
    found: list[pa.RecordBatch] = []
    can_make = RowBuilder.can_make if builds else lambda _: False
    with mock.patch.object(RowBuilder, "can_make", can_make):
        try:
            found.extend(kafkaseg.scan(path, **options))
        except KafkaSegmentError as error:
            return found, f"{type(error).__name__}: {error}"
    return found, ""


def check(path: str, **options: Any) -> Outcome:
    """Raises AssertionError unless both ways give the same."""
    one, other = read(path, False, **options), read(path, True, **options)
    assert other == one
    for batch in other[0]:
        batch.validate(full=True)
    return other


@given(
    pair=logs_and_bounds(partition_logs(magics=(1, 2), log_damage=True, far_future=True)),
    damage=st.none() | st.integers(0, 2**32),
    columns=st.sets(st.sampled_from(COLUMNS), min_size=1).map(sorted),
    mode=st.sampled_from(["FAILFAST", "DROPMALFORMED"]),
    rows=st.sampled_from([1, 3, 65_536]),
    most_bytes=st.sampled_from([1, 300, 16 * 2**20]),
)
def test_any_log(
    pair: tuple[GeneratedLog, Bounds], damage: int | None, columns: list[str], mode: str, rows: int, most_bytes: int
) -> None:
    """Any log and bounds, any columns, and wherever an Arrow batch ends."""
    log, asked = pair
    with tempfile.TemporaryDirectory() as directory:
        log.write(Path(directory))
        for path in sorted(Path(directory).rglob("*.log")) if damage is not None else ():
            data, random = bytearray(path.read_bytes()), Random(damage)
            if len(data) > 100:
                at = random.randrange(61, len(data))
                data[at] ^= 1 << random.randrange(8)
                path.write_bytes(data)
        options = options_of(asked) | {"mode": mode, "failOnDataLoss": False, "checkCrcs": damage is None}
        with mock.patch.object(records, "MAX_ROWS", rows), mock.patch.object(records, "MAX_BYTES", most_bytes):
            found, error = check(directory, columns=columns, **options)
        event(f"{min(len(found), 2)} batches, {error.partition(':')[0] or 'no error'}")


def write_many(folder: Path, nulls: float) -> None:
    """A segment of three batches with 5,000 records, which take several turns of the kernel."""
    random = Random(0)

    def part(most: int) -> bytes | None:
        return None if random.random() < nulls else random.randbytes(random.randrange(most))

    batches = [
        writer.record_batch(
            [Rec(n, random.randrange(10**12), part(20), part(300)) for n in range(count)],
            base_offset=base,
            codec=codec,
        )
        for base, count, codec in ((0, 1023, "none"), (1023, 2, "lz4"), (1025, 3975, "none"))
    ]
    (folder / "orders-0").mkdir()
    (folder / "orders-0" / writer.segment_name(0)).write_bytes(b"".join(batches))


def from_offset(offset: int) -> str:
    return f'{{"orders": {{"0": {offset}}}}}'


@pytest.mark.parametrize("nulls", [0, 0.001, 0.3, 1])
@pytest.mark.parametrize("rows", [1000, 1024, 2047, 65_536])
def test_many_records(nulls: float, rows: int, tmp_path: Path) -> None:
    """More records than the kernel takes at a time, with nulls early, late, or nowhere."""
    write_many(tmp_path, nulls)
    with mock.patch.object(records, "MAX_ROWS", rows):
        found, error = check(str(tmp_path), columns=COLUMNS)
    assert not error and sum(batch.num_rows for batch in found) == 5000
    some, error = check(
        str(tmp_path), columns=COLUMNS, startingOffsets=from_offset(1000), endingOffsets=from_offset(1100)
    )
    assert not error and sum(batch.num_rows for batch in some) == 100
    sizes = [batch.select(["key", "value", "offset"]).get_total_buffer_size() for batch in some]
    assert sum(sizes) < 40_000  # no block that is mostly unused is kept


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_timestamps_beyond_microseconds(codec: writer.Codec, tmp_path: Path) -> None:
    """The first one is told, with its offset and batch; without the column they are no damage."""
    batches = [
        writer.record_batch(
            [Rec(n, 10**17 + n if n % 4 == 2 else n, b"k", b"v") for n in range(8)], base_offset=base, codec=codec
        )
        for base in (0, 8)
    ]
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / writer.segment_name(0)).write_bytes(b"".join(batches))
    found, error = check(str(tmp_path), columns=COLUMNS)
    assert not found and f"offset 2: found {10**17 + 2} ms" in error
    assert sum(batch.num_rows for batch in check(str(tmp_path), columns=["key", "offset"])[0]) == 16


def test_blocks_are_used_again() -> None:
    """A large one comes back when its last buffer is gone, if it fits. Small ones are not kept, and no more than 32 MiB
    are."""
    memory_blocks._kept.clear()
    block = memory_blocks.take_block(1_000_000)
    address = block.data.ctypes.data
    buffers = block.make_buffers([(0, 600_000), (600_000, 300_000)])
    del block, buffers[0]
    assert not memory_blocks._kept
    buffers.clear()
    assert len(memory_blocks._kept) == 1
    assert memory_blocks.take_block(5_000_000).data.ctypes.data != address  # and it is kept in turn
    assert memory_blocks.take_block(990_000).data.ctypes.data == address
    del buffers
    many = [memory_blocks.take_block(3 * 2**20) for _ in range(20)]
    small = [memory_blocks.take_block(1000) for _ in range(20)]
    del many, small
    assert 28 * 2**20 < sum(map(len, memory_blocks._kept)) <= 32 * 2**20
    assert min(map(len, memory_blocks._kept)) >= 256 * 1024


def test_rows_that_are_kept_stay_as_they_are(tmp_path: Path) -> None:
    """Memory is used again only when nothing refers to it: neither a batch, nor a column or a slice of one."""
    write_many(tmp_path, 0.1)
    kept, wanted = [], []
    for _ in range(3):
        for batch in kafkaseg.scan(tmp_path, columns=COLUMNS):
            for part in (batch.column("value").slice(7), batch.column("offset"), batch):
                kept.append(part)
                wanted.append(part.to_pylist())
            del batch, part
    assert [part.to_pylist() for part in kept] == wanted
