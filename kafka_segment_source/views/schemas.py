"""view=schemas: the schema versions of the topic `_schemas`."""

from __future__ import annotations

from functools import partial

from kafka_segment_source.internal_topics.log_records import plan_topic
from kafka_segment_source.schema_registry.schema_rows import COLUMNS, TOPIC, read_rows
from kafka_segment_source.views.internal_topic import make_view

VIEW = make_view(COLUMNS, partial(plan_topic, TOPIC), read_rows)
