"""The column controlType: which control record a row is, by the control bit of its batch and its key."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

import kafka_segment_source as kafkaseg
from tests.support import naive, writer
from tests.support.reads import write
from tests.support.rows import LOG_DIRECTORIES, OFFSET, PARTITION, TOPIC, expected
from tests.support.writer import Codec, Rec

TYPES = ("ABORT", "COMMIT", "LEADER_CHANGE", "SNAPSHOT_HEADER", "SNAPSHOT_FOOTER", "KRAFT_VERSION", "KRAFT_VOTERS")


def types_in(folder: Path, **options: object) -> dict[int, str | None]:
    rows = kafkaseg.scan(folder, columns=["controlType", "offset"], includeControl=True, **options).read_all()  # type: ignore[arg-type]
    return dict(zip(rows["offset"].to_pylist(), rows["controlType"].to_pylist(), strict=True))


def key(number: int) -> bytes:
    return struct.pack(">hh", 0, number)


@pytest.mark.parametrize("partition", [0, 1])
def test_markers_of_a_real_broker(partition: int) -> None:
    """COMMIT and ABORT where the naive decoder finds markers, null where a consumer saw a record."""
    folder = LOG_DIRECTORIES["transactions"] / f"ledger-{partition}"
    decoded = [record for log in sorted(folder.glob("*.log")) for record in naive.decode_log(log.read_bytes())]
    rows = expected(LOG_DIRECTORIES["transactions"])
    data = {row[OFFSET] for row in rows if (row[TOPIC], row[PARTITION]) == ("ledger", partition)}
    wanted = {each.offset: None if each.offset in data else TYPES[(each.key or b"")[3]] for each in decoded}

    assert types_in(folder) == wanted
    assert set(wanted.values()) == {None, "COMMIT", "ABORT"}


def test_a_snapshot_of_a_real_controller(tmp_path: Path) -> None:
    """bootstrap.checkpoint is a log as well: a header, records and a footer."""
    shutil.copy(LOG_DIRECTORIES["transactions"] / "bootstrap.checkpoint", tmp_path / writer.segment_name(0))
    found = types_in(tmp_path, topic="__cluster_metadata", partition=0)
    assert list(found.values()) == ["SNAPSHOT_HEADER", *[None] * (len(found) - 2), "SNAPSHOT_FOOTER"]
    assert len(found) > 2


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_every_type_beside_data(tmp_path: Path, codec: Codec) -> None:
    """Types that Kafka has by name and others by number, where data and control records are in the same chunk."""
    numbers = [*range(len(TYPES)), len(TYPES), 300, -1, 2**15 - 1, -(2**15)]
    batches = []
    for slot, number in enumerate(numbers):
        for offset, control in ((2 * slot, False), (2 * slot + 1, True)):
            record = Rec(0, 1000, key(number), b"v")
            batches.append(writer.record_batch([record], base_offset=offset, codec=codec, control=control))
    write(tmp_path, *batches)

    found = types_in(tmp_path, topic="t", partition=0)

    assert [found[2 * slot] for slot in range(len(numbers))] == [None] * len(numbers)
    named = [*TYPES, "UNKNOWN(7)", "UNKNOWN(300)", "UNKNOWN(-1)", "UNKNOWN(32767)", "UNKNOWN(-32768)"]
    assert [found[2 * slot + 1] for slot in range(len(numbers))] == named


def test_keys_of_other_lengths(tmp_path: Path) -> None:
    """A later version may lengthen the key. A key without a type is UNKNOWN, at the end of the file too."""
    keys = [key(1) + b"more", b"\0\0\0", b"", None]
    write(
        tmp_path,
        *(writer.record_batch([Rec(0, 0, each)], base_offset=at, control=True) for at, each in enumerate(keys)),
    )
    assert list(types_in(tmp_path, topic="t", partition=0).values()) == ["COMMIT", "UNKNOWN", "UNKNOWN", "UNKNOWN"]


def test_message_sets_have_no_control_records(tmp_path: Path) -> None:
    """The bit means nothing in magic 0 and 1, which have no control batches."""
    write(tmp_path, writer.message(0, key(1), b"v", magic=1, timestamp=5, timestamp_type=4))  # 4 << 3: the control bit
    assert types_in(tmp_path, topic="t", partition=0) == {0: None}


def test_without_includeControl_the_column_is_null() -> None:
    """It may be named all the same, as any column may that an option adds."""
    folder = LOG_DIRECTORIES["transactions"] / "ledger-0"
    assert set(kafkaseg.scan(folder, columns=["controlType"]).read_all()["controlType"].to_pylist()) == {None}
