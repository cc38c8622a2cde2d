"""A rebuild in a process of its own, which kills itself (SIGKILL) at a step that the caller names.

A step is a change of the target. The process dies right before it or right after it.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable
from typing import Any

from kafka_segment_source.rebuilding import target_files
from kafka_segment_source.rebuilding.rebuild import rebuild


def run_rebuild(path: str, to: str, options: dict[str, Any], step: int) -> None:
    """Runs a rebuild. step: the number of the step at which it dies; it may end before."""
    logging.disable(logging.CRITICAL)
    left = step

    def deadly(action: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            count()
            result = action(*arguments, **keywords)
            count()
            return result

        return call

    def count() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    target_files.write_atomically = deadly(target_files.write_atomically)  # type: ignore[attr-defined]
    target_files.NewFile.write = deadly(target_files.NewFile.write)  # type: ignore[method-assign]
    target_files.NewFile.close = deadly(target_files.NewFile.close)  # type: ignore[method-assign]
    target_files.os.replace = deadly(os.replace)  # type: ignore[attr-defined]  # a step inside of `write_atomically`
    target_files.os.rename = deadly(os.rename)  # type: ignore[attr-defined]
    target_files.os.unlink = deadly(os.unlink)  # type: ignore[attr-defined]
    rebuild(path, to, **options)
