"""Where this package says what a user should know and no return value carries: one logger, to standard error by default."""

from __future__ import annotations

import logging

logger = logging.getLogger("kafka_segment_source")
