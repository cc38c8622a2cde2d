"""`kafkaseg completion`: the script that lets a shell complete commands, options and paths."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_SHELLS = ("bash", "zsh", "fish")


@click.command("completion", short_help="Completion of commands, options and paths in a shell.")
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion_command(context: click.Context, shell: str) -> None:
    """Print the script that lets bash, zsh or fish complete commands, options and paths.

    \b
    Examples:
      eval "$(kafkaseg completion bash)"      in ~/.bashrc
      eval "$(kafkaseg completion zsh)"       in ~/.zshrc, after compinit
      kafkaseg completion fish > ~/.config/fish/completions/kafkaseg.fish
    """
    shell_class = get_completion_class(shell)
    assert shell_class is not None  # click has all three
    click.echo(shell_class(context.find_root().command, {}, "kafkaseg", "_KAFKASEG_COMPLETE").source())
