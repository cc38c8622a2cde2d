"""Topics of tiers whose names or ids are in doubt."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kafka_segment_source.errors import StorageError
from kafka_segment_source.logdir import topic_choice
from kafka_segment_source.logdir.segments import ListedLog


def test_manifests_that_the_storage_does_not_give_are_its_error() -> None:
    """Nobody knows the topic, so no selection may leave it out."""
    fault = StorageError("the store does not answer")
    place = SimpleNamespace(tier=SimpleNamespace(nameless=SimpleNamespace(fault=fault)), notes=())
    with pytest.raises(StorageError, match="does not answer"):
        topic_choice.note_nameless([(("t", 0), cast(Any, place))])


@pytest.mark.parametrize(
    ("local_ids", "deleted"),
    [(["new"], {"tier/old"}), ([None], set()), (["new", "other"], set()), (["new", "new"], {"tier/old"})],
)
def test_topics_that_were_deleted_and_made_again(
    local_ids: list[str | None], deleted: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only one id of local directories says which uploads are of an older topic."""
    ids = {f"disk{at}/t-0": topic_id for at, topic_id in enumerate(local_ids)}
    ids |= {"tier/old": "old", "tier/new": "new"}
    monkeypatch.setattr(topic_choice, "read_topic_id", lambda directory, _: ids[directory])
    monkeypatch.setattr(topic_choice, "is_shown", lambda directory: directory.startswith("tier"))
    logs = [ListedLog("t", 0, directory, ()) for directory in ids]
    assert topic_choice.list_deleted(logs) == deleted
