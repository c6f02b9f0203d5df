"""`glideslope log`."""

from __future__ import annotations

import click

from glideslope.engine.actions import LogPage, ReadLog
from glideslope.model.ids import LogRef
from glideslope.surfaces.cli.app import App
from glideslope.surfaces.cli.option import common
from glideslope.surfaces.session import expect
from glideslope.surfaces.wire.answer import wire_log


@click.command("log")
@click.argument("ref")
@click.option("--tail", "tail_lines", metavar="N", type=click.IntRange(min=0), help="The last N lines.")
@click.option("--grep", metavar="RE", help="Lines that match a regular expression.")
@click.option(
    "--from", "offset", metavar="BYTE", type=int, default=0, help="From this byte; negative: from the end."
)
@click.option(
    "--limit",
    metavar="BYTES",
    type=click.IntRange(1, 1 << 20),
    default=1 << 16,
    help="Size of a page of --json.",
)
@common()
@click.pass_obj
def command(app: App, *, ref: str, tail_lines: int | None, grep: str | None, offset: int, limit: int) -> None:
    """Read a stored log.

    For people all of it from the place given; with --json one page, and `to` is where the next begins.
    """
    action = ReadLog(ref=LogRef(ref), offset=offset, limit=limit, tail_lines=tail_lines, grep=grep)
    if not app.output.is_text:
        app.output.data(wire_log(app.ask(action, LogPage)))
        return
    with app.session() as session:
        page = expect(session.act(action), LogPage)
        app.output.raw(page.content)
        while tail_lines is None and grep is None and page.content and page.end < page.total_bytes:
            page = expect(session.act(ReadLog(ref=page.ref, offset=page.end, limit=limit)), LogPage)
            app.output.raw(page.content)
