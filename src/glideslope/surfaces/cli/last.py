"""`glideslope last`."""

from __future__ import annotations

import click

from glideslope.engine.actions import Last, RunView
from glideslope.surfaces.cli.app import App
from glideslope.surfaces.cli.block import show_run, standing
from glideslope.surfaces.cli.option import all_option, common


@click.command("last")
@click.option("--exit-code", "by_verdict", is_flag=True, help="Exit by verdict; 4 when no longer current.")
@all_option
@common()
@click.pass_obj
def command(app: App, *, by_verdict: bool, show_all: bool) -> int:
    """Show the newest run of the workspace, and where its time went."""
    view = app.ask(Last(caller=app.caller()), RunView)
    app.exit_code = standing(view) if by_verdict else 0
    show_run(app, view, show_all=show_all)
    return app.exit_code
