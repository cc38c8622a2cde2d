"""Positions as Spark's checkpoint keeps them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_segment_source.errors import OptionError
from kafka_segment_source.streams.positions import from_json, schemas_of, to_json

POSITIONS = st.dictionaries(
    st.tuples(st.sampled_from(["a", "b-1", "ü"]), st.integers(0, 12)), st.integers(0, 2**63 - 1)
)


@given(positions=POSITIONS, random=st.randoms())
def test_one_text_for_one_position(positions: dict[tuple[str, int], int], random: object) -> None:
    """Spark compares texts. So the order in which positions were found must not show."""
    shuffled = list(positions.items())
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    text = json.dumps(to_json(dict(shuffled)))
    assert text == json.dumps(to_json(positions))
    assert from_json(json.loads(text)) == positions


def test_the_form_of_sparks_kafka_source() -> None:
    """{"topic": {"partition": offset}}, partitions by number."""
    found = to_json({("t", 10): 3, ("t", 9): 2, ("s", 0): 1})
    assert json.dumps(found) == '{"s": {"0": 1}, "t": {"9": 2, "10": 3}}'


@pytest.mark.parametrize(
    "foreign",
    [None, 5, [], {"n": 5}, {"t": {"0": "5"}}, {"t": {"x": 5}}, {"t": {"0": -1}}, {"t": {"0": True}}, {"t": {"٣": 1}}],
)
def test_an_offset_of_another_source(foreign: object) -> None:
    """It is one sentence that shows what was found. A long one is cut."""
    with pytest.raises(OptionError, match="leads to a checkpoint of another source: found the offset"):
        from_json(foreign)
    with pytest.raises(OptionError) as caught:
        from_json({"x" * 10_000: 1})
    assert len(str(caught.value)) < 500


def test_schemas_stand_beside_the_topics() -> None:
    text = json.dumps(to_json({("t", 0): 3}, {"value": "id:7", "key": "id:2"}))
    assert text == '{"t": {"0": 3}, "kafkaseg:schemas": {"key": "id:2", "value": "id:7"}}'
    assert from_json(json.loads(text)) == {("t", 0): 3}
    assert schemas_of(json.loads(text)) == {"key": "id:2", "value": "id:7"}
    assert schemas_of({"t": {"0": 3}}) == {}
    with pytest.raises(OptionError, match="another source"):
        schemas_of({"kafkaseg:schemas": {"value": 7}})
