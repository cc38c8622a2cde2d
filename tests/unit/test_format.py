"""format: the numbers agree with one another and with bytes written without them."""

from __future__ import annotations

import ast
import struct
from pathlib import Path

from kafka_segment_source import format as fmt
from tests.support import writer
from tests.support.writer import Rec


def test_field_offsets_follow_the_header_struct() -> None:
    """Each *_AT constant is where BATCH_HEADER has that field, and the header is 61 bytes."""
    places = [fmt.BASE_OFFSET_AT, fmt.LENGTH_AT, fmt.LEADER_EPOCH_AT, fmt.MAGIC_AT, fmt.CRC_AT, fmt.ATTRIBUTES_AT]
    places += [fmt.LAST_OFFSET_DELTA_AT, fmt.BASE_TIMESTAMP_AT, fmt.MAX_TIMESTAMP_AT, fmt.PRODUCER_ID_AT]
    places += [fmt.PRODUCER_EPOCH_AT, fmt.BASE_SEQUENCE_AT, fmt.RECORDS_COUNT_AT]
    codes = fmt.BATCH_HEADER.format.removeprefix(">")
    ends = [struct.calcsize(">" + codes[: n + 1]) for n in range(len(codes))]

    assert [0, *ends[:-1]] == places
    assert ends[-1] == fmt.BATCH_OVERHEAD == 61
    assert fmt.MIN_BATCH_LENGTH == 49 and fmt.LOG_OVERHEAD == 12 and fmt.MAGIC_END == fmt.MAGIC_AT + 1


def test_header_of_a_written_batch() -> None:
    """BATCH_HEADER reads what an independent writer wrote, field by field."""
    batch = writer.record_batch(
        [Rec(0, 40, b"k", b"v"), Rec(3, 90, None, None)],
        base_offset=1000,
        leader_epoch=5,
        producer_id=77,
        producer_epoch=3,
        base_sequence=12,
        transactional=True,
        timestamp_type=1,
    )
    base, length, epoch, magic, _, attributes, delta, first, newest, pid, pepoch, sequence, count = (
        fmt.BATCH_HEADER.unpack(batch[: fmt.BATCH_OVERHEAD])
    )

    assert (base, length, epoch, magic, delta) == (1000, len(batch) - fmt.LOG_OVERHEAD, 5, fmt.MAGIC_V2, 3)
    assert (first, newest, pid, pepoch, sequence, count) == (40, 90, 77, 3, 12, 2)
    assert attributes == fmt.TIMESTAMP_TYPE_MASK | fmt.TRANSACTIONAL_MASK


def test_smallest_sizes_are_those_of_the_smallest_records() -> None:
    """A record of nothing takes MIN_RECORD_BYTES, a header of nothing MIN_HEADER_BYTES, an entry of
    nothing MIN_LENGTH."""
    empty = writer.record(Rec(0, 0), base_timestamp=0)
    assert len(empty) == fmt.MIN_RECORD_BYTES
    assert len(writer.record(Rec(0, 0, None, None, ((b"", None),)), 0)) == len(empty) + fmt.MIN_HEADER_BYTES
    assert len(writer.message(0, None, None, magic=0)) == fmt.MIN_LENGTH_V0 + fmt.LOG_OVERHEAD
    assert len(writer.message(0, None, None, magic=1)) == fmt.MIN_LENGTH_V1 + fmt.LOG_OVERHEAD


def test_codec_names_are_by_id() -> None:
    """CODEC_NAMES has each codec's name, in kafka-dump-log's words, at its id."""
    ids = [fmt.CODEC_NONE, fmt.CODEC_GZIP, fmt.CODEC_SNAPPY, fmt.CODEC_LZ4, fmt.CODEC_ZSTD]
    assert [fmt.CODEC_NAMES[codec] for codec in ids] == ["none", "gzip", "snappy", "lz4", "zstd"]
    assert len(fmt.CODEC_NAMES) == 5 <= fmt.CODEC_MASK


def test_format_has_no_code() -> None:
    """The format module is constants and text: no function, no class, no control flow."""
    tree = ast.parse(Path(fmt.__file__).read_text())
    odd = [node for node in tree.body if not isinstance(node, (ast.AnnAssign, ast.Import, ast.ImportFrom, ast.Expr))]
    assert odd == []
