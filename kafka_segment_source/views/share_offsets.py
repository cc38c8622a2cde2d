"""view=shareOffsets: the states of share groups in `__share_group_state`."""

from __future__ import annotations

from kafka_segment_source.internal_topics.share_offsets import COLUMNS, plan_rows, read_rows
from kafka_segment_source.views.internal_topic import make_view

VIEW = make_view(COLUMNS, plan_rows, read_rows)
