"""Hints that a worktree may have changed, from the kernel where it gives them, else from a pulse.

Every folder is watched by itself, never a tree: a recursive watch would follow links out of the
worktree and cost a watch for each folder of an environment or an object store. Which folders
there are is looked up again whenever one came or went, and each new look ends in a hint, so that
what happened between two looks is not missed.

A hint may be wrong; the content decides. So whatever goes wrong here (no watches left, a folder
that vanishes, a file system that tells nothing) costs only promptness: the slow pulse goes on.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager

import anyio
from anyio import CapacityLimiter, to_thread
from anyio.streams.memory import MemoryObjectSendStream
from watchfiles._rust_notify import RustNotify, WatchfilesRustInternalError

from glideslope.model.ids import Scope

PULSE_S = 2.0  # without watches
HEARTBEAT_S = 60.0  # with them, for what they cannot see
RETRIES = 5
MAX_FOLDERS = 20_000
SETTLE_MS = 100  # a burst of writes is one hint
LONGEST_BURST_MS = 300  # but a writer that never pauses is not silence

CARRY = (".venv", "venv", "node_modules")
JUNK = frozenset(
    {
        "__pycache__",
        ".coverage",
        ".eggs",
        ".hypothesis",
        ".ipynb_checkpoints",
        ".mypy_cache",
        ".nox",
        ".pytest_cache",
        ".ruff_cache",
        ".tox",
    }
)
# In `.git`, what says where the repository stands: the index and HEAD, refs, excludes.
_GIT = ("refs", "info")
# File systems whose changes made elsewhere the kernel does not report.
_SILENT = ("nfs", "cifs", "smb", "9p", "fuse", "virtiofs", "vboxsf", "ceph", "afs")


class FolderWatcher:
    """Port `Watcher` on the kernel's notifications of single folders."""

    def __init__(self, *, carry: Collection[str] = CARRY, pulse_s: float = PULSE_S) -> None:
        """Sets what is not looked into.

        Args:
            carry: Names of folders that hold environments; of these only the folder where
                distributions are installed is watched.
            pulse_s: Seconds between hints where there are no watches.
        """
        self._carry = frozenset(carry)
        self._pulse_s = pulse_s
        self._threads = CapacityLimiter(1000)  # not the shared ones: a watch keeps its thread

    @asynccontextmanager
    async def watch(self, scope: Scope) -> AsyncIterator[AsyncIterator[None]]:
        """Yields whenever something may have changed; the first hint comes at once."""
        send, receive = anyio.create_memory_object_stream[None](1)
        stop = threading.Event()
        async with anyio.create_task_group() as group, send, receive:
            group.start_soon(self._keep_hinting, scope, send, stop)
            try:
                yield receive
            finally:
                stop.set()
                group.cancel_scope.cancel()

    async def _keep_hinting(
        self, scope: Scope, send: MemoryObjectSendStream[None], stop: threading.Event
    ) -> None:
        failures = 0
        while not stop.is_set():
            folders = await to_thread.run_sync(self._folders, scope, limiter=self._threads)
            try:
                if not folders:
                    raise FileNotFoundError(scope)
                with RustNotify(folders, False, False, 0, False, True) as notify:
                    failures = 0
                    _hint(send)  # for what happened while the folders were looked up
                    await self._hint_until_folders_change(notify, set(folders), send, stop)
            except (OSError, WatchfilesRustInternalError):
                _hint(send)
                failures += 1
                # A folder that vanished under the look is worth another look at once, but not for ever.
                await anyio.sleep(0 if folders and failures <= RETRIES else self._pulse_s)

    async def _hint_until_folders_change(
        self, notify: RustNotify, folders: set[str], send: MemoryObjectSendStream[None], stop: threading.Event
    ) -> None:
        while True:
            seen = await to_thread.run_sync(
                notify.watch,
                LONGEST_BURST_MS,
                SETTLE_MS,
                int(HEARTBEAT_S * 1000),
                stop,
                limiter=self._threads,
            )
            if seen in ("stop", "signal"):
                return
            paths = {path for _, path in seen} if isinstance(seen, set) else set()
            if any(path in folders or self._is_watchable(path) for path in paths):
                return
            if seen == "timeout" or any(os.path.basename(path) not in JUNK for path in paths):
                _hint(send)

    def _is_watchable(self, path: str) -> bool:
        """Whether a path that changed is a folder that ought to be watched."""
        return os.path.basename(path) not in JUNK and _is_folder(path)

    def _folders(self, scope: Scope) -> list[str]:
        """Every folder to watch; none where watching would be of no use."""
        found: list[str] = []
        if not _is_folder(scope) or _tells_nothing(scope):
            return found
        for folder in self._walk(scope):
            found.append(folder)
            if len(found) > MAX_FOLDERS:
                return []
        return found

    def _walk(self, top: str) -> Iterator[str]:
        pending = [top]
        while pending:
            folder = pending.pop()
            yield folder
            for name in _folder_names(folder):
                path = os.path.join(folder, name)
                if name == ".git":
                    yield from self._walk_git(path)
                elif name in self._carry:
                    yield from _installed(path)
                elif name not in JUNK:
                    pending.append(path)

    def _walk_git(self, git: str) -> Iterator[str]:
        yield git
        pending = [os.path.join(git, name) for name in _folder_names(git) if name in _GIT]
        while pending:
            folder = pending.pop()
            yield folder
            pending += [os.path.join(folder, name) for name in _folder_names(folder)]


def _hint(send: MemoryObjectSendStream[None]) -> None:
    try:
        send.send_nowait(None)
    except anyio.WouldBlock:
        pass  # the one that waits says the same


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _folder_names(folder: str) -> list[str]:
    """Folders in a folder, links to folders not among them; none where it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _installed(environment: str) -> Iterator[str]:
    """Where distributions come and go in an environment."""
    for name in _folder_names(os.path.join(environment, "lib")):
        packages = os.path.join(environment, "lib", name, "site-packages")
        if _is_folder(packages):
            yield packages


def _tells_nothing(path: str) -> bool:
    """Whether a path lies on a file system that others may change without the kernel's notice."""
    try:
        with open("/proc/self/mountinfo", "rb") as file:
            mounts = [line.split() for line in file]
    except OSError:
        return False
    here = os.fsencode(path)
    best, kind = b"", b""
    for fields in mounts:
        point = fields[4].replace(b"\\040", b" ")
        if (here == point or here.startswith(point.rstrip(b"/") + b"/")) and len(point) >= len(best):
            best, kind = point, fields[fields.index(b"-") + 1]
    return kind.decode(errors="replace").startswith(_SILENT)
