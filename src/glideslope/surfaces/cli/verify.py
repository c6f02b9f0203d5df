"""`glideslope verify`."""

from __future__ import annotations

import click

from glideslope.engine.actions import Verify
from glideslope.surfaces.cli.app import App
from glideslope.surfaces.cli.block import ending, show_run
from glideslope.surfaces.cli.follow import start_and_wait, start_only
from glideslope.surfaces.cli.option import (
    all_option,
    caller_for,
    common,
    one_policy,
    one_rung,
    policy_options,
    run_options,
    rung_option,
)
from glideslope.surfaces.cli.output import Mode
from glideslope.surfaces.cli.place import to_repo_paths
from glideslope.surfaces.wire.word import read_profile


@click.command("verify")
@policy_options
@rung_option
@click.option("--paths", multiple=True, metavar="PATH", help="Look only at these; may be repeated.")
@click.option("--project", metavar="NAME", help="Look only at this project of the workspace.")
@click.option("--no-cache", is_flag=True, help="Run every rung, also those that passed on this content.")
@click.option("--watch", is_flag=True, help="Verify again whenever the workspace has changed.")
@click.option("--explain", is_flag=True, help="Say why each rung did what it did.")
@all_option
@run_options
@common(streams=True)
@click.pass_obj
def command(
    app: App,
    *,
    policy: str | None,
    policy_option: str | None,
    rung: str | None,
    base: str | None,
    paths: tuple[str, ...],
    project: str | None,
    sandbox: str | None,
    python: str | None,
    timeout_s: float | None,
    wait: bool,
    tie: bool,
    watch: bool,
    no_cache: bool,
    explain: bool,
    show_all: bool,
) -> int:
    """Climb the ladder on the current snapshot.

    Exits 0 green, 1 red, 2 bad request, 3 refused, 4 stale, 5 died, 6 cancelled, 7 inconclusive.
    """
    profile = read_profile(sandbox)
    action = Verify(
        caller=caller_for(app, profile),
        policy=one_policy(policy, policy_option),
        rung=one_rung(app, rung),
        base=base,
        paths=to_repo_paths(app, paths),
        project=project,
        sandbox=profile,
        python=python,
        timeout_s=timeout_s,
        no_cache=no_cache,
    )
    if watch:
        return _watch(app, action, wait=wait, tied=tie, explain=explain, show_all=show_all)
    if not wait:
        show_run(app, start_only(app, action), explain=explain, show_all=show_all)
        return 0
    view = start_and_wait(app, action, tied=tie)
    app.exit_code = ending(app, view)
    show_run(app, view, explain=explain, show_all=show_all)
    return app.exit_code


def _watch(app: App, action: Verify, *, wait: bool, tied: bool, explain: bool, show_all: bool) -> int:
    from glideslope.surfaces.cli.watch import watch

    if not wait:
        raise click.UsageError("--watch waits: leave --no-wait out")
    if app.output.mode is Mode.JSON:
        raise click.UsageError("--watch answers more than once: use --ndjson")
    return watch(app, action, tied=tied, explain=explain, show_all=show_all)
