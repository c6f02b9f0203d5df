"""`python -m glideslope`, and where the console scripts begin."""

from __future__ import annotations

import sys


def main() -> int:
    """Runs the command line on the arguments of this process.

    Returns:
        The exit code.
    """
    from glideslope.surfaces.cli import main as command_line

    return command_line()


if __name__ == "__main__":
    sys.exit(main())
