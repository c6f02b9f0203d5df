"""`glideslope runs`."""

from __future__ import annotations

import click

from glideslope.engine.actions import ListRuns, RunList, RunView
from glideslope.model.ids import RunId
from glideslope.surfaces.cli.app import App
from glideslope.surfaces.cli.option import common
from glideslope.surfaces.cli.words import complete_runs
from glideslope.surfaces.wire.answer import wire_runs


@click.command("runs")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="How many.")
@click.option("--before", metavar="RUN", shell_complete=complete_runs, help="Those older than this run.")
@common()
@click.pass_obj
def command(app: App, *, limit: int, before: str | None) -> None:
    """List the runs of the workspace, newest first."""
    older = RunId(before) if before else None
    page = app.ask(ListRuns(caller=app.caller(), before=older, limit=limit), RunList)
    app.output.data(wire_runs(page))
    app.output.lines(_line(view) for view in page.runs)
    if page.next is not None:
        app.output.note(f"older ones: glideslope runs --before {page.next}")


def _line(view: RunView) -> str:
    run = view.run
    what = f"verify {run.policy.value}" if run.action == "verify" else run.action
    verdict = run.verdict.value if run.verdict else "running"
    mark = "current" if view.current else ""
    reached = run.max_rung_reached.value if run.max_rung_reached else ""
    return f"{run.id}  {run.started_at}  {what:<16}  {verdict:<12}  {reached:<15}  {mark}".rstrip()
