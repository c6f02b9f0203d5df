"""CPU that `glideslope status --json` takes with the daemon up."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.long.product import Product

SCRIPT = Path(sysconfig.get_path("scripts")) / "glideslope"


def status_cpu_ms(ours: Product, *, rounds: int) -> tuple[float, ...]:
    """User and system time of each call, in milliseconds; the first call, which starts the daemon, is not counted.

    Raises:
        RuntimeError: a call failed.
    """
    argv = (str(SCRIPT),) if SCRIPT.exists() else (sys.executable, "-m", "glideslope")
    ours.call("daemon", "start")
    return tuple(_cpu_ms((*argv, "status", "--json"), ours) for _ in range(rounds + 1))[1:]


def _cpu_ms(argv: tuple[str, ...], ours: Product) -> float:
    child = subprocess.Popen(argv, cwd=ours.folder, env=ours.environment(), stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{' '.join(argv)} ended {child.returncode}")
    return (used.ru_utime + used.ru_stime) * 1000
