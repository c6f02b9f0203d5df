"""`glideslope events`."""

from __future__ import annotations

from typing import get_args

import click

from glideslope.model.event import Event
from glideslope.surfaces.cli.app import App
from glideslope.surfaces.cli.option import common
from glideslope.surfaces.cli.output import Mode
from glideslope.surfaces.wire.event import wire_event

TYPES = tuple(sorted(kind.__name__ for kind in get_args(Event)))


@click.command("events")
@click.option("--follow", is_flag=True, help="Go on with new events until interrupted.")
@click.option(
    "--from",
    "first",
    metavar="SEQ",
    type=click.IntRange(min=0),
    help="From this sequence number on; without it from the first, or with --follow only new ones.",
)
@click.option(
    "--type",
    "types",
    multiple=True,
    type=click.Choice(TYPES),
    metavar="T",
    help="Only this; may be repeated.",
)
@common(streams=True)
@click.pass_obj
def command(app: App, *, follow: bool, first: int | None, types: tuple[str, ...]) -> None:
    """Print the journal, one event a line."""
    if follow and app.output.mode is Mode.JSON:
        raise click.UsageError("--follow has no end: use --ndjson")
    after = (None if follow else 0) if first is None else max(0, first - 1)
    found: list[dict[str, object]] = []
    last = after or 0
    with app.session() as session, session.events(after=after, follow=follow) as stream:
        for recorded in stream:
            last = recorded.seq
            if types and type(recorded.event).__name__ not in types:
                continue
            event = wire_event(recorded)
            if app.output.mode is Mode.JSON:
                found.append(event)
            else:
                app.output.event(event)
    if app.output.mode is Mode.JSON:
        app.output.data({"events": found, "next": last + 1})
    app.output.enveloped = True
