"""The command line: parse, ask the engine, show. One module per command, loaded when it is used."""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        arguments: Without the program's name; None: those of this process.

    Returns:
        The exit code.
    """
    from glideslope.surfaces.cli.entry import run

    return run(arguments)
