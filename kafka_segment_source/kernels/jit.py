"""How kernels are compiled: once per machine, with the compiled code kept on disk.

numba keeps it beside the module, else in the user's cache directory; where neither can be written (a
read-only install under an account without a home) it raises, so a private temporary directory is named first.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba import njit

F = TypeVar("F", bound=Callable[..., Any])


def _private_directory() -> str:
    """A directory only this user can write: compiled code is loaded from it, so nobody else's may be believed."""
    path = Path(tempfile.gettempdir()) / f"kafkaseg-kernels-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        return tempfile.mkdtemp(prefix="kafkaseg-kernels-")
    return str(path)


def _writable(directory: Path) -> bool:
    while not directory.exists():
        directory = directory.parent
    return os.access(directory, os.W_OK | os.X_OK)


_BESIDE = Path(__file__).parent / "__pycache__"
if not numba.config.CACHE_DIR and not _writable(_BESIDE) and not _writable(Path.home() / ".cache"):
    numba.config.CACHE_DIR = _private_directory()


def kernel(signature: str) -> Callable[[F], F]:
    """Compiles a function for exactly this signature and keeps the machine code on disk."""
    return njit(signature, cache=True, nogil=True)  # type: ignore[no-any-return]  # numba is untyped


def inline(function: F) -> F:
    """Compiles a helper that kernels call; LLVM inlines it."""
    return njit(function, cache=True, nogil=True)  # type: ignore[no-any-return]  # numba is untyped
