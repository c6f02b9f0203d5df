"""The words a shell can complete."""

from __future__ import annotations

import os

import click
from click.shell_completion import CompletionItem

from glideslope.errors import GlideslopeError
from glideslope.model.rung import POLICY_ALIASES, Rung, VerifyPolicy
from glideslope.model.settings import SandboxProfile

PROGRAMS = ("glideslope", "glide")
SHELLS = ("bash", "zsh", "fish")


def complete_policies(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Policies and their aliases."""
    aliases = [CompletionItem(name, help=f"alias of {policy}") for name, policy in POLICY_ALIASES.items()]
    return _beginning(typed, [*(CompletionItem(policy.value) for policy in VerifyPolicy), *aliases])


def complete_rungs(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Rungs."""
    return _beginning(typed, [CompletionItem(rung.value) for rung in Rung])


def complete_profiles(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Sandbox profiles."""
    return _beginning(typed, [CompletionItem(profile.value) for profile in SandboxProfile])


def complete_runs(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Newest runs of the workspace, where an engine runs; none is started for this."""
    from glideslope.engine.actions import ListRuns, RunList
    from glideslope.surfaces.cli.app import App
    from glideslope.surfaces.session import expect

    app = context.find_object(App)
    if app is None:
        return []
    try:
        with app.session(start=False) as session:
            page = expect(session.act(ListRuns(caller=app.caller())), RunList)
    except GlideslopeError:
        return []  # a shell that asks for words is not to be shown an error
    found = [
        CompletionItem(view.run.id, help=f"{view.run.action} {view.run.verdict or 'running'}")
        for view in page.runs
    ]
    return _beginning(typed, found)


def _beginning(typed: str, items: list[CompletionItem]) -> list[CompletionItem]:
    return [item for item in items if str(item.value).startswith(typed)]


def script(shell: str, root: click.Command) -> str:
    """The script that makes a shell complete our words, after either name of the program.

    Args:
        shell: One of `SHELLS`.
        root: The whole command line.
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, "the shell is one of ours"
    return "\n".join(kind(root, {}, program, variable(program)).source() for program in PROGRAMS)


def variable(program: str) -> str:
    """The environment variable through which the script asks."""
    return f"_{os.path.basename(program).replace('-', '_').upper()}_COMPLETE"
