"""The daemon's socket in the file system, and who may connect to it."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

from glideslope.errors import StateUnavailable
from glideslope_fast.talk import check_private, peer

BACKLOG = 128


class Listener:
    """A listening socket at a path that only this user can reach. Only the owner of the state
    folder's lock may make one, so whatever stands at the path already was left behind."""

    def __init__(self, path: str) -> None:
        """Binds the socket, then puts it in its place whole.

        Raises:
            StateUnavailable: Its folder cannot be made, or is not this user's alone.
        """
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            _make_private(os.path.dirname(path))
            _remove_left_behind(path)
            unready = f"{path}.{os.getpid()}"
            self.socket.bind(unready)
            os.chmod(unready, 0o600)
            self.socket.listen(BACKLOG)
            os.rename(unready, path)
            self._identity = _identity(path)
        except OSError as error:
            self.socket.close()
            raise StateUnavailable(
                f"the daemon's socket {path} cannot be made: {error.strerror or error}: remove its folder, or set "
                "XDG_RUNTIME_DIR to a private one",
                path=path,
            ) from error

    def is_there(self) -> bool:
        """Whether the socket still stands where it was put."""
        try:
            return _identity(self.path) == self._identity
        except OSError:
            return False

    def remove(self) -> None:
        """Takes the socket out of the file system, unless another stands there by now."""
        if self.is_there():
            with suppress(FileNotFoundError):
                os.unlink(self.path)


def admitted(connected: socket.socket) -> bool:
    """Whether the process at the other end may speak: it is this user's, and sees the same processes
    as we do. Tasks run in a namespace of their own and must not reach their own verifier."""
    pid, uid = peer(connected)
    if uid != os.geteuid() or pid == 0:
        return False
    try:
        return os.readlink(f"/proc/{pid}/ns/pid") == os.readlink("/proc/self/ns/pid")
    except OSError:
        return False  # it is gone, or hides


def _make_private(folder: str) -> None:
    os.makedirs(folder, mode=0o700, exist_ok=True)
    if os.lstat(folder).st_uid == os.geteuid() and not os.path.islink(folder):
        os.chmod(folder, 0o700)
    check_private(folder)


def _remove_left_behind(path: str) -> None:
    """Half-made sockets of daemons that were killed while they started."""
    folder, name = os.path.split(path)
    for entry in os.listdir(folder):
        if entry.startswith(f"{name}."):
            os.unlink(os.path.join(folder, entry))


def _identity(path: str) -> tuple[int, int]:
    found = os.lstat(path)
    return found.st_dev, found.st_ino
