"""format: the numbers agree with one another and with bytes written without them."""

from __future__ import annotations

import ast
import struct
from pathlib import Path

from kafka_segment_source import kafka_format
from tests.support import writer
from tests.support.writer import Rec


def test_field_offsets_follow_the_header_struct() -> None:
    """Each *_AT constant is where BATCH_HEADER has that field, and the header is 61 bytes."""
    places = [
        kafka_format.BASE_OFFSET_AT,
        kafka_format.LENGTH_AT,
        kafka_format.LEADER_EPOCH_AT,
        kafka_format.MAGIC_AT,
        kafka_format.CRC_AT,
        kafka_format.ATTRIBUTES_AT,
    ]
    places += [
        kafka_format.LAST_OFFSET_DELTA_AT,
        kafka_format.BASE_TIMESTAMP_AT,
        kafka_format.MAX_TIMESTAMP_AT,
        kafka_format.PRODUCER_ID_AT,
    ]
    places += [kafka_format.PRODUCER_EPOCH_AT, kafka_format.BASE_SEQUENCE_AT, kafka_format.RECORDS_COUNT_AT]
    codes = kafka_format.BATCH_HEADER.format.removeprefix(">")
    ends = [struct.calcsize(">" + codes[: n + 1]) for n in range(len(codes))]

    assert [0, *ends[:-1]] == places
    assert ends[-1] == kafka_format.BATCH_OVERHEAD == 61
    assert (
        kafka_format.MIN_BATCH_LENGTH == 49
        and kafka_format.LOG_OVERHEAD == 12
        and kafka_format.MAGIC_END == kafka_format.MAGIC_AT + 1
    )


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
        kafka_format.BATCH_HEADER.unpack(batch[: kafka_format.BATCH_OVERHEAD])
    )

    assert (base, length, epoch, magic, delta) == (
        1000,
        len(batch) - kafka_format.LOG_OVERHEAD,
        5,
        kafka_format.MAGIC_V2,
        3,
    )
    assert (first, newest, pid, pepoch, sequence, count) == (40, 90, 77, 3, 12, 2)
    assert attributes == kafka_format.TIMESTAMP_TYPE_MASK | kafka_format.TRANSACTIONAL_MASK


def test_smallest_sizes_are_those_of_the_smallest_records() -> None:
    """A record of nothing takes MIN_RECORD_BYTES, a header of nothing MIN_HEADER_BYTES, an entry of
    nothing MIN_LENGTH."""
    empty = writer.record(Rec(0, 0), base_timestamp=0)
    assert len(empty) == kafka_format.MIN_RECORD_BYTES
    assert len(writer.record(Rec(0, 0, None, None, ((b"", None),)), 0)) == len(empty) + kafka_format.MIN_HEADER_BYTES
    assert len(writer.message(0, None, None, magic=0)) == kafka_format.MIN_LENGTH_V0 + kafka_format.LOG_OVERHEAD
    assert len(writer.message(0, None, None, magic=1)) == kafka_format.MIN_LENGTH_V1 + kafka_format.LOG_OVERHEAD


def test_codec_names_are_by_id() -> None:
    """CODEC_NAMES has each codec's name, in kafka-dump-log's words, at its id."""
    ids = [
        kafka_format.CODEC_NONE,
        kafka_format.CODEC_GZIP,
        kafka_format.CODEC_SNAPPY,
        kafka_format.CODEC_LZ4,
        kafka_format.CODEC_ZSTD,
    ]
    assert [kafka_format.CODEC_NAMES[codec] for codec in ids] == ["none", "gzip", "snappy", "lz4", "zstd"]
    assert len(kafka_format.CODEC_NAMES) == 5 <= kafka_format.CODEC_MASK


def test_format_has_no_code() -> None:
    """The format module is constants and text, and how a file is named: no class, no control flow."""
    tree = ast.parse(Path(kafka_format.__file__).read_text())
    plain = (ast.AnnAssign, ast.Import, ast.ImportFrom, ast.Expr)
    odd = [node for node in tree.body if not isinstance(node, plain) and not is_one_text(node)]
    assert odd == []


def is_one_text(node: ast.stmt) -> bool:
    """Whether a function is a docstring and one text that it returns."""
    if not isinstance(node, ast.FunctionDef):
        return False
    [said, result] = node.body
    return isinstance(said, ast.Expr) and isinstance(result, ast.Return) and isinstance(result.value, ast.JoinedStr)
