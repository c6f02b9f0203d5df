"""`glideslope cancel`."""

from __future__ import annotations

import click

from glideslope.engine.actions import Cancel, Cancelled
from glideslope.model.ids import RunId
from glideslope.surfaces.cli.app import App
from glideslope.surfaces.cli.option import common
from glideslope.surfaces.cli.words import complete_runs
from glideslope.surfaces.wire.answer import wire_cancelled


@click.command("cancel")
@click.argument("run_id", required=False, metavar="[RUN]", shell_complete=complete_runs)
@common()
@click.pass_obj
def command(app: App, *, run_id: str | None) -> None:
    """Cancel a run, or every active run of the workspace; done when their processes are gone."""
    answer = app.ask(Cancel(caller=app.caller(), run_id=RunId(run_id) if run_id else None), Cancelled)
    app.output.data(wire_cancelled(answer))
    if not answer.cancelled:
        app.output.lines(["nothing to cancel"])
    app.output.lines(f"cancelled {run}" for run in answer.cancelled)
    if answer.survivors:
        app.output.note(f"{answer.survivors} processes are still there")
