"""Asks this machine which tier of isolation it allows."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import anyio

from glideslope.adapters.environments.launch import BOOT
from glideslope.model.sandbox import Isolation, SandboxProbe

_PROBE_S = 30.0


async def probe_sandbox(layer: str, *, python: str = sys.executable) -> SandboxProbe:
    """Tries every primitive of the sandbox.

    Args:
        layer: An existing folder on the file system that holds the snapshots: it would be the
            lower layer of the overlay, and overlays do not stack on everything.
        python: Interpreter to try it with; ours.

    Returns:
        The best tier, and what is missing for a better one. A probe that cannot run at all
        says so, and leaves the live tree.
    """
    argv = [python, "-I", "-S", "-X", "utf8", BOOT, "probe", layer]
    try:
        with anyio.fail_after(_PROBE_S):
            done = await anyio.run_process(
                argv, check=False, stderr=subprocess.PIPE, cwd="/", env=_variables()
            )
        found = json.loads(done.stdout)
    except (OSError, TimeoutError, ValueError) as error:
        return SandboxProbe(isolation=Isolation.LIVE, missing={"probe": str(error) or type(error).__name__})
    return SandboxProbe(
        isolation=Isolation(found["tier"]),
        missing=found["missing"],
        primitives=tuple(found["primitives"]),
    )


def _variables() -> dict[str, str]:
    return {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
