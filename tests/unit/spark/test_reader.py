"""What a Spark worker does beside the rows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

READ = """
import gc, sys
from tests.support.pushed import reader_of
reader = reader_of(sys.argv[1])
partitions = reader.partitions()
print(gc.get_freeze_count())
for partition in partitions:
    assert sum(batch.num_rows for batch in reader.read(partition)) == 2
    print(gc.get_freeze_count())
"""


def test_the_first_task_of_a_worker_exempts_loaded_modules_from_collection(log_directory: Path) -> None:
    """It does so once: Spark collects garbage after each task, and need not look at the loaded modules each time."""
    command = [sys.executable, "-c", READ, str(log_directory)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    planned, first, *others = map(int, done.stdout.split())
    assert planned == 0 and first > 30_000
    assert set(others) == {first}
