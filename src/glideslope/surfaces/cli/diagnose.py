"""`glideslope diagnose`."""

from __future__ import annotations

import click

from glideslope.engine.actions import Diagnose, RunView
from glideslope.machines.card import view_status
from glideslope.model.result import Diagnostic, FindingState, RungState
from glideslope.surfaces.cli.app import App
from glideslope.surfaces.cli.block import ending
from glideslope.surfaces.cli.follow import start_and_wait, start_only
from glideslope.surfaces.cli.option import caller_for, common, run_options
from glideslope.surfaces.cli.place import to_repo_paths, to_shown
from glideslope.surfaces.wire.run import wire_run
from glideslope.surfaces.wire.word import read_profile


@click.command("diagnose")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@run_options
@common(streams=True)
@click.pass_obj
def command(
    app: App,
    *,
    paths: tuple[str, ...],
    base: str | None,
    sandbox: str | None,
    python: str | None,
    timeout_s: float | None,
    wait: bool,
    tie: bool,
) -> int:
    """Check the given files, or the changed ones.

    Prints one finding a line, as editors read them: file:line:column: severity code message.
    """
    profile = read_profile(sandbox)
    action = Diagnose(
        caller=caller_for(app, profile),
        paths=to_repo_paths(app, paths),
        base=base,
        sandbox=profile,
        python=python,
        timeout_s=timeout_s,
    )
    if not wait:
        _show(app, start_only(app, action))
        return 0
    view = start_and_wait(app, action, tied=tie)
    app.exit_code = ending(app, view)
    _show(app, view)
    return app.exit_code


def _show(app: App, view: RunView) -> None:
    output = app.output
    if not output.is_text:
        output.data(wire_run(view))
        return
    status = view_status(view.run, current=view.current, glyphs=output.glyphs)
    if output.quiet:
        output.lines([status])
        return
    found = [finding for rung in view.run.rungs for finding in rung.diagnostics]
    found.sort(key=lambda finding: (finding.path, finding.line, finding.column))
    output.lines(quickfix(finding, to_shown(app, view.run.scope, finding.path)) for finding in found)
    output.note(status)
    for step in dict.fromkeys(rung.next for rung in view.run.rungs if rung.state is not RungState.PASS):
        if step:
            output.note(f"next: {step}")


def quickfix(found: Diagnostic, path: str) -> str:
    """One finding as editors read it; what is about the whole file stands at its first character."""
    mark = "" if found.state is FindingState.NEW else f" ({found.state.value})"
    message = " ".join(found.message.split())
    code = f" {found.code}" if found.code else ""
    return f"{path}:{found.line or 1}:{found.column or 1}: {found.severity.value}{code} {message}{mark}"
