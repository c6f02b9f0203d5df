"""`glideslope daemon`: the process that does the work, started on first use."""

from __future__ import annotations

import click

from glideslope.errors import HostUnavailable
from glideslope.surfaces import client
from glideslope.surfaces.cli.app import App
from glideslope.surfaces.cli.option import common
from glideslope.surfaces.session import DaemonConnect
from glideslope.surfaces.wire.answer import WireDaemonStatus
from glideslope.surfaces.wire.text import path_text

STOP_S = 30.0  # for the processes of cancelled runs to be gone
DRAIN_S = 24 * 3600.0  # for runs to end by themselves


@click.group("daemon")
def command() -> None:
    """Start, stop or look at the process that does the work.

    It starts by itself on first use and stops by itself when idle.
    """


@command.command("start")
@common()
@click.pass_obj
def start(app: App) -> None:
    """Start the daemon where it does not run."""
    connect = DaemonConnect(environ=app.environ)
    connect.session().close()
    _show(app, connect)


@command.command("stop")
@click.option("--wait", is_flag=True, help="Let the runs under way end first, instead of cancelling them.")
@common()
@click.pass_obj
def stop(app: App, *, wait: bool) -> None:
    """Stop the daemon; done when its process is gone."""
    connect = DaemonConnect(environ=app.environ)
    found = connect.find()
    if found is not None:
        limit_s = DRAIN_S if wait else STOP_S
        with found:
            try:
                found.call("daemon.stop", {"wait": wait}, timeout_s=limit_s)
            except HostUnavailable:
                pass  # it stopped before it could say so
        if not client.wait_stopped(found.state_dir, timeout_s=limit_s):
            raise HostUnavailable(
                f"the daemon (process {found.daemon.pid}) has not stopped: look into its log, or end it",
                pid=found.daemon.pid,
            )
    _show(app, connect, stopped=found.daemon.pid if found is not None else None)


@command.command("status")
@common()
@click.pass_obj
def status(app: App) -> None:
    """Show whether the daemon runs; starts nothing."""
    _show(app, DaemonConnect(environ=app.environ))


def _show(app: App, connect: DaemonConnect, *, stopped: int | None = None) -> None:
    found = connect.find()
    if found is not None:
        found.close()
    daemon = found.daemon if found is not None else None
    app.output.data(
        WireDaemonStatus(
            running=daemon is not None,
            pid=daemon.pid if daemon else None,
            version=daemon.version if daemon else None,
            uptime_s=daemon.uptime_s if daemon else None,
            busy=daemon.busy if daemon else None,
            socket=path_text(connect.socket),
            state_dir=path_text(connect.state_dir),
        )
    )
    if daemon is None:
        app.output.lines(["no daemon runs" if stopped is None else f"stopped {stopped}"])
        return
    work = "at work" if daemon.busy else "idle"
    app.output.lines([f"daemon {daemon.pid}, version {daemon.version}, up {daemon.uptime_s:.0f} s, {work}"])
