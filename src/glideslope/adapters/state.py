"""The state folder: private to its user, and apart from everything that is verified."""

from __future__ import annotations

import os
import shutil
import stat

from glideslope.errors import InvalidInput, StateUnavailable
from glideslope_fast.place import LOCK

_ANOTHER = "set GLIDESLOPE_STATE_DIR to a folder of your own that can be written"
MIN_FREE_BYTES = 64 * 1024 * 1024


def unavailable(error: OSError, path: str) -> StateUnavailable:
    """The error for a state folder that the system does not let us use, with what to do about it."""
    if isinstance(error, FileExistsError | NotADirectoryError):
        return StateUnavailable(
            f"the state folder cannot be used: {path} is not a folder, or lies below what is not one: {_ANOTHER}",
            path=path,
        )
    text = f"the state folder cannot be used: {error.strerror or error} ({path})"
    return StateUnavailable(f"{text}: free space there, or {_ANOTHER}", next="glideslope prune", path=path)


class StateFolder:
    """A state folder that exists, belongs to us and admits nobody else."""

    def __init__(self, root: str) -> None:
        self.root = root

    @classmethod
    def open(cls, path: str) -> StateFolder:
        """Makes the folder where it is missing and checks it where it is not.

        Args:
            path: Host path, as `glideslope_fast.place.state_dir` finds it.

        Raises:
            StateUnavailable: It cannot be made or read, or belongs to another user.
            InvalidInput: It holds things that are not ours.
        """
        root = os.path.realpath(path)
        try:
            os.makedirs(root, mode=0o700, exist_ok=True)
            _check(root)
            os.makedirs(os.path.join(root, "logs"), mode=0o700, exist_ok=True)
        except OSError as error:
            raise unavailable(error, root) from error
        return cls(root)

    @property
    def journal(self) -> str:
        """The file of events, runs and proofs."""
        return os.path.join(self.root, "journal.sqlite3")

    @property
    def logs(self) -> str:
        """The folder of stored logs."""
        return os.path.join(self.root, "logs")

    @property
    def daemon_log(self) -> str:
        """What the daemon writes to its standard output and error."""
        return os.path.join(self.root, "daemon.log")

    def require_apart(self, scope: str) -> None:
        """Refuses a workspace that holds the state folder, or lies in it: our own writes would
        change what is being verified.

        Args:
            scope: Real path of the worktree root.

        Raises:
            InvalidInput: One lies in the other.
        """
        if os.path.commonpath((self.root, scope)) in (self.root, scope):
            raise InvalidInput(
                f"the state folder {self.root} and the workspace {scope} lie in one another: "
                "set GLIDESLOPE_STATE_DIR to a folder outside of it",
                field="GLIDESLOPE_STATE_DIR",
                value=self.root,
            )

    def require_space(self, *, at_least_bytes: int = MIN_FREE_BYTES) -> None:
        """Looks for free space before something starts that needs it.

        Raises:
            StateUnavailable: There is less.
        """
        try:
            free = shutil.disk_usage(self.root).free
        except OSError as error:
            raise unavailable(error, self.root) from error
        if free < at_least_bytes:
            raise StateUnavailable(
                f"only {free >> 20} MB are free where the state folder {self.root} lies, "
                f"{at_least_bytes >> 20} are needed: free space with `glideslope prune --apply`",
                next="glideslope prune --apply",
                free_bytes=free,
            )


def _check(root: str) -> None:
    found = os.stat(root)
    if found.st_uid != os.geteuid():
        raise StateUnavailable(f"the state folder {root} belongs to another user: {_ANOTHER}", path=root)
    if not os.access(os.path.join(root, LOCK), os.F_OK):
        strangers = [name for name in os.listdir(root) if name not in _OURS]
        if strangers:
            raise InvalidInput(
                f"{root} holds {strangers[0]!r}, which is not ours: {_ANOTHER}",
                field="GLIDESLOPE_STATE_DIR",
                value=root,
            )
    if stat.S_IMODE(found.st_mode) != 0o700:
        os.chmod(root, 0o700)


# What may be there before the first lock was taken.
_OURS = frozenset(
    [
        "backends",
        "daemon.log",
        "daemon.log.1",
        "evidence",
        "git",
        "journal.sqlite3",
        "journal.sqlite3-shm",
        "journal.sqlite3-wal",
        "logs",
        "objects",
        "snapshots",
        "substrates",
        "trees",
        "undo",
        "worktrees",
    ]
)
