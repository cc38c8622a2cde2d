"""Says in one sentence what is missing before anything is set up: Python 3.11, Java 17, Spark 4.0.

It runs on any Python 3.
The argument is the Spark asked for, as in `make test SPARK=4.1`.
"""

import os
import re
import shutil
import subprocess
import sys

OLDEST_PYTHON = (3, 11)
OLDEST_JAVA = 17
OLDEST_SPARK = (4, 0)


def java_version() -> "int | None":
    """The major version of the Java that Spark would start, None if there is none."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=os.path.join(home, "bin")) if home else shutil.which("java")
    if java is None:
        return None
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    match = re.search(r'version "(\d+)(?:\.(\d+))?', told.stderr + told.stdout)
    if match is None:
        return None
    return int(match.group(2) or 0) if match.group(1) == "1" else int(match.group(1))


def main(spark: str) -> "str | None":
    """The sentence, or None where nothing is missing; `spark` is a version such as 4.3."""
    if not re.match(r"\d+\.\d+$", spark) or tuple(map(int, spark.split("."))) < OLDEST_SPARK:
        return f"kafkaseg needs Spark 4.0 or later, and SPARK={spark} asks for another: run make with SPARK=4.0, 4.1, 4.2 or 4.3"
    if sys.version_info < OLDEST_PYTHON:
        found = ".".join(map(str, sys.version_info[:2]))
        return f"This needs Python 3.11 or later, and {sys.executable} is {found}: install one and run make PYTHON=python3.11"
    found_java = java_version()
    if found_java is None:
        return "Spark needs Java 17 or later, and none was found: install a JDK 17 (openjdk-17-jdk-headless) or set JAVA_HOME"
    if found_java < OLDEST_JAVA:
        return f"Spark needs Java 17 or later, and this one is {found_java}: install a JDK 17 or set JAVA_HOME to one"
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
