"""Jars of servers, fetched once by Maven into a cache directory.

In: a `Distribution` (a name and its Maven coordinates). Out: the directory that holds its jars. Raises
`subprocess.CalledProcessError` when Maven cannot resolve them; a half-finished download is never taken for a whole one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

CACHE_VARIABLE = "KAFKASEG_BROKER_CACHE"

_POM = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>kafkaseg.test</groupId>
  <artifactId>{name}</artifactId>
  <version>1</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""

_NOTHING_ELSE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"


@dataclass(frozen=True)
class Distribution:
    """A set of jars that belongs together; without `transitive` exactly the ones named.

    A coordinate is `group:artifact:version`, with `:classifier` behind it where a jar has one. behind: jars that are
    searched last, for classes that these jars lack.
    """

    name: str
    version: str
    coordinates: tuple[str, ...]
    transitive: bool = True
    behind: Distribution | None = None

    @property
    def is_there(self) -> bool:
        """Whether the jars were downloaded before."""
        return (cache_directory() / self.name / "lib").is_dir()

    def directory(self) -> Path:
        """Where the jars lie; downloads them the first time."""
        folder = cache_directory() / self.name
        jars = folder / "lib"
        if not jars.is_dir():
            _download(folder, self)
        return jars

    def pom(self) -> str:
        """A Maven project that depends on the coordinates and on nothing else."""
        lines = (_dependency(coordinate, self.transitive) for coordinate in self.coordinates)
        return _POM.format(name=self.name, dependencies="\n".join(lines))

    def classpath(self) -> str:
        """What `java -cp` wants."""
        own = f"{self.directory()}/*"
        return own if self.behind is None else f"{own}:{self.behind.classpath()}"


KAFKA_4 = Distribution(
    "kafka-4.1.0",
    "4.1.0",
    (
        "org.apache.kafka:kafka_2.13:4.1.0",
        "org.apache.kafka:kafka-tools:4.1.0",
        "org.apache.kafka:kafka-server:4.1.0",
        "org.slf4j:slf4j-simple:1.7.36",
    ),
)
#: The same, with LocalTieredStorage: Kafka's own plugin of KIP-405 for tests, which lies in the jars of its tests.
KAFKA_4_TIERED = Distribution(
    "kafka-4.1.0-tiered",
    "4.1.0",
    (
        *KAFKA_4.coordinates,
        "org.apache.kafka:kafka-storage:4.1.0:test",
        "org.apache.kafka:kafka-clients:4.1.0:test",
    ),
)
KAFKA_2 = Distribution(
    "kafka-2.8.2",
    "2.8.2",
    ("org.apache.kafka:kafka_2.13:2.8.2", "org.slf4j:slf4j-simple:1.7.30"),
)
#: JDK 17 no longer has the `javax.xml.bind` that this release wants. It logs through log4j 1, unconfigured: nothing.
KAFKA_0_10 = Distribution(
    "kafka-0.10.2.2",
    "0.10.2.2",
    ("org.apache.kafka:kafka_2.12:0.10.2.2", "javax.xml.bind:jaxb-api:2.3.1"),
)
#: An S3 server. Its own choice of jackson-annotations is too old for it; the first one named wins.
S3PROXY = Distribution(
    "s3proxy-4.1.0",
    "4.1.0",
    ("com.fasterxml.jackson.core:jackson-annotations:2.21", "org.gaul:s3proxy:4.1.0"),
)


def cache_directory() -> Path:
    """The folder for everything downloaded, outside the repository."""
    return Path(os.environ.get(CACHE_VARIABLE, "~/.cache/kafkaseg-brokers")).expanduser()


def java_command(distribution: Distribution, main_class: str, *arguments: str, heap: str = "512m") -> list[str]:
    """A `java` command line; only warnings are logged, so that a failure is the last thing in the log."""
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return ["java", f"-Xmx{heap}", quiet, "-cp", distribution.classpath(), main_class, *arguments]


def run_java(distribution: Distribution, main_class: str, *arguments: str, seconds: float | None = None) -> str:
    """Run a tool to its end and return what it printed; after `seconds` it is killed and `TimeoutExpired` raised."""
    command = java_command(distribution, main_class, *arguments)
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=seconds)
    return done.stdout


def _dependency(coordinate: str, transitive: bool) -> str:
    group, artifact, version, *classifier = coordinate.split(":")
    parts = f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
    parts += "".join(f"<classifier>{each}</classifier>" for each in classifier)
    return f"    <dependency>{parts}{'' if transitive else _NOTHING_ELSE}</dependency>"


def _download(folder: Path, wanted: Distribution) -> None:
    """Resolve into a side directory that is renamed at the end: `lib` exists only when it is complete."""
    unfinished = folder / "lib.part"
    shutil.rmtree(unfinished, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pom.xml").write_text(wanted.pom())
    command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={unfinished}"]
    subprocess.run(command, cwd=folder, check=True, stdout=sys.stderr)
    unfinished.rename(folder / "lib")
