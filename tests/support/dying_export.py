"""An export in a process of its own, which kills itself (SIGKILL) at a step that the caller names.

A step is a call that changes the target, or that asks it something. The process dies right before it or right after it.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable
from typing import Any

from kafka_segment_source.exporting.data_files import DataFiles
from kafka_segment_source.exporting.export import export
from kafka_segment_source.storage.folders import Folder


def run_export(path: str, target: str, form: str, options: dict[str, Any], step: int) -> None:
    """Runs an export. step: the number of the step at which it dies; it may end before."""
    logging.disable(logging.CRITICAL)
    left = step

    def count() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def deadly(action: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            count()
            result = action(*arguments, **keywords)
            count()
            return result

        return call

    for kind, names in _find_steps(form):
        for name in names:
            setattr(kind, name, deadly(getattr(kind, name)))
    export(path, target, form, **options)


def _find_steps(form: str) -> list[tuple[Any, tuple[str, ...]]]:
    steps: list[tuple[Any, tuple[str, ...]]] = [(DataFiles, ("_close", "_begin"))]
    if form == "iceberg":
        from pyiceberg.table import Table  # noqa: PLC0415  # loaded where it is used

        return [*steps, (Table, ("_do_commit",))]
    steps.append((Folder, ("create", "move", "delete", "list")))
    if form == "delta":
        import deltalake.transaction  # noqa: PLC0415  # loaded where it is used

        steps.append((deltalake.transaction, ("create_table_with_add_actions",)))
        steps.append((deltalake.DeltaTable, ("create_write_transaction",)))
    return steps
