"""The package as a whole: modules import downward only, nothing heavy loads unasked, and the public names are these."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

import kafka_segment_source
from kafka_segment_source import errors

PACKAGE = Path(kafka_segment_source.__file__).parent

# A module imports only from rooms above its own, and from its own folder. docs/architecture.md has the same order.
ROOMS = [
    *("errors", "kafka_format", "batch_kinds", "epoch_checkpoint", "reporting", "in_order"),
    "storage",
    *(
        "bounds",
        "times",
        "trust",
        "option_values",
        "source",
        "request",
        "option_table",
        "options",
        "keywords",
        "data_loss",
        "schema",
    ),
    *("logdir", "pruning", "kernels", "decoding", "values", "partition", "reading", "transactions", "latest"),
    *("scanning", "scanning_threads", "zones", "planning"),
    *("streams", "internal_topics", "schema_registry", "inspection", "views", "queries", "named_indexes"),
    *("searching", "statistics", "frames", "exporting", "rebuilding"),
    *("spark", "report", "cli"),
]

# Spark imports it in a process of its own for each query: neither the kernels nor Spark may load with it
PLANNER = "planning.planner"


@cache
def modules() -> dict[str, Path]:
    """Every module with code of the package, by its name without the package's."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if parts[-1] != "__init__":
            found[".".join(parts)] = path
    return found


def room(module: str) -> str:
    """The folder that a module is in, or the module itself."""
    return module.split(".", maxsplit=1)[0]


