"""`StateStorage`: what the state folder holds, by size, and getting rid of it.

What goes: runs beyond those kept; logs no kept run mentions; trees and build environments nobody
holds and nobody used for a week; and, only beyond the cap, content that no kept snapshot is made of.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import time
from collections.abc import Iterator, Sequence

import msgspec

from glideslope import codec
from glideslope.adapters.backends import FOLDER, drop_backend, idle_backends
from glideslope.adapters.journal import SqliteJournal
from glideslope.adapters.state import StateFolder, unavailable
from glideslope.adapters.vcs import LocalVcs
from glideslope.model.ids import BlobId, Scope
from glideslope.ports.storage import Stored

DISK_SHARE = 10  # the folder takes at most one part in so many of its disk
TREE_IDLE_S = 7 * 24 * 3600.0
LOG_YOUNG_S = 3600.0  # a log may belong to a run that is not recorded yet
_LOG = re.compile(r"(.+)\.log\Z")


class StateStorage:
    """Port `Storage` on a state folder.

    Args:
        state: The folder.
        vcs: Whose store of content lies in it.
        journal: What was kept of runs and snapshots.
        cap_bytes: As the settings say; a tenth of the disk where that is less.
    """

    def __init__(self, *, state: StateFolder, vcs: LocalVcs, journal: SqliteJournal, cap_bytes: int) -> None:
        self._state = state
        self._vcs = vcs
        self._journal = journal
        self._wanted_bytes = cap_bytes

    @property
    def cap_bytes(self) -> int:
        """What the state folder may take."""
        return min(self._wanted_bytes, shutil.disk_usage(self._state.root).total // DISK_SHARE)

    def size_bytes(self) -> int:
        """All that the state folder takes on disk."""
        return _size(self._state.root)

    def require_space(self) -> None:
        """Checks that a run can be stored; see the port."""
        self._state.require_space()

    def require_room(self, scope: Scope) -> None:
        """Checks that a run of a worktree can be stored, apart from it; see the port."""
        self._state.require_apart(scope)
        self._state.require_space()

    def superfluous(self, *, keep_runs: int) -> Sequence[Stored]:
        """What could go; see the port."""
        runs = self._journal.surplus(keep_runs=keep_runs)
        found = [Stored(kind="runs", name=f"{runs} old runs", size_bytes=0)] if runs else []
        found += [*self._logs(keep_runs), *self._trees(), *self._backends()]
        excess = self.size_bytes() - sum(one.size_bytes for one in found) - self.cap_bytes
        if excess > 0:
            plan = self._vcs.store.plan_prune(
                cap_bytes=max(0, self._vcs.store.size_bytes() - excess), keep=self._needed()
            )
            if plan.objects:
                name = f"{len(plan.objects)} files of old snapshots"
                found.append(Stored(kind="blobs", name=name, size_bytes=plan.frees_bytes))
        return found

    def remove(self, stored: Sequence[Stored], *, keep_runs: int) -> int:
        """Removes what `superfluous` listed; see the port."""
        freed = 0
        try:
            for one in stored:
                freed += self._remove(one, keep_runs)
        except OSError as error:
            raise unavailable(error, self._state.root) from error
        return freed

    def _remove(self, one: Stored, keep_runs: int) -> int:
        match one.kind:
            case "runs":
                self._journal.trim(keep_runs=keep_runs)
            case "log":
                os.unlink(os.path.join(self._state.logs, one.name))
            case "tree":
                return one.size_bytes if self._drop_tree(one.name) else 0
            case "backend":
                return one.size_bytes if drop_backend(self._state.root, one.name) else 0
            case "blobs":
                size = self._vcs.store.size_bytes()
                plan = self._vcs.store.plan_prune(cap_bytes=size - one.size_bytes, keep=self._needed())
                self._vcs.store.prune(plan)
                return plan.frees_bytes
        return one.size_bytes

    def _logs(self, keep_runs: int) -> Iterator[Stored]:
        kept = b"".join(
            msgspec.json.encode(codec.encode(run)) for run in self._journal.runs(limit=keep_runs * 100)
        )
        oldest = time.time() - LOG_YOUNG_S
        for entry in os.scandir(self._state.logs):
            named = _LOG.match(entry.name)
            look = entry.stat(follow_symlinks=False)
            if named and look.st_mtime < oldest and named[1].encode() not in kept:
                yield Stored(kind="log", name=entry.name, size_bytes=look.st_size)

    def _trees(self) -> Iterator[Stored]:
        root = os.path.join(self._state.root, "trees")
        for workspace in _folders(root):
            for number in _folders(os.path.join(root, workspace)):
                path = os.path.join(root, workspace, number)
                idle_s = time.time() - os.stat(path).st_mtime
                if idle_s > TREE_IDLE_S and not _is_held(path):
                    yield Stored(kind="tree", name=f"{workspace}/{number}", size_bytes=_size(path))

    def _backends(self) -> Iterator[Stored]:
        for name in idle_backends(self._state.root):
            path = os.path.join(self._state.root, FOLDER, name)
            yield Stored(kind="backend", name=name, size_bytes=_size(path))

    def _drop_tree(self, name: str) -> bool:
        path = os.path.join(self._state.root, "trees", name)
        lock = _lock_of(path)
        if lock is None:
            return False  # somebody came to use it
        shutil.rmtree(path)
        os.close(lock)
        return True

    def _needed(self) -> frozenset[BlobId]:
        """What the kept snapshots are made of."""
        snapshots = (self._journal.snapshot(one) for one in self._journal.kept_snapshots())
        return frozenset(
            entry.blob
            for snapshot in snapshots
            if snapshot is not None
            for entries in (snapshot.entries, snapshot.inputs)
            for entry in entries.values()
        )


def _folders(path: str) -> list[str]:
    try:
        return sorted(entry.name for entry in os.scandir(path) if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return []


def _lock_of(tree: str) -> int | None:
    """The tree's lock, taken; None where somebody has it."""
    lock = os.open(os.path.join(tree, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def _is_held(tree: str) -> bool:
    lock = _lock_of(tree)
    if lock is None:
        return True
    os.close(lock)
    return False


def _size(root: str) -> int:
    total = 0
    for folder, _, files in os.walk(root):
        for name in files:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except FileNotFoundError:
                continue
    return total
