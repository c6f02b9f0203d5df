"""`glideslope prune`."""

from __future__ import annotations

import click

from glideslope.engine.actions import Prune, Pruned
from glideslope.surfaces.cli.app import App
from glideslope.surfaces.cli.option import common
from glideslope.surfaces.wire.answer import wire_pruned


@click.command("prune")
@click.option("--apply", is_flag=True, help="Remove what is listed.")
@click.option("--keep-runs", metavar="N", type=click.IntRange(min=0), help="Runs to keep of each workspace.")
@common()
@click.pass_obj
def command(app: App, *, apply: bool, keep_runs: int | None) -> None:
    """List what may go from the state folder; remove it with --apply."""
    answer = app.ask(Prune(apply=apply, keep_runs=keep_runs), Pruned)
    app.output.data(wire_pruned(answer))
    if not app.output.quiet:
        app.output.lines(
            f"{_size(item.size_bytes) if item.size_bytes else '':>9}  {item.kind:<10} {item.name}"
            for item in answer.items
        )
    app.output.lines([_sum(answer)])
    if answer.items and not answer.applied:
        app.output.note("next: glideslope prune --apply")


def _sum(answer: Pruned) -> str:
    if not answer.items:
        return f"nothing to remove, {_size(answer.state_bytes)} in the state folder"
    verb = "removed" if answer.applied else "could be removed"
    return f"{_size(answer.freed_bytes)} {verb}, {_size(answer.state_bytes)} in the state folder"


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
