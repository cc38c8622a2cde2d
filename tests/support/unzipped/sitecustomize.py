"""Python processes that Spark starts for the tests: pyspark from where it is installed, and each import once.

Spark puts its pyspark.zip first on the path of these processes. Each of them then compiles what it imports from the
zip, and reads the zip's directory again for each package in it: a second of CPU a process, and the tests start dozens.
Spark also forks them from a process that has imported next to nothing, so that each imports the package by itself.
Here that process imports it beforehand. What the package imports of its own accord, and when, other tests say.
Python imports this module when it starts: `tests/conftest.py` puts this directory on PYTHONPATH.
"""

import os
import sys

_ZIPS = os.path.join("pyspark", "python", "lib", "")
sys.path[:] = [path for path in sys.path if not (_ZIPS in path and path.endswith(".zip"))]


def _import_beforehand(*workers: str) -> None:
    """Imports what the processes that are forked from this one would import. workers: their modules."""
    import gc  # noqa: PLC0415
    from contextlib import suppress  # noqa: PLC0415
    from importlib import import_module  # noqa: PLC0415

    package = "scanning" if "pyspark.worker" in workers else "planning.planner"
    for name in (*workers, "kafka_segment_source.spark.datasource", f"kafka_segment_source.{package}"):
        with suppress(ImportError):  # each finds out by itself what is not there
            import_module(name)
    gc.freeze()  # as `kafka_segment_source.spark.reader` does where it loads the kernels


if sys.orig_argv[1:3] == ["-m", "pyspark.daemon"]:
    _import_beforehand(*sys.orig_argv[3:])
