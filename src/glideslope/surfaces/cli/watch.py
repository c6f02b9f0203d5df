"""`glideslope verify --watch`: verify again after each quiet moment, until interrupted."""

from __future__ import annotations

import time

from glideslope.engine.actions import GetRun, GetStatus, RunView, Status, Verify
from glideslope.machines.coalesce import Pending, note, take_due
from glideslope.model.event import AgentVerifyEpochStale
from glideslope.surfaces.cli.app import App
from glideslope.surfaces.cli.block import ending, show_run
from glideslope.surfaces.cli.follow import start_and_wait
from glideslope.surfaces.session import expect

LOOK_EVERY_S = 0.25


def watch(app: App, action: Verify, *, tied: bool, explain: bool, show_all: bool) -> int:
    """Verifies, waits for the workspace to change and to be quiet again, and verifies anew.

    The engine says when a run no longer speaks of the workspace; from then on its content is looked
    at until it has been the same for the whole window.

    Returns:
        0 when interrupted while it waits.

    Raises:
        Interrupted: Twice while a run goes on.
    """
    window_s = _window_s(app)
    shown = False
    while True:
        view = start_and_wait(app, action, tied=tied)
        app.exit_code = ending(app, view)
        app.output.again()
        if shown:
            app.output.lines(["", time.strftime("%H:%M:%S")])
        shown = True
        show_run(app, view, explain=explain, show_all=show_all)
        app.output.note("watching: interrupt to end")
        try:
            _wait_for_change(app, view)
            _wait_for_quiet(app, Pending(window_s=window_s))
        except KeyboardInterrupt:
            return 0


def _window_s(app: App) -> float:
    from glideslope.adapters.settings import folder_reader, load_settings, user_settings_file
    from glideslope.surfaces.cli.place import workspace_root

    settings = load_settings(
        user_file=user_settings_file(app.environ),
        variables=app.environ,
        read=folder_reader(workspace_root(app)),
    ).settings
    return settings.environment.coalesce_window_ms / 1000


def _wait_for_change(app: App, view: RunView) -> None:
    """Returns once the run no longer speaks of the workspace."""
    with app.session() as session, session.events(after=None, follow=True) as stream:
        # Looked at after the stream was opened, so that no change falls between the two.
        if not app.ask(GetRun(run_id=view.run.id), RunView).current:
            return
        for recorded in stream:
            event = recorded.event
            if isinstance(event, AgentVerifyEpochStale) and event.run_id == view.run.id:
                return


def _wait_for_quiet(app: App, pending: Pending) -> None:
    """Returns once the content has been the same for the whole window, and nobody verifies it.

    Two that watch one workspace would otherwise supersede one another for ever.
    """
    seen: str | None = None
    pending = note(pending, (), app.monotonic_s())
    with app.session() as session:
        while True:
            found = expect(session.act(GetStatus(caller=app.caller())), Status)
            now_s = app.monotonic_s()
            verified_by_others = any(active.run.scope == found.workspace for active in found.active)
            if verified_by_others or found.verify_snapshot_id != seen:
                seen = found.verify_snapshot_id
                pending = note(pending, (), now_s)
            pending, batch = take_due(pending, now_s)
            if batch is not None:
                return
            time.sleep(min(LOOK_EVERY_S, pending.window_s))
