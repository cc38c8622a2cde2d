"""What every test gets: one way to start Spark, late; hypothesis with the same examples every time.

`KAFKASEG_LONG=1` draws new examples, and many more of them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark's workers and its planning process must be this interpreter, activated environment or not
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

settings.register_profile("short", derandomize=True, deadline=None, max_examples=50)
settings.register_profile("few", derandomize=True, deadline=None, max_examples=10)  # --hypothesis-profile=few
settings.register_profile(
    "long", deadline=None, max_examples=1000, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("long" if os.environ.get("KAFKASEG_LONG") else "short")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One session for all tests that ask for it; the others do not wait for a JVM."""
    from pyspark.sql import SparkSession  # noqa: PLC0415

    session = (
        SparkSession.builder.master("local[2]")
        .appName("kafkaseg tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.host", "localhost")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
