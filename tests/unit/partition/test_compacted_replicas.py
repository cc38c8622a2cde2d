"""Two in-sync replicas of a compacted partition: what both paths give together, alone, and in the commands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import DataError
from tests.cli.runner import answer, run
from tests.support import naive, writer
from tests.support.internal_logs import offset_key, offset_value, transaction_key, transaction_value
from tests.support.rows import FIXTURES
from tests.support.writer import Rec

REPLICAS = [FIXTURES / "compacted-replicas" / name for name in ("broker-12", "broker-13")]
ENDS = (39_010, 39_060)


def read_naively(path: Path) -> dict[int, tuple[bytes | None, bytes | None]]:
    records = [record for file in sorted(path.glob("rc-0/*.log")) for record in naive.decode_log(file.read_bytes())]
    return {record.offset: (record.key, record.value) for record in records}


def read(paths: Any, **options: Any) -> dict[int, tuple[bytes | None, bytes | None]]:
    table = kafkaseg.scan(paths, ["offset", "key", "value"], **options).read_all()
    offsets = table["offset"].to_pylist()
    assert offsets == sorted(set(offsets))
    return dict(zip(offsets, zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True), strict=True))


@pytest.mark.parametrize("turn", [1, -1])
def test_both_replicas(turn: int) -> None:
    """Brokers note different offsets for one epoch. All records of the one that reaches further are there, and none is
    lost below."""
    shorter, longer = (read_naively(path) for path in REPLICAS)
    found = read(REPLICAS[::turn])
    assert len(found) == 415
    assert found == shorter | {offset: record for offset, record in longer.items() if offset >= ENDS[0]}
    latest = dict(found.values())
    assert latest == dict(longer.values())
    said = kafkaseg.plan(REPLICAS[::turn]).warnings
    assert not [each for each in said if "histories" in each or "epoch" in each]


@pytest.mark.parametrize("at", [0, 1])
def test_one_replica(at: int) -> None:
    assert read(REPLICAS[at]) == read_naively(REPLICAS[at])


def test_the_commands() -> None:
    """`ls`, `plan` and `verify` do not claim that one of them is stale."""
    listed = answer("ls", *REPLICAS, "--json")["partitions"]
    ranges = [[(each["startOffset"], each["endOffset"]) for each in partition["read"]] for partition in listed]
    assert ranges == [[(0, ENDS[0])], [(ENDS[0], None)]]
    planned = answer("plan", *REPLICAS, "--json")
    assert [split["startOffset"] for split in planned["splits"]] == [0, 38_745, ENDS[0]]
    assert answer("verify", *REPLICAS, "--json")["problems"] == []
    for command in ("ls", "plan", "verify"):
        result = run(command, *REPLICAS)
        assert result.exit_code == 0, result.stderr
        assert not [word for word in ("histories", "epoch") if word in result.output + result.stderr]


# --- internal topics -------------------------------------------------------------------------------------------------

Pairs = Sequence[tuple[bytes, bytes | None]]


def write_replica(root: Path, partition: str, records: Pairs, cleaned: int, end: int, noted: Sequence[int]) -> Path:
    """Writes one record a batch, up to `end`. Of those below `cleaned` it keeps the last of each key.

    The epochs change after each quarter. noted: how far after its first record each epoch was noted.
    """
    folder = root / partition
    folder.mkdir(parents=True)
    quarter = len(records) // 4
    latest = {key: offset for offset, (key, _) in enumerate(records[:cleaned])}
    kept = [offset for offset, (key, _) in enumerate(records[:end]) if offset >= cleaned or latest[key] == offset]
    for base, after in ((0, cleaned), (cleaned, end)):
        batches = [
            writer.record_batch(
                [Rec(0, 1000 + offset, *records[offset])], base_offset=offset, leader_epoch=offset // quarter
            )
            for offset in kept
            if base <= offset < after
        ]
        (folder / writer.segment_name(base)).write_bytes(b"".join(batches))
    lines = "".join(f"{epoch} {epoch * quarter + late}\n" for epoch, late in enumerate(noted))
    (folder / "leader-epoch-checkpoint").write_text(f"0\n{len(noted)}\n{lines}")
    return root


def commits() -> Pairs:
    """Commits of five groups, again and again, and one that is deleted."""
    pairs: list[tuple[bytes, bytes | None]] = []
    for number in range(80):
        value = None if number % 20 == 7 else offset_value(number)
        pairs.append((offset_key(f"group-{number % 5}", "orders", number % 2), value))
    return pairs


def states() -> Pairs:
    return [(transaction_key(f"id-{number % 7}"), transaction_value(number % 3)) for number in range(80)]


@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize(
    ("partition", "records", "view"),
    [
        ("__consumer_offsets-0", commits(), "consumerOffsets"),
        ("__transaction_state-0", states(), "transactionalIds"),
    ],
)
def test_views_of_two_replicas(partition: str, records: Pairs, view: str, turn: int, tmp_path: Path) -> None:
    """The latest state is that of a log that was never compacted, although the replicas were compacted apart."""
    leader = write_replica(tmp_path / "leader", partition, records, 65, 80, [0, 0, 0, 0])
    follower = write_replica(tmp_path / "follower", partition, records, 35, 75, [0, 11, 5, 9])
    whole = write_replica(tmp_path / "whole", partition, records, 0, 80, [0, 0, 0, 0])
    paths = [leader, follower][::turn]
    said = kafkaseg.plan(paths, subscribe=partition[:-2]).warnings
    assert not [each for each in said if "histories" in each or "epoch" in each]
    found = kafkaseg.scan(paths, view=view).read_all()
    assert found.num_rows and found.equals(kafkaseg.scan(whole, view=view).read_all())


@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize("marked", [[0], [1], [0, 1]])
def test_cleaners_that_removed_other_markers(marked: list[int], turn: int, tmp_path: Path) -> None:
    """Each replica has the records of a transaction, and so its marker. They lack different markers of others, so the
    chain changes from one to the other inside the transaction."""

    recs = [Rec(at, 1000 + at, b"k%d" % at, b"v") for at in (0, 2)]  # compaction shows in the batch
    begin = writer.record_batch(
        recs, base_offset=0, last_offset_delta=2, producer_id=1, producer_epoch=0, transactional=True, leader_epoch=1
    )

    def end(offset: int, producer: int) -> bytes:
        return writer.control_batch(
            "commit", offset=offset, timestamp=1000 + offset, producer_id=producer, producer_epoch=0, leader_epoch=1
        )

    plain = writer.record_batch([Rec(0, 2000, b"k", b"v")], base_offset=9, leader_epoch=1)
    layouts = [
        {0: [begin], 6: [end(6, 3), end(7, 1)], 8: [end(8, 2), plain]},
        {0: [begin, end(4, 2), end(5, 2)], 7: [end(7, 1), end(8, 2), plain]},
    ]
    for at, layout in enumerate(layouts):
        folder = tmp_path / f"r{at}" / "t-0"
        folder.mkdir(parents=True)
        for base, batches in layout.items():
            (folder / writer.segment_name(base)).write_bytes(b"".join(batches))
        if at in marked:
            (folder.parent / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 8\n")
    paths = [tmp_path / "r0", tmp_path / "r1"][::turn]
    assert list(read(paths, isolationLevel="read_committed")) == [0, 2, 9]
    assert len({split.path for split in kafkaseg.plan(paths).splits}) > 2


@pytest.mark.parametrize("turn", [1, -1])
def test_damage_of_all_batches_beside_a_shorter_compacted_copy(turn: int, tmp_path: Path) -> None:
    """The bytes that compaction left end inside a damaged batch of the other copy: that is no torn end of a log."""

    def write(name: str, *batches: bytes) -> Path:
        folder = tmp_path / name / "t-0"
        folder.mkdir(parents=True)
        (folder / writer.segment_name(0)).write_bytes(b"".join(batches))
        return tmp_path / name

    recs = [Rec(at, 1000 + at, b"k%d" % at, b"value") for at in range(4)]
    first, second = writer.record_batch(recs), writer.record_batch(recs[:2], base_offset=4)
    thinned = write("thinned", writer.record_batch(recs[1:], last_offset_delta=3))
    for name, batches in {"whole": (first, second), "torn": (first, second[:-5])}.items():
        flipped = [batch[:65] + bytes([batch[65] ^ 1]) + batch[66:] for batch in batches]
        copies = [thinned, write(name, *flipped)][::turn]
        if name == "whole":
            with pytest.raises(DataError, match="no copy holds the offsets 4 on whole"):
                read(copies)
        assert list(read(copies, mode="DROPMALFORMED")) == [1, 2, 3]
    assert list(read(copies)) == [1, 2, 3]


@pytest.mark.parametrize("stale", [False, True])
@pytest.mark.parametrize("turn", [1, -1])
def test_damage_that_is_known_to_be_one_batch(turn: int, stale: bool, tmp_path: Path) -> None:
    """Both copies have a batch that compaction has thinned, and it is damaged in one. The header of the damaged one is
    that of the other. So the copy holds nothing before it, and a copy whose history lost later has the same there."""
    base = 1 if stale else 0
    thin = writer.record_batch([Rec(4, 1004, b"k", b"thin")], base_offset=base + 1, last_offset_delta=4)
    following = writer.record_batch([Rec(0, 1006, b"l", b"next")], base_offset=base + 6)
    first = writer.record_batch([Rec(0, 1000, b"m", b"first")], base_offset=base) if stale else b""
    damaged = thin[:-3] + bytes([thin[-3] ^ 4]) + thin[-2:]

    def write(name: str, base: int, *batches: bytes) -> Path:
        folder = tmp_path / name / "t-0"
        folder.mkdir(parents=True)
        (folder / writer.segment_name(base)).write_bytes(b"".join(batches))
        (tmp_path / name / "cleaner-offset-checkpoint").write_text(f"0\n1\nt 0 {base + 6}\n")
        return tmp_path / name

    if stale:
        newer, older = (
            writer.record_batch([Rec(0, 1007, b"n", who)], base_offset=base + 7, leader_epoch=epoch)
            for who, epoch in ((b"leader", 2), (b"stale", 1))
        )
        copies = [write("A", base, first, damaged, following, newer), write("B", base, first, thin, following, older)]
    else:
        copies = [write("A", 0, damaged, following), write("B", 1, thin, following)]
    found = [value for _, value in read(copies[::turn]).values()]
    assert found == [*([b"first"] if stale else []), b"thin", b"next", *([b"leader"] if stale else [])]
    if not stale:
        (copies[1] / "t-0" / writer.segment_name(1)).write_bytes(damaged + following)
        with pytest.raises(DataError, match=r"no copy holds the offsets \d to 5 whole"):
            read(copies[::turn])
