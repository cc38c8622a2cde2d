"""What every test gets: one way to start Spark, late; hypothesis with the same examples every time.

`KAFKASEG_LONG=1` draws new examples, and many more of them. Under `pytest -n`, as `make test` runs it, one process has
all tests that ask for Spark, so that there is one session; the longest tests begin first.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark.sql.datasource as pyspark_datasource
import pytest
from hypothesis import HealthCheck, settings

from tests.support.cases import count_cases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.buckets import Bucket

# Minutes of work in few tests: begun late, they would leave one process to wait for the other
_LONG = (
    "tests/examples/",
    "tests/fuzz/",
    "tests/property/test_modes.py",
    "tests/property/test_hurt_copies.py",
    "tests/simulation/",
    "tests/unit/test_site.py",
)

# Tests that share a Spark session
_WITH_SPARK = ("tests/spark/", "tests/examples/test_etl_job.py")

# Each of these makes something for all its tests that takes seconds: a site, a wheel, rebuilt logs, pages, a server.
# In several processes it would be made several times.
_TOGETHER = (
    "tests/cli/test_cli_report.py",
    "tests/storage/test_exports_to_s3.py",
    "tests/storage/test_tiered_windows.py",
    "tests/unit/test_packaging.py",
    "tests/unit/test_rebuilding.py",
    "tests/unit/test_site.py",
)

# They push filters themselves, and Spark 4.0 has no such classes
_WITH_FILTERS = (
    "unit/spark/test_pushdown.py",
    "unit/spark/test_remembered.py",
)
collect_ignore = [] if hasattr(pyspark_datasource, "Filter") else list(_WITH_FILTERS)

# Spark's workers and its planning process must be this interpreter, activated environment or not
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

# and load pyspark from its files, not from Spark's zip
_UNZIPPED = str(Path(__file__).parent / "support" / "unzipped")
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [_UNZIPPED, os.environ.get("PYTHONPATH")]))

# and keep their compiled code, whatever the shell says: hundreds of processes load the same modules
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# a JVM that lives for minutes gains nothing from the second compiler, and its collector needs no threads of its own
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData")

settings.register_profile("short", derandomize=True, deadline=None, max_examples=count_cases(25, 50))
settings.register_profile("seeded", deadline=None, max_examples=50)  # with --hypothesis-seed
settings.register_profile("few", derandomize=True, deadline=None, max_examples=10)  # --hypothesis-profile=few
settings.register_profile(
    "long", deadline=None, max_examples=1000, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("long" if os.environ.get("KAFKASEG_LONG") else "short")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Gives one process all tests of `_WITH_SPARK`, and one all tests of a file of `_TOGETHER`.

    Every process gets the next of the others whenever it is free. The groups of pytest-xdist 3.8 (`--dist loadgroup`)
    would do, but pytest 9.2 ignores the names it gives.
    """
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415  # only where it is installed

    class OneSession(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith(_WITH_SPARK):
                return "spark"
            return nodeid.partition("::")[0] if nodeid.startswith(_TOGETHER) else nodeid

    return OneSession(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts long tests first where several processes share the tests."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: not item.nodeid.startswith(_LONG))  # stable: the order is the same otherwise


def pytest_collection_finish() -> None:
    """Exempts what is loaded by now from garbage collection, which looks through it again and again otherwise."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Says which servers of object stores had no part in a run that has tests of them."""
    stores = os.environ.get("KAFKASEG_STORES", "")
    left = [name for name in ("s3proxy", "Azurite") if name.lower() not in stores]
    reports = [each for some in terminalreporter.stats.values() for each in some]
    if left and any(getattr(each, "nodeid", "").startswith("tests/storage/") for each in reports):
        terminalreporter.write_line(f"object stores: {' and '.join(left)} had no part (make test-stores)")


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The URL of one S3 server for all tests that ask for it."""
    from tests.support.buckets import serving_s3  # noqa: PLC0415

    with serving_s3() as url:
        yield url


@pytest.fixture
def bucket(s3_server: str) -> Bucket:
    """An empty bucket, and the options that lead to it."""
    from tests.support.buckets import make_bucket  # noqa: PLC0415

    return make_bucket(s3_server)


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
