"""One engine owns a state folder, for as long as it lives.

The kernel keeps the lock and drops it when the process ends, however it ends; what the file says
about its owner is for people and for clients that look for its socket. The file is never removed:
a second one of the same name would be a second lock.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from dataclasses import asdict, dataclass

from glideslope.adapters.state import unavailable
from glideslope.errors import EngineBusy
from glideslope_fast.place import LOCK

LOOKS = 5
LOOK_S = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Who owns a state folder, as written by the owner itself."""

    pid: int
    version: str
    socket: str | None = None  # None: an engine inside a program, which nobody can connect to


class StateLock:
    """The ownership of a state folder; held until `release` or the end of the process."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def acquire(cls, root: str, owner: Owner) -> StateLock:
        """Becomes the owner, at once or not at all.

        Args:
            root: The state folder.
            owner: What others are told while the lock is held.

        Raises:
            EngineBusy: Somebody else owns it; the error names the process.
            StateUnavailable: The file cannot be made or written.
        """
        path = os.path.join(root, LOCK)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise unavailable(error, root) from error
        try:
            _lock(descriptor)
            text = json.dumps(asdict(owner)).encode()
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, text, 0)
        except OSError as error:
            os.close(descriptor)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise _busy(root) from None
            raise unavailable(error, root) from error
        return cls(descriptor)

    def release(self) -> None:
        """Gives the folder up; a second time is no error."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _lock(descriptor: int) -> None:
    """Tries for a moment: who only looks whether there is an owner holds the lock as long."""
    for _ in range(LOOKS):
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(LOOK_S)
    return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def read_owner(root: str) -> Owner | None:
    """Who says that it owns, or last owned, a state folder; None where nothing is readable."""
    try:
        with open(os.path.join(root, LOCK), "rb") as file:
            return Owner(**json.loads(file.read(4096)))
    except (OSError, ValueError, TypeError):
        return None


def _busy(root: str) -> EngineBusy:
    owner = read_owner(root)
    who = f"process {owner.pid}" if owner else "another process"
    return EngineBusy(
        f"{who} owns the state folder {root}: end it, or set GLIDESLOPE_STATE_DIR to another folder",
        next="glideslope daemon stop --wait",
        pid=owner.pid if owner else None,
    )
