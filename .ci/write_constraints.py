"""`python .ci/write_constraints.py`: the versions that this environment has for the package and its tests.

Out: constraints.txt beside this file, one `name==version` a line, for `PIP_CONSTRAINT`. pyspark is not in it, as the
Makefile's SPARK chooses it. Run it in an environment that `make test` passes in.
"""

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

TARGET = Path(__file__).with_name("constraints.txt")
CHOSEN_BY_MAKE = {"pyspark", "py4j"}
HEAD = "# Written by .ci/write_constraints.py: what `make test` passed with, on Python 3.11. For PIP_CONSTRAINT.\n"


def needed(name: str, extras: "set[str]", found: "dict[str, str]", seen: "set[tuple[str, str]]") -> None:
    """Adds to `found` the version of each distribution that `name` with these extras needs, with those they need."""
    for text in distribution(name).requires or []:
        need = Requirement(text)
        wanted = [""] if need.marker is None else [e for e in ["", *extras] if need.marker.evaluate({"extra": e})]
        key = canonicalize_name(need.name)
        if not wanted or key in CHOSEN_BY_MAKE or (key, str(sorted(need.extras))) in seen:
            continue
        seen.add((key, str(sorted(need.extras))))
        try:
            found[key] = distribution(key).version
        except PackageNotFoundError:
            continue  # an extra that is not installed here
        needed(key, set(need.extras), found, seen)


def main() -> None:
    """Writes the file."""
    found: dict[str, str] = {}
    needed(
        "kafka-segment-source",
        set(distribution("kafka-segment-source").metadata.get_all("Provides-Extra")),
        found,
        set(),
    )
    found.pop("kafka-segment-source", None)
    TARGET.write_text(HEAD + "".join(f"{name}=={version}\n" for name, version in sorted(found.items())))


if __name__ == "__main__":
    main()
