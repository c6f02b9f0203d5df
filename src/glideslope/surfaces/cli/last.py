"""`glideslope last`."""

from __future__ import annotations

import click

from glideslope.engine.actions import Last, RunView
from glideslope.surfaces.cli.app import App
from glideslope.surfaces.cli.block import show_run, standing
from glideslope.surfaces.cli.option import common


@click.command("last")
@click.option("--exit-code", "by_verdict", is_flag=True, help="Exit by verdict; 4 when no longer current.")
@common()
@click.pass_obj
def command(app: App, *, by_verdict: bool) -> int:
    """Show the newest run of the workspace, and where its time went."""
    view = app.ask(Last(caller=app.caller()), RunView)
    app.exit_code = standing(view) if by_verdict else 0
    show_run(app, view)
    return app.exit_code
