"""The ids of a stream's topics, by the files that state them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_segment_source.logdir.segments import PartitionLog
from kafka_segment_source.options import parse_options
from kafka_segment_source.partition.logs import available_logs
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.storage import files
from kafka_segment_source.streams import topic_ids
from kafka_segment_source.streams.topic_ids import TopicIds
from tests.support.small_logs import pl, put
from tests.unit.streams.parts import T0


def list_with_id(root: Path, topic_id: str | None) -> list[PartitionLog]:
    """Lists t-0, after its file states an id of 22 letters. None: there is no such file."""
    put(root, 0, pl(0, 1))
    path = root / "t-0" / "partition.metadata"
    path.unlink(missing_ok=True)
    if topic_id is not None:
        path.write_text(f"version: 0\ntopic_id: {topic_id * 22}")
    options, _ = parse_options({"path": str(root)})
    return available_logs(options.source, options.policy, Warnings())


def test_another_id(tmp_path: Path) -> None:
    """It says that the topic was made again, once. A file that is away says nothing, and what it said is kept."""
    ids = TopicIds()
    steps = [(None, []), ("a", []), ("a", []), (None, []), ("b", [(T0, "a" * 22, "b" * 22)]), ("b", [])]
    for topic_id, expected in steps:
        found = list(ids.look(list_with_id(tmp_path, topic_id)))
        assert [(log.topic_partition, before, now) for log, before, now in found] == expected
    assert ids.by_topic() == {"t": "b" * 22}
    assert TopicIds().by_topic() == {}


def test_a_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as it does not change."""
    monkeypatch.setattr(files, "_RACY_NANOS", 0)
    read: list[str] = []
    reads = topic_ids.read_topic_id
    monkeypatch.setattr(topic_ids, "read_topic_id", lambda *of: read.append(of[0]) or reads(*of))
    logs, ids = list_with_id(tmp_path, "a"), TopicIds()
    for _ in range(3):
        assert list(ids.look(logs)) == []
    assert read == [str(tmp_path / "t-0")]
