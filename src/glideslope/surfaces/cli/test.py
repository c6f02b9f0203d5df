"""`glideslope test`."""

from __future__ import annotations

import click

from glideslope.engine.actions import Test
from glideslope.surfaces.cli.app import App
from glideslope.surfaces.cli.block import ending, show_run
from glideslope.surfaces.cli.follow import start_and_wait, start_only
from glideslope.surfaces.cli.option import caller_for, common, run_options
from glideslope.surfaces.cli.place import to_node_ids
from glideslope.surfaces.wire.word import read_profile

NODE_IDS = "choose tests by their node ids, as in `glideslope test tests/test_a.py::test_b`"


class _Command(click.Command):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # Who knows pytest tries its options first.
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            message = f"no option {error.option_name!r}: {NODE_IDS}"
            raise click.NoSuchOption(error.option_name, message, ctx=error.ctx) from error


@click.command("test", cls=_Command)
@click.argument("nodeids", nargs=-1, metavar="[NODEID]...")
@click.option("--profile", "registered", metavar="ID", help="A test profile of the settings.")
@click.option("--rerun-failed", is_flag=True, help="The tests that failed in the last run.")
@click.option("--project", metavar="NAME", help="The project of the workspace to test.")
@run_options
@common(streams=True)
@click.pass_obj
def command(
    app: App,
    *,
    nodeids: tuple[str, ...],
    registered: str | None,
    rerun_failed: bool,
    base: str | None,
    project: str | None,
    sandbox: str | None,
    python: str | None,
    timeout_s: float | None,
    wait: bool,
    tie: bool,
) -> int:
    """Run chosen tests, or a registered profile.

    They run in a fresh substrate, on the current snapshot. A file is meant from the current folder.
    """
    if rerun_failed and nodeids:
        raise click.UsageError("--rerun-failed chooses the tests: name none")
    if wrong := next((node for node in nodeids if node.startswith("-")), None):
        raise click.UsageError(f"{wrong} is no node id, and no option of pytest is passed on: {NODE_IDS}")
    profile = read_profile(sandbox)
    action = Test(
        caller=caller_for(app, profile),
        nodeids=to_node_ids(app, nodeids),
        profile=registered,
        rerun_failed=rerun_failed,
        base=base,
        project=project,
        sandbox=profile,
        python=python,
        timeout_s=timeout_s,
    )
    if not wait:
        show_run(app, start_only(app, action))
        return 0
    view = start_and_wait(app, action, tied=tie)
    app.exit_code = ending(app, view)
    show_run(app, view)
    return app.exit_code
