"""`glideslope run`."""

from __future__ import annotations

import click

from glideslope.engine.actions import GetRun, RunView, WaitRun
from glideslope.model.ids import RunId
from glideslope.surfaces.cli.app import App
from glideslope.surfaces.cli.block import show_run, standing
from glideslope.surfaces.cli.option import all_option, common
from glideslope.surfaces.cli.words import complete_runs
from glideslope.surfaces.session import expect


@click.command("run")
@click.argument("run_id", metavar="RUN", shell_complete=complete_runs)
@click.option("--wait", is_flag=True, help="Wait until it has ended.")
@click.option("--exit-code", "by_verdict", is_flag=True, help="Exit by verdict; 4 when no longer current.")
@click.option("--explain", is_flag=True, help="Say why each rung did what it did.")
@all_option
@common()
@click.pass_obj
def command(app: App, *, run_id: str, wait: bool, by_verdict: bool, explain: bool, show_all: bool) -> int:
    """Show one run, by its id or the beginning of it."""
    view = _waited_for(app, RunId(run_id)) if wait else app.ask(GetRun(run_id=RunId(run_id)), RunView)
    app.exit_code = standing(view) if by_verdict else 0
    show_run(app, view, explain=explain, show_all=show_all)
    return app.exit_code


def _waited_for(app: App, run: RunId) -> RunView:
    """No call blocks longer than the engine lets it, so it is asked again until the run has ended."""
    with app.session() as session:
        while True:
            view = expect(session.act(WaitRun(run_id=run)), RunView)
            if view.run.verdict is not None:
                return view
