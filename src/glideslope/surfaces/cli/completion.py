"""`glideslope completion`."""

from __future__ import annotations

import click

from glideslope.surfaces.cli.app import App
from glideslope.surfaces.cli.option import common
from glideslope.surfaces.cli.words import SHELLS, script


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@common()
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the script that completes our words in a shell.

    For bash, add to ~/.bashrc:  eval "$(glideslope completion bash)"
    """
    app = context.ensure_object(App)
    text = script(shell, context.find_root().command)
    app.output.lines(text.splitlines())
    app.output.data({"shell": shell, "script": text})
