"""The pool of verify trees: folders that hold exactly one snapshot each while anybody uses them.

A tree is changed only at zero leases, by difference: what is equal stays untouched, what differs
is written anew, what the snapshot lacks goes. A marker written last says what the tree holds; a
tree without one, or one that no longer looks as its marker says, is built from nothing. Every step
goes through folder descriptors that follow no link, so no link inside a snapshot leads a write
out of the tree.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import itertools
import os
import shutil
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from glideslope.adapters import statcache
from glideslope.adapters.statcache import Known, look_at, look_of
from glideslope.adapters.store import Store
from glideslope.errors import SubstrateUnavailable, UnknownId
from glideslope.model.ids import Scope
from glideslope.model.paths import RepoPath, name, parent
from glideslope.model.snapshot import Entry, FileMode

POOL_SIZE = 4  # trees kept for one workspace
MOST = 32  # trees leased at once, for one workspace

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

Recover = Callable[[RepoPath, Entry], bytes | None]
"""Finds the content of an entry that the store lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A tree under lease."""

    id: str
    tree: str
    fresh_paths: tuple[RepoPath, ...]  # `.py` files written by this lease's re-targeting, sorted


@dataclass(slots=True)
class _Slot:
    folder: str
    lock: int  # descriptor that keeps other processes out
    known: dict[RepoPath, Known] | None = None  # None: not known to hold anything
    leases: int = 0

    @property
    def tree(self) -> str:
        return os.path.join(self.folder, "tree")

    @property
    def marker(self) -> str:
        return os.path.join(self.folder, "marker")


class TreePool:
    """The trees of one workspace. Safe for several threads; processes never share a tree."""

    def __init__(self, folder: str, *, store: Store) -> None:
        self._folder = folder
        self._store = store
        self._slots: list[_Slot] = []
        self._held: dict[str, _Slot] = {}
        self._serial = itertools.count(1)
        self._lock = threading.Lock()

    def lease(self, content: Mapping[RepoPath, Entry], recover: Recover) -> Held:
        """Gives a tree that holds exactly `content` until it is released.

        Args:
            content: All files. One that is not stored becomes an empty file, to be bound over.
            recover: Asked for content that the store lost.

        Raises:
            SubstrateUnavailable: The tree cannot be built.
            StateUnavailable: The store cannot be read.
        """
        with self._lock:
            try:
                slot, fresh = self._aim(content, recover)
            except OSError as error:
                raise SubstrateUnavailable(
                    f"the verify tree cannot be built ({error.strerror or error}): "
                    "free space with `glideslope prune`, then verify again",
                    next="glideslope prune",
                ) from None
            slot.leases += 1
            with contextlib.suppress(OSError):
                os.utime(slot.folder)  # what was used lately is pruned last
            lease = f"{os.path.basename(slot.folder)}-{next(self._serial)}"
            self._held[lease] = slot
            return Held(id=lease, tree=slot.tree, fresh_paths=fresh)

    def release(self, lease: str) -> None:
        """Gives a tree back; a second time changes nothing."""
        with self._lock:
            slot = self._held.pop(lease, None)
            if slot is not None:
                slot.leases -= 1
                if slot.leases == 0 and len(self._slots) > POOL_SIZE:
                    self._slots.remove(slot)
                    self._drop(slot)

    def close(self) -> None:
        """Lets other processes have the trees; leases still held are void."""
        with self._lock:
            for slot in self._slots:
                os.close(slot.lock)
            self._slots, self._held = [], {}

    def _aim(self, content: Mapping[RepoPath, Entry], recover: Recover) -> tuple[_Slot, tuple[RepoPath, ...]]:
        best, fewest = None, -1
        for slot in self._slots:
            differing = _count_differing(slot.known, content)
            if differing == 0:
                return slot, ()
            if slot.leases == 0 and (best is None or differing < fewest):
                best, fewest = slot, differing
        slot = best or self._open_slot()
        if _count_differing(slot.known, content) == 0:
            return slot, ()
        return slot, self._update(slot, content, recover)

    def _open_slot(self) -> _Slot:
        taken = {slot.folder for slot in self._slots}
        for number in range(MOST):
            folder = os.path.join(self._folder, str(number))
            if folder in taken:
                continue
            lock = _lock(folder)
            if lock is None:
                continue
            slot = _Slot(folder, lock)
            slot.known = _adopt(slot)
            self._slots.append(slot)
            return slot
        raise SubstrateUnavailable(
            f"{MOST} verify trees are in use at once: wait for a run to end, then verify again"
        )

    def _update(
        self, slot: _Slot, content: Mapping[RepoPath, Entry], recover: Recover
    ) -> tuple[RepoPath, ...]:
        known, slot.known = slot.known, None
        with contextlib.suppress(FileNotFoundError):
            os.unlink(slot.marker)
        if known is None:
            _wipe(slot.tree)
            os.mkdir(slot.tree)
            os.chmod(slot.tree, 0o755)
            known = {}
        changed = [
            path
            for path, entry in content.items()
            if path not in known or not _same(known[path].entry, entry)
        ]
        stale = [path for path in known if path not in content] + [path for path in changed if path in known]
        with _Writer(slot.tree) as writer:
            for path in sorted(stale):
                writer.remove(path)
                del known[path]
            for path in sorted(changed):
                look = writer.write(path, content[path], self._content(path, content[path], recover))
                known[path] = Known(look, content[path], True)
        statcache.write_file(slot.marker, known)
        slot.known = known
        return tuple(sorted(path for path in changed if path.endswith(".py")))

    def _content(self, path: RepoPath, entry: Entry, recover: Recover) -> bytes:
        if not entry.stored:
            return b""
        try:
            return self._store.read(entry.blob)
        except UnknownId:
            found = recover(path, entry)
            if found is None:
                raise SubstrateUnavailable(
                    f"the content of {path} is no longer stored: verify again", path=path
                ) from None
            self._store.put(found)
            return found

    def _drop(self, slot: _Slot) -> None:
        with contextlib.suppress(OSError):
            os.unlink(slot.marker)
        with contextlib.suppress(OSError):
            _wipe(slot.tree)
        os.close(slot.lock)


class _Writer:
    """Changes a tree through folder descriptors; visits paths best in sorted order."""

    def __init__(self, tree: str) -> None:
        self._top = os.open(tree, _FOLDER)
        self._open: list[tuple[str, int]] = []

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self._leave(0)
        os.close(self._top)

    def write(self, path: RepoPath, entry: Entry, data: bytes) -> statcache.Look:
        """Makes a file or link that is not there yet."""
        folder, last = self._enter(parent(path), make=True), _raw(name(path))
        if entry.mode is FileMode.SYMLINK:
            os.symlink(data, last, dir_fd=folder)
            return look_of(os.stat(last, dir_fd=folder, follow_symlinks=False))
        descriptor = os.open(last, _NEW_FILE, 0o600, dir_fd=folder)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            # A task may run as another user, so who may read is not left to the umask.
            os.fchmod(descriptor, 0o755 if entry.mode is FileMode.EXECUTABLE else 0o644)
            return look_of(os.fstat(descriptor))
        finally:
            os.close(descriptor)

    def remove(self, path: RepoPath) -> None:
        """Takes a file out, with its bytecode, and folders that become empty."""
        folder = self._enter(parent(path), make=False)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_raw(name(path)), dir_fd=folder)
        if path.endswith(".py"):
            _remove_bytecode(folder, name(path)[:-3])
        self._remove_empty(parent(path))

    def _remove_empty(self, folder: str) -> None:
        while folder:
            above = self._enter(parent(folder), make=False)
            try:
                os.rmdir(_raw(name(folder)), dir_fd=above)
            except OSError:
                return
            folder = parent(folder)

    def _enter(self, folder: str, *, make: bool) -> int:
        parts = folder.split("/") if folder else []
        shared = 0
        while shared < min(len(parts), len(self._open)) and self._open[shared][0] == parts[shared]:
            shared += 1
        self._leave(shared)
        for part in parts[shared:]:
            above = self._open[-1][1] if self._open else self._top
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(_raw(part), 0o755, dir_fd=above)
                    os.chmod(_raw(part), 0o755, dir_fd=above)
            self._open.append((part, os.open(_raw(part), _FOLDER, dir_fd=above)))
        return self._open[-1][1] if self._open else self._top

    def _leave(self, depth: int) -> None:
        while len(self._open) > depth:
            os.close(self._open.pop()[1])


def pool_folder(state: str, scope: Scope) -> str:
    """Where the trees of a workspace lie."""
    return os.path.join(state, "trees", scope_hash(scope))


def scope_hash(scope: Scope) -> str:
    """A short name for a workspace, fit for a file name."""
    return hashlib.sha256(scope.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _lock(folder: str) -> int | None:
    """Takes a tree for this process; None when another one has it, or is removing it."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    path = os.path.join(folder, "lock")
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), os.stat(path)):
            return lock
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(lock)
    return None


