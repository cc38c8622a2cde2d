"""Python processes that Spark starts for the tests load pyspark from where it is installed.

Spark puts its pyspark.zip first on the path of these processes. Each of them then compiles what it imports from the
zip, and reads the zip's directory again for each package in it: a second of CPU a process, and the tests start dozens.
Python imports this module when it starts: `tests/conftest.py` puts this directory on PYTHONPATH.
"""

import os
import sys

_ZIPS = os.path.join("pyspark", "python", "lib", "")
sys.path[:] = [path for path in sys.path if not (_ZIPS in path and path.endswith(".zip"))]
