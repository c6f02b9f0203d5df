"""Standard streams that whoever started us has closed (`glideslope status >&-`)."""

from __future__ import annotations

import os
import sys


def fill_missing() -> None:
    """Puts the null device where a standard stream is closed.

    Without it the next file or socket that is opened would get that number, and be written to.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - lives as long as we do
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
