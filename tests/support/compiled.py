"""Where kernels with bounds checks are kept: half a minute of compiling, once for a machine and a state
of the sources."""

from __future__ import annotations

import tempfile
from pathlib import Path

from kafka_segment_source.storage.private import make_private_directory


def bounds_checked_code() -> Path:
    """A directory for NUMBA_CACHE_DIR with NUMBA_BOUNDSCHECK=1 alone: numba keeps code by source, not by
    this setting."""
    return make_private_directory("kafkaseg-bounds-checked") or Path(tempfile.mkdtemp())
