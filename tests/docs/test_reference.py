"""The reference against the code: commands, options, fields, events, error codes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import click
import pytest

from glideslope import errors
from glideslope.engine.actions import CATALOGUE
from glideslope.model.event import Event
from glideslope.surfaces.api import Environment, RunHandle
from glideslope.surfaces.cli.entry import COMMANDS, ROOT
from glideslope.surfaces.wire.envelope import CANCELLED, USAGE
from glideslope.surfaces.wire.schema import SHAPES, envelope_schema

ROOT_FOLDER = Path(__file__).parents[2]
REFERENCE = (ROOT_FOLDER / "docs" / "reference.md").read_text(encoding="utf-8")
EVENTS = ROOT_FOLDER / "tests" / "golden" / "wire" / "events.ndjson"
OF_ALL = {"--repo", "--json", "--quiet", "--plain", "--help"}
OF_RUNS = {"--base", "--sandbox", "--python", "--timeout", "--wait", "--no-wait", "--tie", "--ndjson"}


def section(title: str) -> str:
    """The text below a heading, up to the next one of its level or above."""
    match = re.search(rf"^(#+) {re.escape(title)}\n", REFERENCE, re.MULTILINE)
    assert match, f"no section {title!r}"
    level = len(match[1])
    rest = REFERENCE[match.end() :]
    end = re.search(rf"^#{{1,{level}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def switches(command: click.Command) -> set[str]:
    """All switches of a command, those of its subcommands included."""
    below = command.commands.values() if isinstance(command, click.Group) else ()
    own = {
        name
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for name in (*parameter.opts, *parameter.secondary_opts)
    }
    return own.union(*(switches(one) for one in below))


def named(text: str) -> set[str]:
    """The words between backquotes; blocks of code do not count."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return {word for quoted in re.findall(r"`([^`]+)`", prose) for word in quoted.split()}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_section_that_names_its_options_and_no_others(name: str) -> None:
    command = ROOT.get_command(click.Context(ROOT), name)
    assert command is not None
    text = section(name)
    starts_run = any(entry.starts_run for entry in CATALOGUE if entry.name == name)
    own = switches(command) - OF_ALL - (OF_RUNS if starts_run else set())
    written = {word for word in named(text) if word.startswith("--")}
    assert own <= written
    assert written <= switches(command) | OF_ALL
    if isinstance(command, click.Group):
        assert set(command.commands) <= named(text)


def test_options_of_all_commands_and_of_all_runs_are_described_once() -> None:
    assert OF_ALL - {"--help"} | OF_RUNS <= named(section("Commands"))


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_every_field_of_every_shape_is_named(name: str) -> None:
    found: Any = envelope_schema(name)
    fields: set[str] = set()
    for shape in found["$defs"].values():
        fields |= set(shape.get("properties", {}))
    assert fields - named(section("Envelope")) == set()


def test_every_event_is_in_the_table_with_all_its_fields() -> None:
    text = section("Events")
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", text, re.MULTILINE))
    assert set(rows) == {kind.__name__ for kind in get_args(Event)}
    of_all = named(text.split("| type |")[0])
    for line in EVENTS.read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        assert set(event) - of_all <= named(rows[event["type"]]), event["type"]


def test_every_error_code_is_in_the_table_with_its_kind() -> None:
    def tree(kind: type[errors.GlideslopeError]) -> list[type[errors.GlideslopeError]]:
        return [kind, *(found for child in kind.__subclasses__() for found in tree(child))]

    rows = dict(re.findall(r"^\| `(\w+)` \| `(\w+)` \|", section("Errors"), re.MULTILINE))
    kinds = tree(errors.GlideslopeError)[1:]
    ours = {kind.code: kind.kind for kind in kinds if kind.__module__ == errors.__name__}
    assert rows == {**ours, USAGE: "request_error", CANCELLED: CANCELLED}


def test_the_table_of_exit_codes_is_that_of_the_errors() -> None:
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", section("Exit codes"), re.MULTILINE)}
    branches = {kind.exit_code for kind in errors.GlideslopeError.__subclasses__()}
    assert branches <= codes == {0, 1, 2, 3, 4, 5, 6, 7, 70}


def test_every_method_of_the_api_is_named() -> None:
    text = section("Python")
    for kind in (Environment, RunHandle):
        for name in (name for name in vars(kind) if not name.startswith("_")):
            assert re.search(rf"\b{name}\b", text), name


def test_the_example_is_python() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", REFERENCE, re.DOTALL)
    compile(code, "reference", "exec")
