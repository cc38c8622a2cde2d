"""Loads the client library of object stores, obstore, once for each process.

obstore does its work in threads, and a fork copies none of them. In a child of a process that has used it, every call
waits for ever, for a new store too. So a process that was forked after it loaded obstore loads a copy of the library,
which starts threads of its own. That takes about 0.2 s.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import shutil
import sys
import tempfile
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

_NAME = "obstore"
_LIBRARY = "obstore._obstore"

_lock = threading.Lock()
_loaded: tuple[int, Any, str] | None = None  # the process, its module, and the library's file as it was installed


def load_library() -> Any:
    """Returns the module `obstore` of this process. Raises OSError if a copy in a temporary file is needed, and cannot
    be written or loaded."""
    global _loaded  # noqa: PLW0603
    if _loaded is None or _loaded[0] != os.getpid():
        with _lock:  # the first requests of a process may come from several threads
            if _loaded is None:
                module: Any = _load()
                _loaded = os.getpid(), module, module._obstore.__file__
            elif _loaded[0] != os.getpid():
                _loaded = os.getpid(), _load_copy(Path(_loaded[2])), _loaded[2]
    return _loaded[1]


def client_errors() -> Any:
    """Returns the class of the library's errors, for `except`."""
    return load_library().exceptions.BaseError


def _renew_lock() -> None:
    """Makes a free lock in a process that was forked while a thread held it."""
    global _lock  # noqa: PLW0603
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def _load() -> ModuleType:
    module = importlib.import_module(_NAME)
    importlib.import_module(f"{_NAME}.store")
    importlib.import_module(f"{_NAME}.exceptions")
    return module


def _load_copy(source: Path) -> ModuleType:
    """Loads the library from another file. The system gives one file to all that load it from the same path.

    Modules that were imported before stay in `sys.modules`.
    """
    before = {name: old_module for name, old_module in sys.modules.items() if name.partition(".")[0] == _NAME}
    for name in before:
        del sys.modules[name]
    try:
        with tempfile.TemporaryDirectory(prefix="kafkaseg-obstore-") as directory:
            copy = Path(directory) / source.name
            shutil.copyfile(source, copy)
            spec = importlib.util.spec_from_file_location(_LIBRARY, copy)
            assert spec is not None and spec.loader is not None
            sys.modules[_LIBRARY] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(sys.modules[_LIBRARY])
            return _load()
    except ImportError as error:  # the directory allows no programs, for example
        raise OSError(
            errno.ENOEXEC,
            f"a copy of the library of object stores cannot be loaded from {tempfile.gettempdir()}: {error}",
        ) from None
    finally:
        for name in [module for module in sys.modules if module.partition(".")[0] == _NAME]:
            del sys.modules[name]
        sys.modules.update(before)
