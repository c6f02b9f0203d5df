"""Where the state folder lies, and the socket of the daemon that owns it."""

from __future__ import annotations

import os
from collections.abc import Mapping

SOCKET_PATH_BYTES = 97  # the kernel takes 107; a daemon that starts adds its number to the name
LOCK = "lock"  # name of the file in the state folder that its owner keeps locked


def state_dir(environ: Mapping[str, str]) -> str:
    """The state folder of this user, as a real path; it need not exist.

    Args:
        environ: Environment variables. `GLIDESLOPE_STATE_DIR` wins, then `XDG_STATE_HOME` (where it
            is absolute), then `~/.local/state`.
    """
    given = environ.get("GLIDESLOPE_STATE_DIR")
    if given:
        return os.path.realpath(os.path.expanduser(given))
    base = environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".local", "state")
    return os.path.realpath(os.path.join(base, "glideslope"))


def socket_path(state: str, environ: Mapping[str, str]) -> str:
    """The socket of the daemon on a state folder, in a folder that only its user may enter.

    Args:
        state: Real path of the state folder.
        environ: Environment variables: `XDG_RUNTIME_DIR`, else `TMPDIR`, else `/tmp`; one whose path
            is too long for a socket is passed over.
    """
    name = f"{_digest(os.fsencode(state)):016x}.sock"
    private = f"glideslope-{os.geteuid()}"  # the temporary folder is shared between users
    candidates = [
        os.path.join(base, folder, name)
        for base, folder in ((environ.get("XDG_RUNTIME_DIR"), "glideslope"), (environ.get("TMPDIR"), private))
        if base and os.path.isabs(base) and os.path.isdir(base)
    ]
    fitting = (path for path in candidates if len(os.fsencode(path)) <= SOCKET_PATH_BYTES)
    return next(fitting, os.path.join("/tmp", private, name))


def _digest(data: bytes) -> int:
    """64 bits that tell the state folders of one user apart (FNV-1a); `hashlib` costs 5 ms to load."""
    found = 0xCBF29CE484222325
    for byte in data:
        found = (found ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return found
