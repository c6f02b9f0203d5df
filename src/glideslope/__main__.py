"""`python -m glideslope`, and where the console scripts begin."""

from __future__ import annotations

import os
import sys

from glideslope_fast.status import try_status
from glideslope_fast.streams import fill_missing


def main() -> int:
    """Runs the command line on the arguments of this process.

    Returns:
        The exit code.
    """
    fill_missing()
    if try_status(sys.argv[1:], os.environ):
        return 0
    from glideslope.surfaces.cli import main as command_line

    return command_line()


if __name__ == "__main__":
    sys.exit(main())
