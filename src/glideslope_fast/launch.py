"""Starting a daemon as nobody's child, and hearing from it how the start went."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

_ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))

# Runs in a fresh interpreter: leaves the session, then becomes the daemon as nobody's child.
_DETACH = "import os, sys\nif os.fork():\n    os._exit(0)\nos.execv(sys.argv[1], sys.argv[1:])"
_RUN = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from glideslope.surfaces.rpc.server import main; sys.exit(main())"
)
DAEMON = (sys.executable, "-P", "-c", _RUN, _ROOT)

# What a daemon takes over from whoever happens to start it. It outlives them and serves others, so
# nothing of a project, of a virtual environment or of a secret may be among it.
_KEPT = frozenset({"HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER"})
_KEPT_PREFIXES = ("LC_", "XDG_", "GLIDESLOPE_")
_OF_THE_CALL = "GLIDESLOPE__"
_IDLE = "GLIDESLOPE__AGENT__ENVIRONMENT__DAEMON_IDLE_S"


def launch(command: Sequence[str], state: str, environ: Mapping[str, str], *, deadline_s: float) -> bytes:
    """Starts a daemon and waits until it has reported, died, or the time is over.

    Args:
        command: What starts it, without its arguments.
        state: The state folder.
        environ: Variables of whoever starts it; few of them are passed on.
        deadline_s: Of the monotonic clock.

    Returns:
        What it put out until then; its last line is the report.

    Raises:
        OSError: No process can be started.
        subprocess.CalledProcessError: The command is not there.
    """
    reader, writer = os.pipe()
    try:
        try:
            subprocess.run(
                [sys.executable, "-I", "-S", "-c", _DETACH, *command, "--state", state, "--detached"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=writer,
                cwd="/",
                env=daemon_environment(environ),
                start_new_session=True,
                check=True,
            )
        finally:
            os.close(writer)  # so that the end of the daemon is the end of the stream
        return _read_all(reader, deadline_s)
    finally:
        os.close(reader)


def daemon_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that a daemon takes over from whoever starts it."""
    return {
        name: value
        for name, value in environ.items()
        if name == _IDLE
        or name in _KEPT
        or (name.startswith(_KEPT_PREFIXES) and not name.startswith(_OF_THE_CALL))
    }


def _read_all(reader: int, deadline_s: float) -> bytes:
    """Everything up to the end of the stream, or what there is when the time is over."""
    found = b""
    while select.select([reader], [], [], max(0.0, deadline_s - time.monotonic()))[0]:
        chunk = os.read(reader, 65536)
        if not chunk:
            break
        found += chunk
    return found
