"""rebuild: a transaction whose marker is lost must not end with the next marker of its producer."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from kafka_segment_source import rebuild, scan, verify
from kafka_segment_source.rebuilding.rebuild_report import RebuiltPartition
from tests.support import writer
from tests.support.writer import Marker, Rec

PRODUCER = 3


def data(offset: int, *, producer: int = -1, epoch: int = 1) -> bytes:
    """A batch of one record, of a transaction if a producer is given."""
    batch = writer.record_batch(
        [Rec(0, 1000 + offset, b"k", b"v%d" % offset)],
        base_offset=offset,
        producer_id=producer,
        producer_epoch=0 if producer >= 0 else -1,
        transactional=producer >= 0,
        leader_epoch=1,
    )
    return batch[:12] + struct.pack(">i", epoch) + batch[16:]


def marker(kind: Marker, offset: int, timestamp: int = 2000, producer: int = PRODUCER) -> bytes:
    return writer.control_batch(
        kind, offset=offset, timestamp=timestamp, producer_id=producer, producer_epoch=0, leader_epoch=1
    )


def put(root: Path, segments: dict[int, list[bytes]]) -> Path:
    for base, batches in segments.items():
        path = root / "t-0" / writer.segment_name(base)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(batches))
    return root


def values(path: Any, **options: Any) -> list[bytes]:
    return scan(path, ["value"], **options).read_all()["value"].to_pylist()


def kinds_of(part: RebuiltPartition) -> list[tuple[str, int | None]]:
    return [(each.kind, each.first_offset) for each in part.left_out]


def test_a_last_file_with_an_abort_is_gone(tmp_path: Path) -> None:
    """Its index is left. The transaction may have ended there: it is not kept open."""
    source = put(tmp_path / "A", {0: [data(0, producer=PRODUCER), data(1)]})
    (source / "t-0" / writer.segment_name(2, ".index")).write_bytes(writer.offset_index([(5, 100)], 2))
    report = rebuild(source, tmp_path / "B", failOnDataLoss=False)
    assert kinds_of(report.partitions[0]) == [("missing offsets", 2), ("unended transaction", 0)]
    assert values(tmp_path / "B") == values(source, isolationLevel="read_committed", failOnDataLoss=False) == [b"v1"]


def test_a_first_file_without_a_byte(tmp_path: Path) -> None:
    source = put(tmp_path / "A", {0: [], 2: [data(2), data(3)]})
    report = rebuild(source, tmp_path / "B", failOnDataLoss=False)
    assert kinds_of(report.partitions[0]) == [("missing offsets", 0)]
    report = rebuild(source, tmp_path / "C", startingOffsets='{"t":{"0":2}}')
    assert kinds_of(report.partitions[0]) == []


@pytest.mark.parametrize("size", [None, 100])
def test_a_damaged_abort_before_a_commit(size: int | None, tmp_path: Path) -> None:
    """The COMMIT of the next transaction would commit the rows that were aborted."""
    abort = marker("abort", 1)
    abort = abort[:-1] + bytes([abort[-1] ^ 1])
    log = [data(0, producer=PRODUCER), abort, data(2), data(3, producer=PRODUCER), marker("commit", 4)]
    source = put(tmp_path / "A", {0: log})
    lenient: Any = {"mode": "DROPMALFORMED", "failOnDataLoss": False}
    assert values(source, isolationLevel="read_committed", **lenient) == [b"v2", b"v3"]
    report = rebuild(source, tmp_path / "new", segment_bytes=size, **lenient)
    assert ("unended transaction", 0) in kinds_of(report.partitions[0])
    assert ("open transaction", 0) not in kinds_of(report.partitions[0])
    for level in ("read_committed", "read_uncommitted"):
        assert values(tmp_path / "new", isolationLevel=level) == [b"v2", b"v3"]
    assert verify(tmp_path / "new").is_ok


def test_an_abort_that_compaction_took_from_the_other_copy(tmp_path: Path) -> None:
    """The short copy still has the aborted record. The longer one has neither it nor its marker."""
    aborted, later = data(0, producer=PRODUCER), [data(3), data(4, producer=PRODUCER), marker("commit", 5)]
    short = put(tmp_path / "A", {0: [aborted, data(1)]})
    compacted = put(tmp_path / "B", {0: [data(1), *later], 6: [data(6)]})
    (compacted / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 6\n")
    wanted = [b"v1", b"v3", b"v4", b"v6"]
    assert values([short, compacted], isolationLevel="read_committed") == wanted
    report = rebuild([short, compacted], tmp_path / "new")
    assert kinds_of(report.partitions[0]) == [("unended transaction", 0)]
    assert values(tmp_path / "new", isolationLevel="read_committed") == wanted


def test_a_whole_segment_of_one_transaction(tmp_path: Path) -> None:
    """The next segment is named so that no reader takes the place for a missing segment."""
    log = {0: [data(0)], 1: [data(1, producer=PRODUCER), data(2, producer=PRODUCER)], 5: [data(5)]}
    report = rebuild(put(tmp_path / "A", log), tmp_path / "new", failOnDataLoss=False)
    assert ("unended transaction", 1) in kinds_of(report.partitions[0])
    assert sorted(path.name for path in (tmp_path / "new/t-0").glob("*.log")) == [
        writer.segment_name(0),
        writer.segment_name(1),
    ]
    assert values(tmp_path / "new") == [b"v0", b"v5"] and verify(tmp_path / "new").is_ok


def test_a_flipped_epoch_is_no_epoch_of_the_log(tmp_path: Path) -> None:
    log = [data(0, epoch=1), data(1, epoch=1 + 64), data(2, epoch=1), data(3, epoch=5)]
    rebuild(put(tmp_path / "A", {0: log}), tmp_path / "new")
    assert (tmp_path / "new/t-0/leader-epoch-checkpoint").read_text() == "0\n2\n1 0\n5 3\n"


@pytest.mark.parametrize("rolls", [False, True])
def test_a_time_range_takes_the_markers_of_its_transactions(rolls: bool, tmp_path: Path) -> None:
    """The clock of the coordinator is behind: the ABORT is older than the range, and the next COMMIT lies in it."""
    batches = [
        data(0, producer=9),
        marker("commit", 1, 900, producer=9),  # of a transaction without data in the range
        data(1000, producer=PRODUCER),
        marker("abort", 1001, 1500),
        data(1002),
        data(1003, producer=PRODUCER),
        marker("commit", 1004, 2004),
        marker("abort", 1005, 1600, producer=9),
    ]
    bases = [0, 1, 1000, 1001, 1002, 1003, 1004, 1005]
    layout = {base: [batch] for base, batch in zip(bases, batches, strict=True)} if rolls else {0: batches}
    source = put(tmp_path / "A", layout)
    (source / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 1002\n")
    report = rebuild(source, tmp_path / "new", since="1970-01-01T00:00:02Z")
    offsets = scan(tmp_path / "new", ["offset"], includeControl=True).read_all()["offset"].to_pylist()
    assert offsets == [1000, 1001, 1002, 1003, 1004]
    assert kinds_of(report.partitions[0]) == []
    assert values(tmp_path / "new", isolationLevel="read_committed") == [b"v1002", b"v1003"]
