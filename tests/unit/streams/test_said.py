"""What a stream says, once."""

from __future__ import annotations

import pytest

from kafka_segment_source.errors import DataLossError
from kafka_segment_source.streams import said as module
from tests.unit.streams.parts import said


def test_each_sentence_once(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream of months does not remember all of them: after a thousand, one may come again."""
    once = said()
    once.warn(["a", "b", "a"])
    once.warn(["b", "c"])
    assert caplog.messages == ["a", "b", "c"]
    monkeypatch.setattr(module, "_MOST_REMEMBERED", 3)
    once.warn(["d", "a"])
    assert caplog.messages == ["a", "b", "c", "d", "a"]


def test_a_loss(caplog: pytest.LogCaptureFixture) -> None:
    """It ends the query, or it is said once."""
    with pytest.raises(DataLossError, match="offsets 3 to 4 are gone; failOnDataLoss=false goes on with what is there"):
        said().report_loss("offsets 3 to 4 are gone")
    tolerant = said(fail_on_data_loss=False)
    for _ in range(2):
        tolerant.report_loss("offsets 3 to 4 are gone")
    assert caplog.messages == ["offsets 3 to 4 are gone: reading what is there (failOnDataLoss=false)"]
