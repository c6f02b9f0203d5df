"""Options that several commands share, and the words they take."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

from glideslope.engine.actions import Caller
from glideslope.errors import InvalidInput
from glideslope.model.rung import POLICY_ALIASES, Rung, VerifyPolicy
from glideslope.model.settings import SandboxProfile
from glideslope.surfaces.cli.app import App
from glideslope.surfaces.cli.words import complete_policies, complete_profiles, complete_rungs
from glideslope.surfaces.session import sends_environment
from glideslope.surfaces.wire.word import read_policy, read_rung

Command = TypeVar("Command", bound=Callable[..., object])
Decorator = Callable[[Command], Command]


def _keep_repo(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    app = context.find_object(App)
    if app is not None and value is not None:
        app.repo = value


def common(*, streams: bool = False) -> Callable[[Command], Command]:
    """`--repo`, `--json`, `--quiet`, `--plain`; and `--ndjson` for commands that run long.

    The forms of output are read from the arguments before they are parsed, so that a command line
    that cannot be parsed is answered in the form it asked for; here they are only declared.
    """

    def declare(command: Command) -> Command:
        options = [
            click.option(
                "--repo",
                metavar="DIR",
                type=click.Path(),
                expose_value=False,
                is_eager=True,
                callback=_keep_repo,
                help="The repository or project, instead of that of the current folder.",
            ),
            click.option("--json", is_flag=True, expose_value=False, help="Print one JSON envelope."),
            click.option("--quiet", is_flag=True, expose_value=False, help="Print the essential line only."),
            click.option("--plain", is_flag=True, expose_value=False, help="Print ASCII only."),
        ]
        if streams:
            help_text = "Print events as they come, one JSON object a line, and the envelope last."
            options.insert(2, click.option("--ndjson", is_flag=True, expose_value=False, help=help_text))
        for option in reversed(options):
            command = option(command)
        return command

    return declare


def run_options(command: Command) -> Command:
    """Options of everything that starts a run."""
    options = [
        click.option("--base", metavar="REV", help="Compare with this revision."),
        click.option(
            "--sandbox",
            metavar="PROFILE",
            shell_complete=complete_profiles,
            help="Sandbox profile of the tasks.",
        ),
        click.option("--python", metavar="PATH", help="The project's interpreter."),
        click.option(
            "--timeout",
            "timeout_s",
            metavar="S",
            type=click.FloatRange(min=0, min_open=True),
            help="Cancel the run after so many seconds.",
        ),
        click.option("--wait/--no-wait", default=True, help="Wait for the verdict (the default), or not."),
        click.option("--tie", is_flag=True, help="Cancel the run when this process goes away."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def all_option(command: Command) -> Command:
    """Whether the block lists what decides nothing too."""
    help_text = "List every finding and failing test, also known and advisory ones."
    return click.option("--all", "show_all", is_flag=True, help=help_text)(command)


def policy_options(command: Command) -> Command:
    """The policy, as argument or as option."""
    command = click.option(
        "--policy",
        "policy_option",
        metavar="POLICY",
        shell_complete=complete_policies,
        help=f"{', '.join(VerifyPolicy)}, or an alias: {', '.join(POLICY_ALIASES)}.",
    )(command)
    return click.argument("policy", required=False, metavar="[POLICY]", shell_complete=complete_policies)(
        command
    )


def rung_option(command: Command) -> Command:
    """The rung to climb to at most."""
    return click.option(
        "--rung",
        metavar="RUNG",
        shell_complete=complete_rungs,
        help=f"Climb no higher than this: {', '.join(Rung)}.",
    )(command)


def one_policy(argument: str | None, option: str | None) -> VerifyPolicy | None:
    """The policy that was named, None where none was.

    Raises:
        InvalidInput: An unknown one, or two different ones.
    """
    named = {policy for text in (argument, option) if (policy := read_policy(text)) is not None}
    if len(named) > 1:
        raise InvalidInput(f"two policies, {argument} and {option}: name one", field="policy")
    return named.pop() if named else None


def one_rung(app: App, text: str | None) -> Rung | None:
    """The rung that was named; an old name is taken with a warning.

    Raises:
        InvalidInput: An unknown one.
    """
    rung, warning = read_rung(text)
    if warning is not None:
        app.output.note(f"warning: {warning}")
    return rung


def caller_for(app: App, profile: SandboxProfile | None) -> Caller:
    """The caller of a run: with its whole environment where the tasks are the operator's own."""
    return app.caller(with_environment=sends_environment(profile, app.environ))
