"""view=batches gives each wanted batch once: any log, any index files, any bounds, with and without the bytes."""

from __future__ import annotations

import struct
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

import kafka_segment_source as kafkaseg
from kafka_segment_source.decoding import header_walk
from tests.property.test_pruning import in_order, written
from tests.support.logs import GeneratedLog
from tests.support.strategies import Bounds, logs_and_bounds, options_of, partition_logs

MANY = settings(max_examples=settings().max_examples * 2)

logs = logs_and_bounds(partition_logs(index_damage=True, log_damage=True, far_future=True))
ways = st.fixed_dictionaries(
    {"checkCrcs": st.booleans()},
    optional={
        "trustIndexes": st.booleans(),
        "includeControl": st.booleans(),
        "minPartitions": st.integers(1, 9),
        "maxRecordsPerPartition": st.integers(1, 7),
    },
)


@dataclass(frozen=True)
class Header:
    """A batch header as the format's page has it, by plain `struct`."""

    base_offset: int
    size: int
    is_control: bool
    count: int
    last_offset: int
    first: int
    largest: int


def read_header(data: bytes) -> Header:
    base, length, magic = struct.unpack_from(">qi4xb", data)
    if magic == 2:
        attributes, delta, first, largest = struct.unpack_from(">hiqq", data, 21)
        (count,) = struct.unpack_from(">i", data, 57)
        if attributes & 0x48:  # LogAppendTime, or a delete horizon in place of the base timestamp
            first = largest
        return Header(base, 12 + length, bool(attributes & 0x20), count, base + delta, min(first, largest), largest)
    timestamp = struct.unpack_from(">q", data, 18)[0] if magic == 1 else -1
    return Header(base, 12 + length, False, -1, base, timestamp, timestamp)


def wanted(log: GeneratedLog, asked: Bounds, include_control: bool) -> list[tuple[int, int]]:
    """Position and size of each batch that the page of views promises."""
    found = []
    since = -(2**63) if asked.since is None else asked.since
    until = 2**63 if asked.until is None else asked.until
    start, end = (0, 2**63) if asked.offsets is None else asked.offsets
    for segment in log.segments:
        for batch in segment.batches:
            header = read_header(segment.log[batch.position :])
            inside = start <= header.last_offset < end
            if asked.since is not None or asked.until is not None:
                inside &= since < until and header.count != 0 and header.largest >= since and header.first < until
            if inside and (include_control or not header.is_control):
                found.append((batch.position, header.size))
    return found


def scanned(directory: str, asked: Bounds, **more: Any) -> list[tuple[int, int]]:
    table = kafkaseg.scan(directory, ["position", "size"], view="batches", **options_of(asked), **more).read_all()
    return list(zip(table["position"].to_pylist(), table["size"].to_pylist(), strict=True))


@given(pair=logs_and_bounds(partition_logs(far_future=True)), crcs=st.booleans())
def test_zone_maps_leave_no_wanted_batch_out(pair: tuple[GeneratedLog, Bounds], crcs: bool) -> None:
    """They know data batches only, so they are used with includeControl=false."""
    log, asked = pair
    assume(in_order(asked))
    with written(log) as directory, tempfile.TemporaryDirectory() as maps:
        kafkaseg.update_zone_maps_locally(directory, maps)
        found = scanned(directory, asked, zoneMaps=maps, includeControl=False, checkCrcs=crcs)
        assert found == wanted(log, asked, include_control=False)


@MANY
@given(pair=logs, how=ways, walks=st.booleans())
def test_batches_are_the_wanted_ones(pair: tuple[GeneratedLog, Bounds], how: dict[str, Any], walks: bool) -> None:
    """For any log and any bounds, by headers alone, by whole bytes, and by the first after the second."""
    log, asked = pair
    assume(in_order(asked))
    before = header_walk.SMALL_BATCH
    header_walk.SMALL_BATCH = 0 if walks else before
    try:
        with written(log) as directory:
            assert Path(directory).is_dir()
            assert scanned(directory, asked, **how) == wanted(log, asked, how.get("includeControl", True))
    finally:
        header_walk.SMALL_BATCH = before
