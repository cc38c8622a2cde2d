"""paths: what a path names, as users and Spark write it, above all where it holds a percent sign."""

from __future__ import annotations

from pathlib import Path

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import PathError, UnsupportedError
from kafka_segment_source.storage.paths import join_name, join_path, name_apart, name_of, parent_of, resolve_path
from tests.support.batches import data
from tests.support.logs import simple_log, simple_segment


@pytest.fixture
def both(tmp_path: Path) -> Path:
    """A directory with `a%20b` and `a b`: orders-0 in the first has offset 0, in the second offset 7."""
    for name, offset in [("a%20b", 0), ("a b", 7)]:
        simple_log(simple_segment([data(offset, 5)])).write(tmp_path / name)
    return tmp_path


def offsets(path: str) -> list[int]:
    found: list[int] = kafkaseg.scan(path, ["offset"]).read_all()["offset"].to_pylist()
    return found


@pytest.mark.parametrize("scheme", ["", "file:", "file://", "file://localhost"])
@pytest.mark.parametrize("end", ["", "/orders-0", "/*", "/orders-[0-9]", "/orders-0/*.log"])
def test_a_percent_sign_that_is_there(scheme: str, end: str, both: Path) -> None:
    """What has that very name is read, also by a glob; Spark writes the paths of tables so."""
    assert offsets(f"{scheme}{both}/a%20b{end}") == [0]
    assert offsets(f"{scheme}{both}/a b{end}") == [7]


@pytest.mark.parametrize("end", ["", "/orders-0", "/*"])
def test_a_percent_sign_of_a_uri(end: str, both: Path) -> None:
    """Where nothing has that name, `%20` in a URI is a blank; without `file:` it never is."""
    (both / "a%20b").rename(both / "elsewhere")

    assert offsets(f"file:{both}/a%20b{end}") == [7]
    assert resolve_path(f"{both}/a%20b{end}") == f"{both}/a%20b{end}"
    assert resolve_path(f"file:{both}/new%20one") == f"{both}/new one"


@pytest.mark.parametrize("path", ["file:/" + "x%20" * 2000, "file:/%zz"])
def test_what_can_be_no_file(path: str) -> None:
    """Such a path is an absolute path like any other; the code that opens it says what is wrong."""
    assert resolve_path(path).startswith("/")


@pytest.mark.parametrize(
    ("path", "resolved"),
    [
        ("s3://logs/a%20b", "s3://logs/a%20b"),
        ("s3a://logs/a b//c/", "s3://logs/a b/c"),
        ("S3N://logs", "s3://logs"),
        ("gs://logs/", "gs://logs"),
        ("az://logs/x", "az://logs/x"),
        ("abfs://logs/x", "az://logs/x"),
        ("abfss://logs@me.dfs.core.windows.net/x/*", "abfss://logs@me.dfs.core.windows.net/x/*"),
    ],
)
def test_a_path_in_a_bucket(path: str, resolved: str) -> None:
    """All spellings of one place have one form. A key is as it is written."""
    assert resolve_path(path) == resolved


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("hdfs://name/x", "HDFS is not read.*; mount it"),
        ("wasbs://c@a.blob.core.windows.net/x", "write it as abfss://CONTAINER@ACCOUNT"),
        ("ftp://host/x", "expected s3://.*, not ftp:"),
    ],
)
def test_another_scheme(path: str, said: str) -> None:
    """A scheme that is not read is an error that says what to do."""
    with pytest.raises(UnsupportedError, match=said):
        resolve_path(path)


@pytest.mark.parametrize("path", ["s3://", "s3:///key", "abfss://@account/x", "gs:///"])
def test_a_url_without_a_bucket(path: str) -> None:
    """The error says what is expected."""
    with pytest.raises(PathError, match="names no bucket"):
        resolve_path(path)


@pytest.mark.parametrize("path", ["s3://id:canary@logs/x", "s3a://canary@logs", "gs://a:canary/x"])
@pytest.mark.parametrize("option", ["path", "zoneMaps"])
def test_credentials_in_a_path(option: str, path: str) -> None:
    """They are refused, and the error does not repeat them."""
    with pytest.raises(PathError, match="credentials are options") as caught:
        kafkaseg.plan(**{"path": "/x", option: path})
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "parent", "name"),
    [
        ("/a/b", "/a", "b"),
        ("/a", "/", "a"),
        ("/", "/", ""),
        ("s3://logs/a/b", "s3://logs/a", "b"),
        ("s3://logs/a", "s3://logs", "a"),
        ("s3://logs", "s3://logs", "logs"),
    ],
)
def test_parts_of_a_path(path: str, parent: str, name: str) -> None:
    """A bucket is a root, as `/` is."""
    assert (parent_of(path), name_of(path)) == (parent, name)
    assert path in (join_path(parent, name), parent)


@pytest.mark.parametrize("path", ["/x\0y", "x\0", "file:/x%00y", "file:/x\0", "/x\0*", "s3://x\0"])
def test_a_nul_in_a_path(path: str) -> None:
    """No file name has one, so the path is wrong, for one read and for a listing."""
    for function in (kafkaseg.plan, kafkaseg.list_partitions):
        with pytest.raises(PathError, match=r"path '.*' names no file: found a NUL character"):
            function(path)


@pytest.mark.parametrize(
    ("directories", "names"),
    [
        ([], []),
        (["/a/b", "/a/b"], ["", ""]),
        (["/disks/a/logs", "/disks/b/logs"], ["a/logs", "b/logs"]),
        (["/disks/a1", "/disks/a2"], ["a1", "a2"]),
        (["/a", "/b"], ["a", "b"]),
        (["/", "/b"], ["/", "/b"]),
        (["/disks", "/disks/b"], ["/disks", "/disks/b"]),
        (["s3://one/logs", "s3://two/logs", "/logs"], ["s3://one/logs", "s3://two/logs", "/logs"]),
        (["s3://one/a", "s3://one/b"], ["a", "b"]),
    ],
)
def test_names_apart(directories: list[str], names: list[str]) -> None:
    """The parts of paths that differ; the whole paths where one contains the others. Never the same name twice."""
    found = name_apart(directories)
    assert [found[directory] for directory in directories] == names
    assert len(set(found.values())) == len(set(directories))


def test_names_are_joined() -> None:
    """A directory without a name adds nothing."""
    assert [join_name(name, "t-0") for name in ("", "a", "/", "s3://b")] == ["t-0", "a/t-0", "/t-0", "s3://b/t-0"]


@pytest.mark.parametrize("key", ["a/../b", "./a", "a/.", "tab\tx", "a\n"])
def test_a_key_that_no_client_can_ask_for(key: str) -> None:
    """The path is named, and what is wrong with it."""
    with pytest.raises(PathError, match=r"has a part that is '\.' or '\.\.', or a control character"):
        resolve_path(f"s3://logs/{key}")


@pytest.mark.parametrize("key", ["a b", "..a", "day=?", "e\u0301 \U0001f468\u200d\U0001f469\xa0", "q?x=1"])
def test_odd_keys(key: str) -> None:
    """These are keys like any other."""
    assert resolve_path(f"s3://logs/{key}") == f"s3://logs/{key}"
