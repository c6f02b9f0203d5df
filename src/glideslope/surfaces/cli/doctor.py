"""`glideslope doctor`."""

from __future__ import annotations

import click

from glideslope.engine.actions import Diagnosis, Doctor, HealthCheck
from glideslope.errors import EnvironmentBroken
from glideslope.surfaces.cli.app import App
from glideslope.surfaces.cli.option import common
from glideslope.surfaces.wire.answer import wire_doctor


@click.command("doctor")
@click.option("--python", metavar="PATH", help="The project's interpreter.")
@common()
@click.pass_obj
def command(app: App, *, python: str | None) -> None:
    """Look at everything a verify needs, and say what is missing and how to get it."""
    try:
        answer = app.ask(Doctor(caller=app.caller(), python=python), Diagnosis)
    except EnvironmentBroken as error:  # just what one comes here to understand
        why = HealthCheck(id="daemon", state="missing", effect=error.message, next=_other_than_this(error))
        answer = Diagnosis(checks=(why,))
    app.output.data(wire_doctor(answer))
    for check in answer.checks:
        if app.output.quiet and check.state == "ok":
            continue
        app.output.lines([f"{check.state:<9} {check.id:<18} {check.effect}".rstrip()])
        if check.next:
            app.output.lines([f"{'':<9} next: {check.next}"])


def _other_than_this(error: EnvironmentBroken) -> str:
    return error.next if error.next and error.next != "glideslope doctor" else ""
