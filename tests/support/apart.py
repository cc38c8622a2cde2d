"""Runs a function in a fresh process that has the package loaded already: its memory and its end are its own.

The process is forked from one that did nothing but import, so that each call does not import again.
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import kafka_segment_source as kafkaseg

_FORKS = get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.fuzz.bombs", "tests.support.apart", "kafka_segment_source.scanning"])

MIB = 2**20


def run_apart(function: Callable[..., Any], *arguments: Any, seconds: float) -> Any:
    """What the function answers. AssertionError where it fails, dies or takes longer; its traceback is on stderr."""
    ours, theirs = _FORKS.Pipe(duplex=False)
    process = _FORKS.Process(target=_send_answer, args=(theirs, function, arguments))
    process.start()
    theirs.close()
    try:
        assert ours.poll(seconds), f"no end after {seconds} s"
        return ours.recv()
    except EOFError:
        process.join()
        raise AssertionError(f"{function.__name__} ended with exit code {process.exitcode}") from None
    finally:
        process.kill()
        process.join()
        ours.close()


def _send_answer(connection: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    connection.send(function(*arguments))


def plan_and_scan(path: str, options: dict[str, Any], sound: str) -> tuple[list[int], list[str], int]:
    """Offsets, warnings of the plan, and by how many MiB planning grew the process beyond a plan of `sound`."""
    kafkaseg.plan(sound)
    before = peak()
    plan = kafkaseg.plan(path, **options)
    grown = peak() - before
    offsets = kafkaseg.scan(path, ["offset"], **options).read_all()["offset"].to_pylist()
    return offsets, list(plan.warnings), grown // MIB


def peak() -> int:
    """The most memory that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
