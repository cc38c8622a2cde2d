"""The README's S3 example on a Spark standalone cluster whose two workers share no directory.

Run: python -m tests.conformance.cluster_s3. It starts a master, two workers and an S3 server on 127.0.0.1, and stops
them. Each worker has a working directory that only it can read, an environment with the package installed from its
wheel, and, where this runs as root, a user of its own. Credentials are in the environment. The rows of the bucket must
be those of the disk, and both workers must have read some.
"""

from __future__ import annotations

import os
import pwd
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pyspark

import kafka_segment_source as kafkaseg
from tests.cli.runner import LOGS
from tests.support.buckets import make_bucket, serving_s3

ROOT = Path(__file__).parents[2]
SPARK_HOME = Path(pyspark.__file__).parent
USERS = ("daemon", "nobody")
SINCE = "2026-03-10T09:30:00Z"
SECONDS = 120  # for the cluster to start
PYTHON = "kafkaseg-python"  # found on the path of each worker, which has its own

DRIVER = """
import os, sys
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
spark = SparkSession.builder.master(sys.argv[1]).getOrCreate()
df = spark.read.format("kafkaseg").option("since", sys.argv[3]).load(sys.argv[2])
who = F.udf(lambda: f"{os.getuid()} in {os.path.dirname(os.path.dirname(os.getcwd()))}").asNondeterministic()
rows = df.select("topic", "partition", "offset", who().alias("who")).collect()
print(len({row[:3] for row in rows}), len(rows), *sorted({row.who for row in rows}), sep="\\n")
spark.stop()
"""


def main() -> int:
    """Returns 0 if all rows came, from both workers."""
    expected = kafkaseg.scan(LOGS, ["offset"], since=SINCE).read_all().num_rows
    with tempfile.TemporaryDirectory(prefix="kafkaseg-cluster-") as name, ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        wheel = _build_wheel(folder)
        server = stack.enter_context(serving_s3())
        bucket = make_bucket(server)
        url = bucket.put_tree(LOGS, "backups/kafka")
        environment = {name.upper(): text for name, text in bucket.options.items()}
        environment |= {"SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": "127.0.0.1", "PATH": os.environ["PATH"]}
        port = _free_port()
        master = f"spark://127.0.0.1:{port}"
        words = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
        _start(stack, "master.Master", words, environment, folder, None)
        _wait_for(port)
        for user in USERS:
            own = _prepare(folder, user, wheel)
            words = ["--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0"]
            path = f"{own / 'bin'}{os.pathsep}{environment['PATH']}"
            given = environment | {"PATH": path, "SPARK_LOCAL_DIRS": str(own), "HOME": str(own), "TMPDIR": str(own)}
            _start(stack, "worker.Worker", [*words, "--work-dir", str(own / "work"), master], given, own, user)
        driver = environment | {"PYSPARK_PYTHON": PYTHON}
        driver["PATH"] = f"{folder / USERS[0] / 'bin'}{os.pathsep}{environment['PATH']}"
        done = subprocess.run(
            [sys.executable, "-c", DRIVER, master, url, SINCE],
            env=driver,
            cwd=folder,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=600,
        )
    distinct, rows, *workers = done.stdout.splitlines()
    print(f"expected {expected} rows, found {rows} ({distinct} different), read by {len(workers)} workers: {workers}")
    return 0 if int(distinct) == int(rows) == expected and len(workers) == len(USERS) else 1


def _build_wheel(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", folder, ROOT]
    subprocess.run(command, check=True)
    return next(folder.glob("*.whl"))


def _prepare(folder: Path, user: str, wheel: Path) -> Path:
    """Makes a worker's directory, with the package installed from its wheel beside the libraries of this Python."""
    own = folder / user
    (own / "bin").mkdir(parents=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", own / "packages", wheel]
    subprocess.run(command, check=True)
    program = own / "bin" / PYTHON
    libraries = f"{own / 'packages'}{os.pathsep}{sysconfig.get_paths()['purelib']}"
    program.write_text(
        f'#!/bin/sh\nPYTHONPATH="{libraries}${{PYTHONPATH:+:$PYTHONPATH}}" exec "{_find_python(user)}" "$@"\n'
    )
    program.chmod(0o755)
    if os.getuid() == 0:
        record = pwd.getpwnam(user)
        for path in (own, *own.rglob("*")):
            os.chown(path, record.pw_uid, record.pw_gid)
    own.chmod(0o700)
    return own


def _find_python(user: str) -> str:
    """Returns a Python of this version that the user may run. One in a home directory may be closed to others."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for program in (sys.executable, f"/usr/local/bin/{name}", f"/usr/bin/{name}"):
        given = {"user": user} if os.getuid() == 0 else {}
        with suppress(OSError):
            if subprocess.run([program, "-c", ""], cwd="/", check=False, **given).returncode == 0:  # type: ignore[call-overload]
                return program
    raise FileNotFoundError(f"no {name} that {user} may run")


def _start(
    stack: ExitStack, name: str, words: list[str], environment: dict[str, str], folder: Path, user: str | None
) -> None:
    command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *words]
    given = {"user": user, "group": pwd.getpwnam(user).pw_gid} if user and os.getuid() == 0 else {}
    log = stack.enter_context((folder / f"{name}.log").open("w"))
    server = subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log, **given)  # type: ignore[call-overload]
    stack.callback(server.wait)
    stack.callback(server.terminate)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def _wait_for(port: int) -> None:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(f"nothing listens at port {port} after {SECONDS} s")


if __name__ == "__main__":
    sys.exit(main())
