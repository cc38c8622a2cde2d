"""`__remote_log_metadata`, which a broker with a tier writes: read as any topic, and checked as any log."""

from __future__ import annotations

import kafka_segment_source as kafkaseg
from tests.support.rows import FIXTURES

DATA = FIXTURES / "tiered" / "local-tier" / "data"
TOPIC = "__remote_log_metadata"
API_KEYS = {0, 1, 2}  # RemoteLogSegmentMetadataRecord, …UpdateRecord, RemotePartitionDeleteMetadataRecord


def test_its_records_are_read() -> None:
    """Each value begins with the version of the frame and the key of its message (`AbstractApiMessageSerde`). Copying
    begins with a segment's record, and ends with its update."""
    rows = kafkaseg.scan(DATA, subscribe=TOPIC).read_all().to_pylist()
    assert {row["value"][0] for row in rows} == {1}
    kinds = [row["value"][1] for row in rows]
    assert set(kinds) <= API_KEYS and {0, 1} <= set(kinds)
    assert [row["offset"] for row in rows] == list(range(len(rows)))


def test_it_is_whole() -> None:
    """No finding, and it is listed."""
    assert kafkaseg.verify(DATA / f"{TOPIC}-0").problems == ()
    assert TOPIC in {each.topic for each in kafkaseg.list_partitions(DATA).partitions}
