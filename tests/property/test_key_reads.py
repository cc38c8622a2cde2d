"""The option `key` gives the rows that a full read of it gives, filtered: of sound and damaged logs, in every mode.

Errors are those of the full read too: a key hides no damage and no loss.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import event, given
from hypothesis import strategies as st

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import KafkaSegmentError
from tests.support import writer
from tests.support.logs import GeneratedLog
from tests.support.strategies import partition_logs
from tests.support.writer import Rec

KEYS = (None, b"", b"a", b"ab", b"b", b"\xff\0", b"a" * 40)
CODECS: tuple[writer.Codec, ...] = ("none", "lz4", "zstd")

any_log = partition_logs(magics=(0, 1, 2), index_damage=True, log_damage=True, far_future=True)
ways = st.fixed_dictionaries(
    {},
    optional={
        "mode": st.sampled_from(["FAILFAST", "DROPMALFORMED"]),
        "isolationLevel": st.sampled_from(["read_uncommitted", "read_committed"]),
        "includeControl": st.booleans(),
        "failOnDataLoss": st.booleans(),
        "includeMetadata": st.booleans(),
        "threads": st.sampled_from([1, 2]),
        "since": st.integers(0, 2000),
    },
)


def outcome(path: Path, keys: list[bytes] | None = None, **how: Any) -> Any:
    """The rows of a read, or its error."""
    try:
        return kafkaseg.scan(path, key=keys, **how).read_all()
    except KafkaSegmentError as error:
        return type(error), str(error)


def check(path: Path, keys: list[bytes], **how: Any) -> None:
    full, found = outcome(path, **how), outcome(path, keys, **how)
    event(f"an error: {isinstance(full, tuple)}")
    if isinstance(full, pa.Table):
        assert isinstance(found, pa.Table)
        wanted = full.filter(pc.field("key").isin(pa.array(keys, pa.binary())))
        event(f"rows: {min(wanted.num_rows, 2)}")
        assert found.to_pylist() == wanted.to_pylist()
    else:
        assert found == full


@given(
    log=any_log, numbers=st.lists(st.integers(0, 40), min_size=1, max_size=8), how=ways,
    flips=st.lists(st.tuples(st.integers(0, 2**12 - 1), st.integers(0, 7)), max_size=2),
)  # fmt: skip
def test_any_log(log: GeneratedLog, numbers: list[int], how: dict[str, Any], flips: list[tuple[int, int]]) -> None:
    """Logs of every format, with index files of every kind, and with damage anywhere."""
    with tempfile.TemporaryDirectory() as folder:
        path = log.write(Path(folder))
        for place, bit in flips:
            for file in sorted(path.glob("*.log"))[:1]:
                data = bytearray(file.read_bytes())
                if data:
                    data[place * len(data) // 2**12] ^= 1 << bit
                file.write_bytes(data)
        check(path, [b"k%d" % number for number in numbers], **how)


@given(seed=st.integers(0, 2**32), keys=st.lists(st.sampled_from(KEYS[1:]), min_size=1, max_size=4), how=ways)
def test_keys_that_come_again(seed: int, keys: list[bytes], how: dict[str, Any]) -> None:
    """Null, empty and long keys, keys that begin alike, the same key many times, and one twice in the option."""
    random = Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / "orders-0"
        directory.mkdir()
        offset = 0
        for _ in range(random.randint(1, 3)):
            base, data = offset, b""
            for _ in range(random.randint(1, 4)):
                recs = [
                    Rec(at, 1000 + offset + at, random.choice(KEYS), random.choice([None, b"", b"value"]))
                    for at in range(random.randint(1, 9))
                ]
                data += writer.record_batch(recs, base_offset=offset, codec=random.choice(CODECS))
                offset += len(recs)
            (directory / writer.segment_name(base)).write_bytes(data)
        check(directory, keys, **how)
