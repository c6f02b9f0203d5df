"""Build environments below `backends/` in the state folder.

Layout: `backends/DIGEST-ACCESS/` holds `lock`, `marker` and `site/`, which a build puts on its path.
One is filled under another name, `filling-RANDOM`, gets its marker and then, in one step, its name; so a
kill at any moment leaves a folder that nobody takes for complete. Two may fill one at once: the first
to take the name wins. Whoever uses or fills a folder holds its lock, and what is locked is never removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import shutil
import threading
import time
from collections.abc import Mapping

from glideslope.adapters.pip_settings import read_pip_settings
from glideslope.errors import SubstrateUnavailable
from glideslope.machines.index_access import IndexAccess, plan_access
from glideslope.ports.backends import HeldBackend

FOLDER = "backends"
IDLE_S = 7 * 24 * 3600.0
ABANDONED_S = 3600.0  # a folder that was being filled, with nobody filling it
_NAME = re.compile(r"(?P<digest>[0-9a-f]+)-(?P<access>[0-9a-f]+)\Z")
_FILLING = "filling-"


class BackendFolder:
    """Port `Backends` on a state folder. Safe for several threads."""

    def __init__(self, state: str) -> None:
        self._root = os.path.join(state, FOLDER)
        self._held: dict[str, tuple[str, int, str]] = {}  # id -> folder, lock, name it is to get
        self._lock = threading.Lock()

    def access(self, variables: Mapping[str, str], *, prefix: str) -> IndexAccess:
        """How the operator reaches a package index; see the port."""
        return plan_access(read_pip_settings(variables, prefix=prefix), variables)

    def complete(self, access: IndexAccess) -> frozenset[str]:
        """What is there; see the port."""
        try:
            names = os.listdir(self._root)
        except FileNotFoundError:
            return frozenset()
        found = filter(None, map(_NAME.match, names))
        return frozenset(
            named["digest"]
            for named in found
            if named["access"] == access.key and _is_complete(os.path.join(self._root, named[0]))
        )

    def hold(self, digest: str, access: IndexAccess) -> HeldBackend:
        """Takes one into use; see the port."""
        folder = os.path.join(self._root, f"{digest}-{access.key}")
        lock = _lock_of(folder, fcntl.LOCK_SH, wait=True)  # those who remove one are quick
        if lock is None or not _is_complete(folder):
            if lock is not None:
                os.close(lock)
            raise SubstrateUnavailable(
                "the build environment has just been removed: verify again", next="glideslope verify"
            )
        with contextlib.suppress(OSError):
            os.utime(folder)  # what was used lately is kept
        return self._keep(folder, lock, "")

    def begin(self, digest: str, access: IndexAccess) -> HeldBackend:
        """Makes a folder to be filled; see the port."""
        folder = os.path.join(self._root, _FILLING + secrets.token_hex(8))
        try:
            os.makedirs(os.path.join(folder, "site"), mode=0o700)
            lock = _lock_of(folder, fcntl.LOCK_EX, wait=True)
        except OSError as error:
            raise _broken(error) from error
        assert lock is not None, "nobody removes a folder as young as this"
        return self._keep(folder, lock, f"{digest}-{access.key}")

    def finish(self, held: HeldBackend, *, filled: bool) -> None:
        """Ends a filling; see the port."""
        with self._lock:
            folder, lock, name = self._held.pop(held.id)
        try:
            if filled:
                _write_marker(folder)
                filled = _take_name(folder, os.path.join(self._root, name))
            if not filled:
                shutil.rmtree(folder)
        except OSError as error:
            raise _broken(error) from error
        finally:
            os.close(lock)

    def release(self, held: HeldBackend) -> None:
        """Gives one back; see the port."""
        with self._lock:
            _, lock, _ = self._held.pop(held.id)
        os.close(lock)

    def _keep(self, folder: str, lock: int, name: str) -> HeldBackend:
        held = HeldBackend(folder=os.path.join(folder, "site"), id=secrets.token_hex(8))
        with self._lock:
            self._held[held.id] = (folder, lock, name)
        return held


def idle_backends(state: str) -> list[str]:
    """Names of the folders below `backends/` that may go: unused for a week, or half filled. Sorted."""
    root = os.path.join(state, FOLDER)
    try:
        names = sorted(os.listdir(root))
    except FileNotFoundError:
        return []
    return [name for name in names if _is_idle(os.path.join(root, name))]


def _is_idle(folder: str) -> bool:
    limit_s = IDLE_S if _is_complete(folder) else ABANDONED_S
    if time.time() - os.stat(folder).st_mtime <= limit_s:
        return False
    if not os.path.exists(os.path.join(folder, "lock")):
        return True  # killed before it had one; making it now would make the folder look used
    lock = _lock_of(folder, fcntl.LOCK_EX)
    if lock is not None:
        os.close(lock)
    return lock is not None


def drop_backend(state: str, name: str) -> bool:
    """Removes a folder below `backends/`; False where somebody came to use it."""
    folder = os.path.join(state, FOLDER, name)
    lock = _lock_of(folder, fcntl.LOCK_EX)
    if lock is None:
        return False
    try:
        _remove(folder)
    finally:
        os.close(lock)
    return True


def _remove(folder: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, "marker"))  # first: what is left of it is complete no more
    shutil.rmtree(folder)


def _is_complete(folder: str) -> bool:
    return os.path.exists(os.path.join(folder, "marker"))


def _write_marker(folder: str) -> None:
    path = os.path.join(folder, "marker")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _take_name(folder: str, final: str) -> bool:
    """Gives a filled folder its name; False where a complete one has it already."""
    try:
        os.rename(folder, final)
        return True
    except OSError:
        if _is_complete(final):
            return False
    shutil.rmtree(final, ignore_errors=True)  # what a removal that was cut short has left
    os.rename(folder, final)
    return True


def _lock_of(folder: str, kind: int, *, wait: bool = False) -> int | None:
    """The folder's lock, taken; None where somebody else has it, or the folder is gone."""
    path = os.path.join(folder, "lock")
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        fcntl.flock(lock, kind if wait else kind | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), os.stat(path)):
            return lock
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(lock)
    return None


def _broken(error: OSError) -> SubstrateUnavailable:
    return SubstrateUnavailable(
        f"the build environment cannot be kept ({error.strerror or error}): "
        "free space with `glideslope prune`, then verify again",
        next="glideslope prune",
    )
