"""view=schemas: the schema versions of the topic `_schemas`."""

from __future__ import annotations

from kafka_segment_source.schema_registry.rows import COLUMNS, plan_rows, read_rows
from kafka_segment_source.views.internal_topic import make_view

VIEW = make_view(COLUMNS, plan_rows, read_rows)
