"""What a command line that cannot be read is answered with."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

import click

from glideslope.surfaces.wire.envelope import USAGE, WireError

PROGRAM = "glideslope"


def no_command(typed: str, known: Iterable[str], context: click.Context) -> click.UsageError:
    """The error for a command that there is not, with the one that may have been meant."""
    near = get_close_matches(typed, list(known), n=1)
    meant = f": did you mean {near[0]}?" if near else ""
    return click.UsageError(f"no command {typed!r}{meant}", ctx=context)


def wire_usage(error: click.UsageError, action: str) -> WireError:
    """The error as data, with the help that fits.

    Args:
        error: What click says.
        action: The command that was named, as far as could be seen; else the program.
    """
    message = error.format_message()
    if error.ctx is not None:
        path = error.ctx.command_path
    else:
        path = PROGRAM if action == PROGRAM else f"{PROGRAM} {action}"
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        message = "no command given"
    elif isinstance(error, click.NoSuchOption) and error.ctx is not None and error.ctx.parent is None:
        # What is near it among our few own options was never meant.
        message = f"no option {error.option_name!r} before a command: options follow the command"
    return WireError(code=USAGE, kind="request_error", message=message, next=f"{path} --help")
