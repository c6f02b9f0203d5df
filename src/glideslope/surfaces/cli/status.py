"""`glideslope status`."""

from __future__ import annotations

from collections.abc import Iterator

import click

from glideslope.engine.actions import GetStatus, Status
from glideslope.machines.card import Glyphs, view_status
from glideslope.surfaces.cli.app import App
from glideslope.surfaces.cli.option import common
from glideslope.surfaces.wire.answer import wire_status


@click.command("status")
@common()
@click.pass_obj
def command(app: App) -> None:
    """Show the queue, active runs and where the workspace stands."""
    status = app.ask(GetStatus(caller=app.caller()), Status)
    app.output.data(wire_status(status))
    lines = list(_lines(status, app.output.glyphs))
    app.output.lines(lines[:1] if app.output.quiet else lines)


def _lines(status: Status, glyphs: Glyphs) -> Iterator[str]:
    yield _standing(status, glyphs)
    yield f"workspace {status.workspace or glyphs.dash}"
    yield f"snapshot {status.verify_snapshot_id or glyphs.dash}"
    yield f"sandbox {status.sandbox_profile}"
    for view in status.active:
        shown = view_status(view.run, current=view.current, glyphs=glyphs)
        yield f"active {view.run.id} {view.run.action} {shown.removeprefix('Status: ')}"
    running = sum(task.state == "running" for task in status.queue)
    yield f"queue {running} of {status.cap} running, {len(status.queue) - running} waiting"
    yield from (f"  {task.state:<8} {task.lane:<11} {task.kind}" for task in status.queue)
    yield f"daemon {status.pid}, version {status.version}, up {status.uptime_s:.0f} s"


def _standing(status: Status, glyphs: Glyphs) -> str:
    """The line that matters: whether what is there now is verified."""
    if status.last_run_id is None:
        return "not verified: no run yet"
    last = f"run {status.last_run_id}"
    if status.last_verdict is None:
        return f"being verified: {last}"
    if not status.current:
        return f"{glyphs.stale} not verified on the current snapshot: {last} was {status.last_verdict}"
    return f"{status.last_verdict}: {last} speaks of the current snapshot"
