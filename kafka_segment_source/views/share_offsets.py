"""view=shareOffsets: the states of share groups in `__share_group_state`."""

from __future__ import annotations

from functools import partial

from kafka_segment_source.internal_topics.log_records import plan_topic
from kafka_segment_source.internal_topics.share_offsets import COLUMNS, TOPIC, read_rows
from kafka_segment_source.views.internal_topic import make_view

VIEW = make_view(COLUMNS, partial(plan_topic, TOPIC), read_rows)
