"""Showing a run: the Verify Epoch block, its status line, or the envelope."""

from __future__ import annotations

from collections.abc import Iterator

from glideslope.adapters.settings import folder_reader, merge_settings, user_settings_file
from glideslope.engine.actions import RunView
from glideslope.machines.card import view_epoch, view_status
from glideslope.machines.settings.merge import Merged
from glideslope.model.result import RungResult, RungState, Verdict
from glideslope.model.run import Run
from glideslope.surfaces.cli.app import App
from glideslope.surfaces.wire.run import wire_run


def show_run(app: App, view: RunView, *, explain: bool = False, show_all: bool = False) -> None:
    """Shows a run in the form that was asked for."""
    output = app.output
    if not output.is_text:
        output.data(wire_run(view))
    elif output.quiet:
        output.lines([view_status(view.run, current=view.current, glyphs=output.glyphs)])
    else:
        show_time = _settings(app, view.run.scope).settings.environment.time_accounting.show_in_chat
        output.lines(
            view_epoch(
                view.run,
                current=view.current,
                glyphs=output.glyphs,
                show_time=show_time,
                show_all=show_all,
            )
        )
        if explain:
            output.lines(explained(view))


def ending(app: App, view: RunView) -> int:
    """The exit code of a command that waited for a run; warnings about its settings are noted.

    By verdict; a green that does not hold any more when we come to say it is as good as stale.
    """
    for warning in _settings(app, view.run.scope).warnings:
        app.output.note(f"warning: {warning}")
    if view.run.verdict is Verdict.GREEN and not view.current:
        return Verdict.STALE.exit_code
    return view.run.verdict.exit_code if view.run.verdict else 0


def standing(view: RunView) -> int:
    """The exit code of a run that is looked at later: by verdict, stale where it is not current."""
    if view.run.verdict is None:
        return 0
    return view.run.verdict.exit_code if view.current else Verdict.STALE.exit_code


def _settings(app: App, scope: str) -> Merged:
    """As they are now; a mistake in them is for a run to report, not for showing one."""
    return merge_settings(
        user_file=user_settings_file(app.environ), variables=app.environ, read=folder_reader(scope)
    )


def _state(run: Run, rung: RungResult) -> str:
    if rung.state is RungState.PENDING and run.verdict is not None:
        return "not reached"
    return rung.state.value.replace("_", " ")


def explained(view: RunView) -> Iterator[str]:
    """Why the rungs did what they did: the change, its base, and each rung's own."""
    run = view.run
    yield f"Change against {run.base_snapshot or 'nothing'} ({run.base_reason.value.replace('_', ' ')}):"
    yield from (f"  {path}" for path in run.changed_paths or ("no path differs",))
    for rung in run.rungs:
        said = [_state(run, rung)]
        if rung.reason:
            said.append(rung.reason.replace("_", " "))
        if rung.cached_from:
            said.append(f"as run {rung.cached_from[:8]} found on this content")
        if rung.base_snapshot and rung.base_snapshot != run.base_snapshot:
            said.append(f"against {rung.base_snapshot}")
        if rung.tests is not None:
            chosen = "?" if rung.tests.selected is None else str(rung.tests.selected)
            units = "?" if rung.tests.units is None else str(rung.tests.units)
            said.append(f"{chosen} of {units} test files ({rung.tests.selection.value})")
        yield f"{rung.rung.value}: {', '.join(said)}"
