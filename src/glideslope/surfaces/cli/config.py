"""`glideslope config`: what the settings are, whether they are right, and which there are."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import click

from glideslope.adapters.settings import (
    PROJECT_FILE,
    REPOSITORY_FILE,
    folder_reader,
    merge_settings,
    user_settings_file,
)
from glideslope.errors import NoWorkspace
from glideslope.machines.settings.layer import Source
from glideslope.machines.settings.merge import Merged
from glideslope.surfaces.cli.app import App
from glideslope.surfaces.cli.option import common
from glideslope.surfaces.cli.place import workspace_root
from glideslope.surfaces.wire.answer import WireConfig, WireConfigFile, WireConfigProblem, wire_settings
from glideslope.surfaces.wire.schema import SHAPES, envelope_schema, settings_schema
from glideslope.surfaces.wire.text import path_text, plain_text

WRONG = 2


@click.group("config")
def command() -> None:
    """Show, check or describe the settings."""


@command.command("show")
@common()
@click.pass_obj
def show(app: App) -> None:
    """Show every setting, its value and where it comes from."""
    merged, files = _load(app)
    app.output.data(_wire(merged, files))
    app.output.lines(_as_toml(merged))
    _note_problems(app, merged)


@command.command("check")
@common()
@click.pass_obj
def check(app: App) -> int:
    """Check the settings; exits 2 where something is wrong."""
    merged, files = _load(app)
    app.exit_code = WRONG if merged.problems else 0
    app.output.data(_wire(merged, files))
    app.output.lines(f"{file.path}{'' if file.exists else ' (not there)'}" for file in files)
    _note_problems(app, merged)
    if not merged.problems:
        app.output.lines(["the settings are right"])
    return app.exit_code


@command.command("schema")
@click.option(
    "--of", "shape", type=click.Choice(tuple(SHAPES)), help="Of the envelope of this, not of the settings."
)
@common()
@click.pass_obj
def schema(app: App, *, shape: str | None) -> None:
    """Print the JSON Schema of the settings, or of an envelope."""
    found = settings_schema() if shape is None else envelope_schema(shape)
    app.output.data(found)
    app.output.lines(json.dumps(found, indent=2, ensure_ascii=False).splitlines())


def _load(app: App) -> tuple[Merged, list[WireConfigFile]]:
    """The settings of the current folder's workspace; outside of one, the user's own."""
    try:
        root = workspace_root(app)
    except NoWorkspace:
        root = None
    user_file = user_settings_file(app.environ)
    merged = merge_settings(user_file=user_file, variables=app.environ, read=folder_reader(root))
    paths = [(Source.USER, user_file)]
    if root is not None:
        paths += [(Source.REPOSITORY, os.path.join(root, name)) for name in (REPOSITORY_FILE, PROJECT_FILE)]
    files = [
        WireConfigFile(source=source.value, path=path_text(path), exists=os.path.isfile(path))
        for source, path in paths
    ]
    return merged, files


def _wire(merged: Merged, files: list[WireConfigFile]) -> WireConfig:
    return WireConfig(
        settings=wire_settings(merged.settings),
        sources={name: path_text(where) for name, where in merged.sources.items()},
        files=files,
        digest=merged.digest,
        problems=[
            WireConfigProblem(
                where=path_text(problem.where),
                key=plain_text(problem.key),
                message=plain_text(problem.message),
            )
            for problem in merged.problems
        ],
        warnings=[plain_text(warning) for warning in merged.warnings],
    )


def _note_problems(app: App, merged: Merged) -> None:
    for problem in merged.problems:
        app.output.note(f"error: {problem.message}")
    for warning in merged.warnings:
        app.output.note(f"warning: {warning}")


def _as_toml(merged: Merged) -> Iterator[str]:
    """One line a setting, as it would be written, and where it comes from."""
    table = ""
    for name, where in merged.sources.items():
        above, _, own = name.rpartition(".")
        if above != table:
            yield from ([""] if table else [])
            yield f"[{above}]"
            table = above
        yield f"{own} = {_value(merged, name)}  # {where}"


def _value(merged: Merged, name: str) -> str:
    here: object = wire_settings(merged.settings)
    for part in name.split("."):
        assert isinstance(here, dict), "a setting lies in a table"
        here = here[part]
    return json.dumps(here, ensure_ascii=False)
