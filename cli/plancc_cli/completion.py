"""`plancc completion`: what a shell needs to complete commands, options and names."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

INSTALL = {
    "bash": """add to ~/.bashrc: eval "$(plancc completion bash)\"""",
    "zsh": """add to ~/.zshrc, after compinit: eval "$(plancc completion zsh)\"""",
    "fish": "once: plancc completion fish > ~/.config/fish/completions/plancc.fish",
}
"""How the script is installed, by shell."""


@click.command()
@click.argument("shell", type=click.Choice(list(INSTALL)))
def command(shell: str) -> None:
    """Print the completion script of SHELL, for plancc and plancc-run.

    \b
        eval "$(plancc completion bash)"       # in ~/.bashrc
        eval "$(plancc completion zsh)"        # in ~/.zshrc, after compinit
        plancc completion fish > ~/.config/fish/completions/plancc.fish
    """
    complete = get_completion_class(shell)
    assert complete is not None
    click.echo(f"# {INSTALL[shell]}")
    for program in ("plancc", "plancc-run"):
        variable = f"_{program}_COMPLETE".replace("-", "_").upper()
        click.echo(complete(click.Command(program), {}, program, variable).source())
