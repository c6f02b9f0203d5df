"""What one surface can do, the others can: the catalogue, the command line and the Python API."""

from __future__ import annotations

import dataclasses
import inspect

import click

from glideslope.engine.actions import CATALOGUE
from glideslope.surfaces.api import Environment
from glideslope.surfaces.cli.entry import COMMANDS, ROOT

# Why a surface lacks an action under its name, or has something that is no action.
CLI_LACKS = {"wait": "`run RUN --wait`"}
CLI_HAS = {
    "events": "a stream, which is no action; the API has it too",
    "daemon": "about the process that serves actions, so it cannot be one",
    "config": "reads files of the caller and asks no engine",
    "completion": "about the shell",
}
API_HAS = {
    "events": "a stream, as on the command line",
    "is_green": "a question to the list of runs that programs ask and people read off `status`",
}

# Fields of an action that its command does not take as an option of that name.
CLI_NAMES = {
    "caller": "what the process knows",
    "policy": "policy",
    "rung": "rung",
    "paths": "paths",
    "nodeids": "nodeids",
    "profile": "registered",
    "run_id": "run_id",
    "offset": "offset",
    "before": "before",
}
API_NAMES = {"caller": "what `open` was given"}


def api_methods() -> set[str]:
    return {name for name, _ in inspect.getmembers(Environment, callable) if not name.startswith("_")}


def test_every_action_is_a_command_and_every_command_an_action_or_a_named_exception() -> None:
    actions = {entry.name for entry in CATALOGUE}
    assert set(COMMANDS) - actions == set(CLI_HAS)
    assert actions - set(COMMANDS) == set(CLI_LACKS)


def test_every_action_is_a_method_and_every_method_an_action_or_a_named_exception() -> None:
    actions = {entry.name for entry in CATALOGUE}
    assert api_methods() - actions == set(API_HAS)
    assert actions - api_methods() == set()


def test_every_field_of_an_action_can_be_given_on_the_command_line_and_in_the_api() -> None:
    for entry in CATALOGUE:
        fields = {field.name for field in dataclasses.fields(entry.input)}
        parameters = set(inspect.signature(getattr(Environment, entry.name)).parameters)
        missing = fields - parameters - set(API_NAMES)
        assert missing == ({"timeout_s"} if entry.name == "wait" else set()), entry.name
        if entry.name in CLI_LACKS:
            continue
        command = ROOT.get_command(click.Context(ROOT), entry.name)
        assert command is not None
        options = {parameter.name for parameter in command.params}
        assert {CLI_NAMES.get(name, name) for name in fields} - options <= {CLI_NAMES["caller"]}, entry.name


def test_every_run_takes_the_options_of_waiting_and_every_command_those_of_output() -> None:
    for name in COMMANDS:
        command = ROOT.get_command(click.Context(ROOT), name)
        assert command is not None
        assert command.name == name
        assert command.help
        leaves = list(command.commands.values()) if isinstance(command, click.Group) else [command]
        for leaf in leaves:
            switches = {switch for parameter in leaf.params for switch in parameter.opts}
            assert {"--repo", "--json", "--quiet", "--plain"} <= switches, (name, leaf.name)
    for entry in CATALOGUE:
        if entry.starts_run:
            command = ROOT.get_command(click.Context(ROOT), entry.name)
            assert command is not None
            switches = {switch for parameter in command.params for switch in parameter.opts}
            assert {"--wait", "--tie", "--ndjson"} <= switches


def test_the_help_of_the_table_is_that_of_the_command() -> None:
    for name, line in COMMANDS.items():
        command = ROOT.get_command(click.Context(ROOT), name)
        assert command is not None
        assert command.help is not None
        assert command.help.strip().splitlines()[0] == line
