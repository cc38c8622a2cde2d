"""The notebook runs, and what is saved in it is what it says. `python -m tests.examples.test_notebook`
runs and saves it."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import socket
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client import KernelManager
from nbclient import NotebookClient

from tests.support.cases import takes_long
from tests.support.rows import ORDERS, TIMESTAMP, TOPIC, expected

ROOT = Path(__file__).parent.parent.parent
NOTEBOOK = ROOT / "examples" / "time_range.ipynb"
VALUE = 6  # in a row of `expected`
TEXTS = ("text/plain", "text/html")  # pictures differ with fonts and versions of matplotlib


def run(notebook: Any, directory: Path) -> Any:
    """The notebook with the outputs of a run in that directory, as they are saved."""
    notebook = nbformat.from_dict(notebook)
    manager = KernelManager()
    manager.kernel_spec.argv[0] = sys.executable  # this environment, whatever "python3" names on this machine
    plain = {name: value for name, value in os.environ.items() if name != "COLUMNS" and not name.startswith("SPARK_")}
    if "SPARK_SUBMIT_OPTS" in os.environ:  # how the JVM compiles: it changes no output
        plain["SPARK_SUBMIT_OPTS"] = os.environ["SPARK_SUBMIT_OPTS"]
    where = {"metadata": {"path": str(directory)}}
    NotebookClient(
        notebook, km=manager, timeout=300, startup_timeout=300, resources=where, coalesce_streams=True
    ).execute(env=plain)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # when each cell ran
        if cell.cell_type == "code":
            cell.outputs = [kept for kept in map(_as_saved, cell.outputs) if kept]
    notebook.metadata = {key: notebook.metadata[key] for key in ("kernelspec",)} | {"language_info": {"name": "python"}}
    return notebook


def _as_saved(output: Any) -> Any:
    """An output without what varies: warnings of the JVM and of Spark's workers; text beside a table or a picture."""
    if output.get("name") == "stderr":
        return None
    if output.output_type == "display_data" and "text/html" in output.data:
        return None  # rich shows the plan by itself as well, beside what the plan says it is
    if len(output.get("data", ())) > 1:
        output.data.pop("text/plain", None)
    return output


@pytest.fixture(scope="module")
def saved() -> Any:
    """The notebook as it is in the repository."""
    return nbformat.read(NOTEBOOK, as_version=4)


def outputs(notebook: Any) -> list[Any]:
    """All outputs, cell by cell."""
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def answer(notebook: Any) -> str:
    """The sentence that answers the question."""
    return str(outputs(notebook)[-2].text)


def texts(notebook: Any) -> list[tuple[str, list[str]]]:
    """The source of each cell of code, and what it says; of tables the words."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [(cell.source, [_words(output) for output in cell.outputs]) for cell in cells]


def _words(output: Any) -> str:
    said = output.get("text") or "".join(output.data.get(kind, "") for kind in TEXTS)
    return html.unescape(re.sub(r"<[^>]+>", " ", said))


def test_what_is_saved_is_whole_and_names_no_machine(saved: Any) -> None:
    """Every cell ran in order and without an error; tables, a picture and an answer are there; no path of
    a machine is."""
    nbformat.validate(saved)
    cells = [cell for cell in saved.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert not [output for output in outputs(saved) if output.output_type == "error" or output.get("name") == "stderr"]
    kinds = [kind for output in outputs(saved) for kind in output.get("data", ())]
    assert kinds.count("image/png") == 1
    assert kinds.count("text/html") == 5
    assert "are to be paid back" in answer(saved)
    text = re.sub(r'"image/png": ".*?"', "", NOTEBOOK.read_text(encoding="utf-8"))
    for private in (str(ROOT), str(Path.home()) + os.sep, tempfile.gettempdir() + os.sep, socket.gethostname()):
        assert private not in text


@takes_long
# jupyter_client and zmq warn of their own ways
@pytest.mark.filterwarnings("ignore:::jupyter_client", "ignore:::zmq", "ignore:::tornado")
def test_a_run_says_what_is_saved(saved: Any, tmp_path: Path) -> None:
    """Run from a directory like the repository's root, each cell gives the text and the tables that are
    saved with it."""
    shutil.copytree(NOTEBOOK.parent, tmp_path / "examples", ignore=shutil.ignore_patterns("*.parquet"))
    shutil.copytree(ROOT / "conf", tmp_path / "conf")
    ran = run(saved, tmp_path)
    assert texts(ran) == texts(saved)
    assert "image/png" in [kind for output in outputs(ran) for kind in output.get("data", ())]


def test_the_answer_is_what_a_consumer_would_have_found(saved: Any) -> None:
    """Rejected orders of the five minutes that were paid for, found in what a real consumer saw, without Spark."""
    since, until = 1773135000000, 1773135300000
    rows = expected(ORDERS / "data")
    orders = [json.loads(row[VALUE]) for row in rows if row[TOPIC] == "orders" and since <= row[TIMESTAMP] < until]
    paid = {
        payment["orderId"]: payment for payment in (json.loads(row[VALUE]) for row in rows if row[TOPIC] == "payments")
    }
    found = [
        paid[order["orderId"]]["amount"]
        for order in orders
        if order["status"] == "rejected" and order["orderId"] in paid
    ]
    assert len(found) == 33
    assert answer(saved).startswith("33 payments by ")
    assert f": {sum(found):.2f} EUR" in answer(saved)


def test_the_stream_has_all_records(saved: Any) -> None:
    """The last table counts what a real consumer saw, by topic."""
    counts = Counter(row[TOPIC] for row in expected(ORDERS / "data"))
    words = _words(outputs(saved)[-1]).split()
    assert words == ["topic", "count", *(str(word) for each in sorted(counts.items()) for word in each)]


if __name__ == "__main__":
    nbformat.write(run(nbformat.read(NOTEBOOK, as_version=4), NOTEBOOK.parent), NOTEBOOK)
