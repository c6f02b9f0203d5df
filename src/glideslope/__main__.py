"""`python -m glideslope`, and where the console scripts begin."""

from __future__ import annotations

import os
import sys

from glideslope_fast.status import try_status


def main() -> int:
    """Runs the command line on the arguments of this process.

    Returns:
        The exit code.
    """
    if try_status(sys.argv[1:], os.environ):
        return 0
    from glideslope.surfaces.cli import main as command_line

    return command_line()


if __name__ == "__main__":
    sys.exit(main())
