"""Reads one file of a tree without leaving it."""

from __future__ import annotations

import os
import stat

from glideslope.errors import PathEscapes, UnknownId
from glideslope.model.paths import RepoPath


def read_beneath(root: str, path: RepoPath) -> bytes:
    """Reads a regular file below `root`, following links that stay beneath it.

    Raises:
        UnknownId: There is no such file, or it is not a regular one.
        PathEscapes: A link on the way leads out of the root.
    """
    # Not blocking: opening a named pipe must not wait for its other end.
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    try:
        handle = os.open(os.path.join(root, path), flags)
    except OSError as error:
        raise UnknownId(f"{path} cannot be read: {error.strerror}", path=path) from error
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise UnknownId(f"{path} is not a regular file: name one", path=path)
        # Asked of the opened file, so that a link swapped meanwhile changes nothing.
        if not os.readlink(f"/proc/self/fd/{handle}").startswith(os.path.realpath(root) + "/"):
            raise PathEscapes(f"{path} is a link out of the tree: name a file below the root", path=path)
        with open(handle, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(handle)
