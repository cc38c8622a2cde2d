"""Where kernels with bounds checks are kept: half a minute of compiling, once for a machine and a state
of the sources."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from kafka_segment_source import kernels
from kafka_segment_source.storage.private import make_private_directory


def bounds_checked_code() -> Path:
    """A directory for NUMBA_CACHE_DIR with NUMBA_BOUNDSCHECK=1 alone, and the kernels as they are now: numba keeps code
    by the file of a kernel, not by this setting, and not by the files of the functions that become a part of it."""
    sources = sorted(Path(kernels.__path__[0]).glob("*.py"))
    state = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    return make_private_directory(f"kafkaseg-bounds-checked-{state}") or Path(tempfile.mkdtemp())
