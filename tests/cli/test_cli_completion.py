"""`kafkaseg completion`: scripts that a shell takes, and what they then complete."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.runner import run

SHELLS = ("bash", "zsh", "fish")
# Bash has no command that types for us: the function of the script is called as readline would call it
IN_BASH = """
eval "$(kafkaseg completion bash)"
COMP_WORDS=(kafkaseg %TYPED%); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_kafkaseg_completion kafkaseg "${COMP_WORDS[$COMP_CWORD]}"
printf '%s\\n' "${COMPREPLY[@]}"; complete -p kafkaseg
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The environment of a shell that finds `kafkaseg`."""
    script = tmp_path / "bin" / "kafkaseg"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kafka_segment_source.cli "$@"\n')
    script.chmod(0o755)
    return os.environ | {"PATH": f"{script.parent}{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path)}


def answer_of(shell: str, text: str, environment: dict[str, str], folder: Path) -> str:
    """What a shell prints for a script, without an error. Skips where the shell is not installed."""
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run([path, "-c", text], env=environment, cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_for_each_shell(shell: str) -> None:
    """Click's own script, under this command's name."""
    result = run("completion", shell)

    assert result.exit_code == 0
    assert f"_KAFKASEG_COMPLETE={shell}_complete" in result.stdout


def test_another_shell() -> None:
    """Wrong use: the message names the shells."""
    result = run("completion", "tcsh")

    assert result.exit_code == 2
    assert "'bash', 'zsh', 'fish'" in result.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("ver", {"verify"}),
        ("cat --timestamp-d", {"--timestamp-disorder"}),
        ("cat . --form", {"--format"}),
        ("cat --format js", {"jsonl"}),
    ],
)
def test_bash_completes(words: str, expected: set[str], environment: dict[str, str], tmp_path: Path) -> None:
    """Commands, options and their values."""
    told = answer_of("bash", IN_BASH.replace("%TYPED%", words), environment, tmp_path).splitlines()
    assert told[-1].endswith(" kafkaseg")
    assert set(told[:-1]) - {""} == expected


def test_bash_leaves_paths_to_itself(environment: dict[str, str], tmp_path: Path) -> None:
    """A path is completed by the shell's own rules: click's answer says so."""
    asked = environment | {"_KAFKASEG_COMPLETE": "bash_complete", "COMP_WORDS": "kafkaseg ls orde", "COMP_CWORD": "2"}
    assert answer_of("bash", "kafkaseg", asked, tmp_path) == "file,orde\n"


def test_fish_completes(environment: dict[str, str], tmp_path: Path) -> None:
    """Fish can be asked what it would complete, with the command's own sentence beside it."""
    text = "kafkaseg completion fish | source; complete --do-complete 'kafkaseg ver'"
    assert answer_of("fish", text, environment, tmp_path).startswith("verify\t")


def test_zsh_takes_the_script(environment: dict[str, str], tmp_path: Path) -> None:
    """It defines the function for the command."""
    text = 'autoload -U compinit; compinit -D; eval "$(kafkaseg completion zsh)"; print $_comps[kafkaseg]'
    assert answer_of("zsh", text, environment, tmp_path) == "_kafkaseg_completion\n"
