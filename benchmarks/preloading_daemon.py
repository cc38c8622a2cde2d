"""For `spark.python.daemon.module`: the process that Spark forks its workers from, with this package loaded beforehand.

Tried by the group `conf`; whether it pays is what that group says.
"""

from pyspark.daemon import manager

import kafka_segment_source.scanning

if __name__ == "__main__":
    assert kafka_segment_source.scanning
    manager()
