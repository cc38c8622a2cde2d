"""Internal topics whose records are damaged under a right CRC, as another writer might leave them."""

from __future__ import annotations

import random
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import DataError
from tests.support import naive
from tests.support.rows import FIXTURES
from tests.support.schema_logs import TYPED_LOGS
from tests.support.writer import with_right_crc

GROUPS = FIXTURES / "groups" / "data"
NEW_GROUPS = FIXTURES / "new-groups" / "data"
CASES = 60
_HEADER = 61  # bytes of a batch before its records


@pytest.mark.parametrize(
    ("view", "topic", "data"),
    [
        ("consumerOffsets", "__consumer_offsets", GROUPS),
        ("transactionalIds", "__transaction_state", GROUPS),
        ("shareOffsets", "__share_group_state", NEW_GROUPS),
        ("topics", "__cluster_metadata", GROUPS),
        ("schemas", "_schemas", TYPED_LOGS),
    ],
)
def test_flipped_bytes_are_rows_warnings_or_our_error(view: str, topic: str, data: Path, tmp_path: Path) -> None:
    """Keys, values, lengths and versions changed by chance: no other error, and under DROPMALFORMED none at all."""
    rng = random.Random(topic)
    copy = tmp_path / f"{topic}-0"
    shutil.copytree(data / f"{topic}-0", copy)
    [log, *_] = sorted(copy.glob("*.log"))
    whole = log.read_bytes()
    batches = [batch for batch in naive.decode_batches(whole) if batch.size > _HEADER]
    different = 0
    expected = kafkaseg.scan(tmp_path, view=view).read_all()
    for _ in range(CASES):
        content = bytearray(whole)
        for batch in rng.sample(batches, min(3, len(batches))):
            for _ in range(rng.randint(1, 3)):
                content[batch.position + rng.randrange(_HEADER, batch.size)] = rng.randrange(256)
            place = slice(batch.position, batch.position + batch.size)
            content[place] = with_right_crc(bytes(content[place]))
        log.write_bytes(content)
        found = kafkaseg.scan(tmp_path, view=view, mode="DROPMALFORMED", failOnDataLoss=False).read_all()
        different += not found.equals(expected)
        with suppress(DataError):
            kafkaseg.scan(tmp_path, view=view, failOnDataLoss=False).read_all()
    assert different > CASES // 4  # the changes are seen