def _adopt(slot: _Slot) -> dict[RepoPath, Known] | None:
    """What a tree left by another process holds; None unless it is exactly what its marker says."""
    known = statcache.read_file(slot.marker)
    root = _raw(slot.tree)
    if not known or any(look_at(os.path.join(root, _raw(path))) != item.look for path, item in known.items()):
        return None
    folders = {parent(path) for path in known}
    for folder in list(folders):
        while folder:
            folder = parent(folder)
            folders.add(folder)
    for path, is_folder in _everything(slot.tree):
        expected = path in folders if is_folder else path in known
        if not expected and not _is_our_bytecode(path, is_folder, known):
            return None
    return known


def _is_our_bytecode(path: str, is_folder: bool, known: Mapping[RepoPath, Known]) -> bool:
    if is_folder:
        return name(path) == "__pycache__"
    folder = parent(path)
    source = RepoPath(f"{parent(folder)}/{name(path).partition('.')[0]}.py".lstrip("/"))
    return name(folder) == "__pycache__" and path.endswith(".pyc") and source in known


def _everything(tree: str) -> Iterator[tuple[str, bool]]:
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        for entry in list(os.scandir(os.path.join(_raw(tree), _raw(folder)))):
            path = (folder + "/" if folder else "") + entry.name.decode("utf-8", "surrogateescape")
            is_folder = entry.is_dir(follow_symlinks=False)
            yield path, is_folder
            if is_folder:
                waiting.append(path)


def _remove_bytecode(folder: int, module: str) -> None:
    try:
        cache = os.open("__pycache__", _FOLDER, dir_fd=folder)
    except OSError:
        return
    try:
        for entry in os.listdir(cache):
            if entry.startswith(module + ".") and entry.endswith(".pyc"):
                os.unlink(entry, dir_fd=cache)
    finally:
        os.close(cache)
    with contextlib.suppress(OSError):
        os.rmdir("__pycache__", dir_fd=folder)


def _count_differing(known: Mapping[RepoPath, Known] | None, content: Mapping[RepoPath, Entry]) -> int:
    if known is None:
        return len(content) + 1
    same = sum(1 for path, entry in content.items() if path in known and _same(known[path].entry, entry))
    return len(known) + len(content) - 2 * same


def _same(one: Entry, other: Entry) -> bool:
    return one is other or (one.blob, one.mode, one.stored) == (other.blob, other.mode, other.stored)


def _wipe(tree: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISDIR(os.lstat(tree).st_mode):
            shutil.rmtree(tree)
        else:
            os.unlink(tree)


def _raw(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")