@cache
def imported(path: Path) -> list[tuple[str, bool]]:
    """Absolute names of what a module imports, and whether it does so when it is loaded.

    What only a type checker sees is left out.
    """
    found = []
    tree = ast.parse(path.read_text())
    unseen: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            unseen.update(child for statement in node.body for child in ast.walk(statement))
    at_once = {child for node in tree.body if not isinstance(node, ast.FunctionDef) for child in ast.walk(node)}
    at_once -= {c for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) for c in ast.walk(node)}
    for node in ast.walk(tree):
        if node in unseen:
            continue
        if isinstance(node, ast.Import):
            found += [(alias.name, node in at_once) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            found += [(f"{node.module}.{alias.name}", node in at_once) for alias in node.names]
    return found


def own(name: str) -> str | None:
    """The module of the package that an imported name is, or is in; None for anything else."""
    if not name.startswith("kafka_segment_source."):
        return None
    name = name.removeprefix("kafka_segment_source.")
    while name and name not in modules():
        name = name.rpartition(".")[0]
    return name or None


def test_every_module_has_its_place() -> None:
    """Each module is in a room of the list, and each room of the list is there."""
    assert {room(name) for name in modules()} == set(ROOMS)


@pytest.mark.parametrize("module", modules())
def test_imports_go_downward(module: str) -> None:
    """A module imports only from rooms above its own and from its own folder, lazy imports included."""
    for name, _ in imported(modules()[module]):
        target = own(name)
        if target is not None and room(target) != room(module):
            assert ROOMS.index(room(target)) < ROOMS.index(room(module)), f"{module} imports {target}"


def test_no_imports_go_in_a_circle() -> None:
    """Inside a folder too, each file can be read after those that it imports, lazy imports included."""
    needs = {name: {own(each) for each, _ in imported(path)} - {None} for name, path in modules().items()}
    assert list(TopologicalSorter(needs).static_order())  # raises CycleError, which names the circle


def test_few_functions_take_all_options() -> None:
    """Below the plan of a read, a function takes the values that it uses. The number says how many take all of them."""
    taking = [
        name
        for name, path in modules().items()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
        and any(
            part is not None and "ReadOptions" in ast.unparse(part)
            for part in (node.returns, *(each.annotation for each in (*node.args.args, *node.args.kwonlyargs)))
        )
    ]
    below = ROOMS[ROOMS.index("options") + 1 : ROOMS.index("planning")]
    assert [name for name in taking if room(name) in below] == []
    assert len(taking) <= 32


def read_first_sentence(path: Path) -> str:
    """The first sentence of a module's docstring, on one line."""
    paragraph = (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n\n")[0].replace("\n", " ")
    sentence = re.match(r".+?[.?](?= [A-Z`]|$)", paragraph)
    assert sentence is not None, f"{path}: the docstring begins with a sentence"
    return sentence.group()


def describe_rooms() -> str:
    """The map of docs/architecture.md: every room in the order of `ROOMS`, and every file by its own first sentence."""
    lines = []
    for name in ROOMS:
        if name in modules():
            lines.append(f"**`{name}.py`** {read_first_sentence(modules()[name])}\n")
            continue
        folder = PACKAGE / name
        lines.append(f"**`{name}/`** {read_first_sentence(folder / '__init__.py')}\n")
        files = sorted(path for path in folder.rglob("*.py") if path.name != "__init__.py" or path.parent != folder)
        lines += [f"- `{path.relative_to(folder)}` {read_first_sentence(path)}" for path in files]
        lines.append("")
    return "\n".join(lines)


def write_map(page: str) -> str:
    """Returns the page with the map as the code has it now."""
    before, after = page.partition("<!-- map:begin -->")[0], page.partition("<!-- map:end -->")[2]
    return f"{before}<!-- map:begin -->\n{describe_rooms()}<!-- map:end -->{after}"


ARCHITECTURE = PACKAGE.parent / "docs" / "architecture.md"


def test_the_architecture_page_has_the_same_order() -> None:
    """The page's map is what the modules say of themselves. `python -m tests.unit.test_imports` writes it."""
    page = ARCHITECTURE.read_text()
    assert page == write_map(page)


@pytest.mark.parametrize("module", modules())
def test_pyspark_is_imported_under_spark_only(module: str) -> None:
    """pyspark is imported nowhere else, not even lazily; nor is pandas, which Spark would bring."""
    names = {name.split(".")[0] for name, _ in imported(modules()[module])}
    assert "pandas" not in names
    assert (
        "to_pandas" not in modules()[module].read_text()
    )  # with old releases of pyarrow, to_pandas_dtype needs it too
    assert "pyspark" not in names or module.startswith("spark.")


# What each module of other rooms may use of `os`: none of it reads a path of data
OF_THE_SYSTEM = {
    "errors": {"strerror"},
    "in_order": {"cpu_count", "process_cpu_count", "sched_getaffinity", "register_at_fork"},
    "keywords": {"PathLike", "fspath"},
    "kernels.jit": {"environ"},
    "kernels.system_calls": {"preadv"},  # as a kernel reads a file that is open
    "zones.updates": {"PathLike", "fspath"},
    "kernels.machine_code": {"access", "W_OK", "X_OK", "environ", "register_at_fork"},
    "spark.remembered": {
        "open",
        "O_RDWR",
        "O_NOFOLLOW",
        "utime",
        "close",
        "fstat",
        "pread",
        "ftruncate",
        "pwrite",
        "fdopen",
    },
    # of the target, which is a local directory
    "rebuilding.target_files": {
        "makedirs",
        "rename",
        "unlink",
        "listdir",
        "fsync",
        "path",
        "posix_fadvise",
        "POSIX_FADV_DONTNEED",
    },
    "rebuilding.journal": {"open", "close", "O_RDWR", "O_CREAT", "path", "strerror"},
    "rebuilding.broker_checkpoints": {"listdir"},
    "rebuilding.rebuild": {"PathLike", "fspath"},
    "rebuilding.rebuild_run": {"scandir", "strerror", "path"},
    "cli.shared": {"dup2", "open", "devnull", "environ", "O_WRONLY"},
    "cli.demo": {"path"},  # prints where the package keeps its example
}


@pytest.mark.parametrize("module", [name for name in modules() if room(name) != "storage"])
def test_only_one_room_knows_file_systems(module: str) -> None:
    """A path of data may be in a bucket. So no other room splits one, or opens, lists or examines a file."""
    names = {name.split(".")[0] for name, _ in imported(modules()[module])}
    assert not names & {"glob", "obstore", "boto3"}
    tree = ast.parse(modules()[module].read_text())
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os"
    }
    assert used <= OF_THE_SYSTEM.get(module, set())


def test_there_is_one_way_in() -> None:
    """Paths become partitions with logs in `partition/logs.py` alone: for reads, views, streams and inspection."""
    listing = {
        module for module, path in modules().items() if any(own(name) == "logdir.catalog" for name, _ in imported(path))
    }
    assert listing == {"partition.logs"}


def loaded_by(statement: str) -> set[str]:
    """Names of the top-level modules that are loaded after a statement in a fresh interpreter."""
    code = f"{statement}\nimport sys\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    return set(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    """`import kafka_segment_source` costs nothing: no numpy, no pyarrow, no numba, no Spark."""
    heavy = {"numpy", "pyarrow", "numba", "pyspark", "pandas", "rich", "click", "obstore", "boto3"}
    assert loaded_by("import kafka_segment_source") & heavy == set()


def test_planning_loads_neither_kernels_nor_spark() -> None:
    """The planning side runs in a fresh process for each query, and does without numba and Spark."""
    loaded = loaded_by(f"import kafka_segment_source.{PLANNER}")
    assert loaded & {"numba", "llvmlite", "pyspark", "pandas", "rich", "obstore", "boto3"} == set()
    assert "kafka_segment_source" in loaded


def test_a_read_of_one_local_log_loads_only_what_it_needs() -> None:
    """Buckets, tiers, several copies, transactions, zone maps, codecs, streams and other views load with the first read
    that has them."""
    log = PACKAGE.parent / "examples" / "data" / "orders" / "data" / "orders-0"
    statement = f"import kafka_segment_source\nnext(iter(kafka_segment_source.scan({str(log)!r})))"
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    )
    unneeded = {
        *("storage.object_store", "storage.object_client", "storage.tiered.storage", "storage.tiered.manifest"),
        *("logdir.tiers", "partition.chain", "partition.survey", "reading.mending", "transactions.committed"),
        *("zones.zone_table", "streams.stream", "views.view"),
        *("values.typed", "values.typed_rows", "kernels.avro", "schema_registry.resolving", "schema_registry.registry"),
    }
    assert unneeded <= modules().keys()
    assert loaded & {f"kafka_segment_source.{name}" for name in unneeded} == set()
    assert loaded & {"crc32c", "lz4", "xxhash", "obstore"} == set()


def test_scanning_loads_no_spark() -> None:
    """`scan` works where Spark is not installed."""
    assert loaded_by("from kafka_segment_source import scan") & {"pyspark", "pandas"} == set()


def test_kafka_format_is_all_that_kernels_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels import nothing of the package but `kafka_format`, one another, and what makes the directory of
    compiled code."""
    for module, path in modules().items():
        if module.startswith("kernels."):
            targets = {own(name) for name, _ in imported(path)} - {None}
            assert all(
                target in {"kafka_format", "storage.private"} or str(target).startswith("kernels.")
                for target in targets
            ), module


def type_checkers_see() -> dict[str, str]:
    """The public names that a type checker sees, each with the module that it comes from."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


def test_public_names_are_the_same_everywhere() -> None:
    """Type checkers, `dir()`, `import *` and lazy loading know the same names, from the same modules."""
    seen = type_checkers_see()
    assert sorted([*seen, "__version__"]) == kafka_segment_source.__all__ == dir(kafka_segment_source)
    for name, module in seen.items():
        value = getattr(kafka_segment_source, name)
        assert value is (importlib.import_module(f"{module}.{name}") if name == "errors" else value)
        assert name == "errors" or value.__module__ == module
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = kafka_segment_source.nothing


def test_every_error_is_public() -> None:
    """Each error class that a user may catch is a public name."""
    kinds = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)}
    assert kinds <= set(kafka_segment_source.__all__)


# Parts of public results that stay inside: what a read was asked, what makes its rows, what tasks need of a file, what
# reads a view, and counts that are still being made
INNER_PARTS = {
    "ReadOptions",
    "SplitTable",
    "Segment",
    "Storage",
    "FileVersion",
    "BatchPlace",
    "View",
    "Heaviest",
    "Distinct",
}


def classes_in(kind: object) -> Iterator[type]:
    """The package's classes in a type, also inside tuples, lists and unions."""
    if inspect.isclass(kind) and kind.__module__.startswith("kafka_segment_source"):
        yield kind
    for part in get_args(kind):
        yield from classes_in(part)


@pytest.mark.parametrize("name", [name for name in kafka_segment_source.__all__ if name[0].isupper()])
def test_the_parts_of_public_results_are_public(name: str) -> None:
    """Each class that a field of a public class holds can be imported from the package, except for INNER_PARTS."""
    kind = getattr(kafka_segment_source, name)
    if issubclass(kind, Exception) or not (is_dataclass(kind) or hasattr(kind, "_fields")):
        return
    parts = {part.__name__ for held in get_type_hints(kind).values() for part in classes_in(held)}
    assert parts - INNER_PARTS <= set(kafka_segment_source.__all__)


PUBLIC_FUNCTIONS = [name for name in kafka_segment_source.__all__ if name.islower() and not name.startswith("_")]
PUBLIC_FUNCTIONS.remove("errors")


@pytest.mark.parametrize("name", PUBLIC_FUNCTIONS)
def test_public_functions_say_what_they_take_and_give(name: str) -> None:
    """The docstring of each public function names every parameter, and has an example that is run
    (`test_docstrings`)."""
    function = getattr(kafka_segment_source, name)
    told = inspect.getdoc(function) or ""
    arguments = re.findall(r"^    (\w+): ", told.partition("Args:")[2].partition("\n\n")[0], re.MULTILINE)
    assert arguments == list(inspect.signature(function).parameters)
    assert "Example:\n    >>> " in told
    assert "Returns:" in told or function.__annotations__["return"] == "None"


def test_the_shim_is_the_data_source() -> None:
    """`pyspark_kafkaseg` gives Spark the data source under the name that it looks for, and is three lines."""
    shim = importlib.import_module("pyspark_kafkaseg")
    assert shim.DefaultSource is kafka_segment_source.KafkaSegmentDataSource
    assert shim.DefaultSource.name() == "kafkaseg"
    lines = [line for line in Path(str(shim.__file__)).read_text().splitlines() if line.strip()]
    assert len(lines) <= 4


# Modules of one name in several rooms, which mean the same thing there. A command has the name of what it shows.
SAME_MEANING = {
    *("blocks", "consumer_offsets", "files", "indexes", "messages", "names", "offset_map", "record_rows", "rows"),
    *("segments", "share_offsets", "tables", "topics", "transactional_ids"),
}


def test_no_two_modules_have_one_name_and_two_meanings() -> None:
    """A name says which room it is in, or stands in SAME_MEANING."""
    names = [name.rpartition(".")[2] for name in modules() if not name.startswith("cli.")]
    assert {name for name in names if names.count(name) > 1} - SAME_MEANING == set()


def test_the_lines_of_the_map_are_short() -> None:
    """A line of a file in docs/architecture.md is read at a glance."""
    assert [line for line in describe_rooms().splitlines() if len(line) > 150] == []


def test_every_module_says_what_it_is_for() -> None:
    """Each module opens with a docstring."""
    assert [name for name, path in modules().items() if not ast.get_docstring(ast.parse(path.read_text()))] == []


if __name__ == "__main__":
    ARCHITECTURE.write_text(write_map(ARCHITECTURE.read_text()))
