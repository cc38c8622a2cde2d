"""Makes a directory that only one user can open, for files that nobody else may read or write."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path


def make_private_directory(name: str) -> Path | None:
    """Makes or finds this user's temporary directory of that name. No other user can open it.

    None if it cannot be made, or if somebody else has taken the name.
    """
    path = Path(tempfile.gettempdir()) / f"{name}-{os.getuid()}"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        status = path.lstat()
    except OSError:
        return None
    is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077
    return path if is_ours else None
