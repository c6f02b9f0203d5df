"""Takes snapshots: the content of a workspace as it lies on the disk, complete and named by content.

One pass: git lists the paths while the known ones are looked at; what looks different, or looked
too young last time, is digested and stored; then everything digested is looked at again. A file
that moved meanwhile starts the pass over, a few times.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import threading
import time
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from types import MappingProxyType

from glideslope.adapters import statcache
from glideslope.adapters.git import Git
from glideslope.adapters.gitstate import RefsReader
from glideslope.adapters.inputs import LIMIT_BYTES, InputFinder
from glideslope.adapters.listing import Excluded, Listed, Lister, Moved, unreadable
from glideslope.adapters.rawtree import RawTree
from glideslope.adapters.statcache import Known, Look, is_settled, look_at, look_at_many, look_of
from glideslope.adapters.store import Store
from glideslope.adapters.workspace import Layouts
from glideslope.errors import InvalidInput, SnapshotStale
from glideslope.model.ids import BlobId, SnapshotId, TreeId
from glideslope.model.paths import RepoPath, parent
from glideslope.model.snapshot import Entries, Entry, FileMode, GitState
from glideslope.ports.vcs import Workspace

SCHEMA = "s1"
LARGE_BYTES = 64 * 1024 * 1024  # untracked files above this are digested, not stored
_ROUNDS = 6
_STREAM_BYTES = 4 * 1024 * 1024
_SAVE_AFTER = 64  # digests made since the memory was last written


_Identity = tuple[int, int, int]  # dev, inode, mode: a folder's times change whenever a tool passes by


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The content of a workspace at one moment."""

    entries: Entries
    inputs: Entries
    tree_id: TreeId
    inputs_digest: str
    git: GitState | None
    kept_off: frozenset[RepoPath]  # in the index, kept off the disk by a sparse checkout


@dataclass(frozen=True, slots=True)
class _Found:
    """What a workspace holds now, before content."""

    listings: Mapping[str, tuple[Listed, ...]]
    looks: Mapping[RepoPath, Look | None]
    folders: Mapping[str, _Identity | None]  # which folder lies at each path that holds files
    files: Mapping[RepoPath, bool]  # path -> tracked
    kept_off: frozenset[RepoPath]  # in the index, kept off the disk by a sparse checkout
    changed: frozenset[RepoPath]  # look otherwise than in the pass before


def snapshot_id(tree: TreeId, inputs_digest: str) -> SnapshotId:
    """The id of a snapshot; HEAD has no part in it."""
    digest = hashlib.sha256("\0".join((SCHEMA, tree, inputs_digest)).encode()).hexdigest()
    return SnapshotId(f"{SCHEMA}-{digest[:16]}")


def digest_inputs(inputs: Entries) -> str:
    """One digest over all declared ignored inputs, by path, mode and content."""
    digest = hashlib.sha256()
    for path in sorted(inputs):
        entry = inputs[path]
        digest.update(
            f"{entry.mode} {entry.blob} ".encode() + path.encode("utf-8", "surrogateescape") + b"\0"
        )
    return digest.hexdigest()


class SnapshotReader:
    """Takes snapshots of one workspace; remembers what it digested. Safe for several threads."""

    def __init__(
        self,
        workspace: Workspace,
        *,
        git: Git,
        layouts: Layouts,
        refs: RefsReader,
        store: Store,
        memory_file: str,
        carry: Sequence[str],
        carry_files: Sequence[str],
    ) -> None:
        self._workspace = workspace
        self._root = workspace.scope.encode("utf-8", "surrogateescape")
        self._layouts = layouts
        self._refs = refs
        self._store = store
        self._memory_file = memory_file
        self._carry = tuple(carry)
        self._lister = Lister(git, self._root, is_git=workspace.is_git, excluded=Excluded(self._carry))
        self._finder = InputFinder(self._root, globs=carry_files, carry=carry)
        self._lock = threading.Lock()
        self._known: dict[RepoPath, Known] = {}
        self._is_loaded = False
        self._digested: Mapping[RepoPath, bool] | None = None  # the files whose digests are complete
        self._unsettled: frozenset[RepoPath] = frozenset()  # too young when read: read again
        self._flat: list[Look | None] = []  # looks in the order of `_hosts`
        self._absent: tuple[RepoPath, ...] = ()  # listed, not there
        self._found: _Found | None = None
        self._hosts: dict[RepoPath, bytes] = {}
        self._tree = RawTree()
        self._entries: dict[RepoPath, Entry] = {}
        self._inputs: dict[RepoPath, Entry] = {}
        self._shown: tuple[Entries, Entries] = (MappingProxyType({}), MappingProxyType({}))
        self._ids: tuple[TreeId, str] | None = None
        self._generation: tuple[int, int] | None = None
        self._unsaved = 0

    def take(self) -> Reading:
        """Reads the workspace as it is now and stores what is not stored yet.

        Raises:
            SnapshotUnreadable: Something that belongs to it cannot be read.
            SnapshotStale: It kept changing.
            InvalidInput: The declared inputs are too large.
            StateUnavailable: The store cannot be written.
        """
        with self._lock:
            for attempt in range(_ROUNDS):
                try:
                    return self._pass()
                except Moved as moved:
                    path = moved.path
                    time.sleep(0.005 * 2**attempt)
            raise SnapshotStale(
                f"{path} kept changing while it was read: stop what writes it, or have git ignore it",
                path=path,
            )

    def save(self) -> None:
        """Writes the memory for the next process; a full disk only makes that one slower."""
        with self._lock:
            self._save()

    def _save(self) -> None:
        if self._unsaved:
            with contextlib.suppress(OSError):
                statcache.write_file(self._memory_file, self._known)
            self._unsaved = 0

    def _load(self) -> None:
        if not self._is_loaded:
            self._known = statcache.read_file(self._memory_file)
            self._hosts = {path: self._host(path) for path in self._known}
            self._is_loaded = True

    def _pass(self) -> Reading:
        with contextlib.ExitStack() as stack:
            layout = self._layouts.of(self._workspace) if self._workspace.is_git else None
            refs = self._refs.start(self._workspace.scope, layout) if layout else None
            if refs:
                stack.callback(refs.cancel)
            self._load()
            found, matching = self._gather()
            inputs = self._look_at_inputs(found, matching)
            if found is not self._found or not self._is_current(inputs):
                self._digest(found, inputs)
            git = refs.finish() if refs else None
        if self._unsaved >= _SAVE_AFTER:
            self._save()
        return self._reading(found, git)

    def _reading(self, found: _Found, git: GitState | None) -> Reading:
        if self._ids is None:
            self._ids = self._tree.id(), digest_inputs(self._inputs)
            self._shown = MappingProxyType(dict(self._entries)), MappingProxyType(dict(self._inputs))
        tree_id, inputs_digest = self._ids
        entries, inputs = self._shown
        return Reading(
            entries=entries,
            inputs=inputs,
            tree_id=tree_id,
            inputs_digest=inputs_digest,
            git=git,
            kept_off=found.kept_off,
        )

    # What is there

    def _gather(self) -> tuple[_Found, list[RepoPath]]:
        started = self._lister.start()
        try:
            looks, changed = self._look_at_all()
            before = self._found
            matching = self._finder.find()
            folders = self._folders_now(before) if before else {}
            listings = {"": self._lister.list("", started.pop("", None))}
            for folder in list(started):
                listings[folder] = self._lister.list(folder, started.pop(folder))
        finally:
            for left in started.values():
                left.kill()
        if before and changed is not None and folders == before.folders and _same(listings, before.listings):
            return (replace(before, looks=looks, changed=changed) if changed else before), matching
        return self._combine(listings, looks), matching

    def _folders_now(self, before: _Found) -> Mapping[str, _Identity | None]:
        """Which folders lie where those of the last pass lay."""
        if self._finder.is_unchanged:
            unseen = [path for path in before.folders if not self._finder.covers(path)]
            return {**before.folders, **{path: self._identity(path) for path in unseen}}
        return {path: self._identity(path) for path in before.folders}

    def _look_at_all(self) -> tuple[Mapping[RepoPath, Look | None], frozenset[RepoPath] | None]:
        """Looks at every path of the last pass again.

        Returns:
            The looks, the very same mapping if nothing changed; and the files that look different, None
            if more than that changed or nothing is known to compare with.
        """
        before = self._found
        try:
            now = look_at_many(self._hosts.values())
        except OSError:
            return {path: self._look(path) for path in [*self._hosts, *self._absent]}, None
        absent = {path: self._look(path) for path in self._absent}
        if before is None or any(absent.values()):
            return dict(zip(self._hosts, map(Look._make, now), strict=True)) | absent, None
        if now == self._flat:
            return before.looks, frozenset()
        pairs = zip(self._hosts, now, self._flat, strict=True)
        changed = {path: Look._make(parts) for path, parts, old in pairs if parts != old}
        are_files = all(_is_file(look) and _is_file(before.looks[path]) for path, look in changed.items())
        return {**before.looks, **changed}, frozenset(changed) if are_files else None

    def _look(self, path: RepoPath) -> Look | None:
        try:
            return look_at(self._host(path))
        except OSError as error:
            raise unreadable(path, error) from None

    def _identity(self, path: str) -> _Identity | None:
        look = self._look(RepoPath(path))
        return (look.dev, look.ino, look.mode) if look else None

    def _combine(
        self, listings: dict[str, tuple[Listed, ...]], before: Mapping[RepoPath, Look | None]
    ) -> _Found:
        looks: dict[RepoPath, Look | None] = {}
        folders: dict[str, _Identity | None] = {}
        files: dict[RepoPath, bool] = {}
        kept_off: set[RepoPath] = set()
        waiting, seen = [""], {"": listings[""]}
        while waiting:
            at = waiting.pop()
            prefix = at + "/" if at else ""
            for item in seen[at]:
                path = RepoPath(prefix + item.path)
                looks[path] = look = before[path] if path in before else self._look(path)
                if look is None:
                    if item.kept_off:
                        kept_off.add(path)
                    elif not item.tracked:
                        raise Moved(path)
                elif not self._is_real(parent(path), folders):
                    continue  # a link stands where a folder of the index was
                elif _is_file(look):
                    files[path] = item.tracked
                elif stat.S_ISDIR(look.mode) and self._is_nested(path) and path not in seen:
                    seen[path] = listings[path] if path in listings else self._lister.list(path)
                    waiting.append(path)
        self._lister.forget_all_but(seen)
        self._hosts = {
            path: self._hosts.get(path) or self._host(path) for path, look in looks.items() if look
        }
        self._absent = tuple(path for path, look in looks.items() if look is None)
        return _Found(seen, looks, folders, files, frozenset(kept_off), frozenset(looks))

    def _is_real(self, folder: str, folders: dict[str, _Identity | None]) -> bool:
        """Whether a folder is there with no link on the way; remembers what it saw in `folders`."""
        if not folder:
            return True
        if folder not in folders:
            identity = self._identity(folder)
            real = (
                identity is not None and stat.S_ISDIR(identity[2]) and self._is_real(parent(folder), folders)
            )
            folders[folder] = identity if real else None
        return folders[folder] is not None

    def _is_nested(self, path: RepoPath) -> bool:
        return os.path.lexists(os.path.join(self._host(path), b".git"))

    def _look_at_inputs(self, found: _Found, matching: Iterable[RepoPath]) -> dict[RepoPath, Look]:
        inputs: dict[RepoPath, Look] = {}
        for path in matching:
            if path not in found.files:
                look = self._look(path)
                if look is not None and _is_file(look):
                    inputs[path] = look
        total = sum(look.size_bytes for look in inputs.values())
        if total > LIMIT_BYTES:
            largest = max(inputs, key=lambda path: inputs[path].size_bytes)
            raise InvalidInput(
                f"the files that `carry_files` names take {total} bytes together, more than {LIMIT_BYTES} "
                f"(largest: {largest}): narrow `carry_files`",
                field="carry_files",
                path=largest,
            )
        return inputs

    # What it holds

    def _is_current(self, inputs: Mapping[RepoPath, Look]) -> bool:
        """Whether the last digests are still true, given that the listing and all looks are the same."""
        if self._unsettled or self._store.generation() != self._generation:
            return False
        return self._inputs.keys() == inputs.keys() and all(
            self._known[path].look == look for path, look in inputs.items()
        )

    def _digest(self, found: _Found, inputs: Mapping[RepoPath, Look]) -> None:
        """Digests what may have changed; afterwards entries, inputs and tree are those of `found`."""
        known = self._known
        stored = self._store.known()
        generation = self._store.generation()
        is_partial = self._digested is found.files and generation == self._generation
        self._found, self._digested = None, None
        paths = (
            (found.changed | self._unsettled).intersection(found.files) if is_partial else found.files.keys()
        )
        wanted = {path: look for path in paths if (look := found.looks[path])} | dict(inputs)
        made: dict[RepoPath, Known] = {}
        for path, look in wanted.items():
            item = known.get(path)
            tracked = found.files.get(path, True)
            if (
                item is None
                or item.look != look
                or not item.settled
                or not _is_kept(item.entry, stored, tracked)
            ):
                made[path] = self._read(path, may_skip=not tracked)
        self._check(made)
        self._learn(made, found, inputs, is_partial=is_partial)
        self._replace(found.files, inputs, made.keys() if is_partial else None)
        # A file may have moved between the look and the reading: its later looks are the true ones.
        later = {
            path: item.look for path, item in made.items() if found.looks.get(path, item.look) != item.look
        }
        self._found = replace(found, looks={**found.looks, **later}) if later else found
        self._flat = [self._found.looks[path] for path in self._hosts]
        self._digested, self._generation = found.files, generation

    def _learn(
        self,
        made: Mapping[RepoPath, Known],
        found: _Found,
        inputs: Mapping[RepoPath, Look],
        *,
        is_partial: bool,
    ) -> None:
        self._known.update(made)
        before = self._inputs.keys() if is_partial else self._known.keys()  # files are the same when partial
        gone = {path for path in before if path not in inputs and path not in found.files}
        for path in gone:
            del self._known[path]
        self._unsaved += len(made) + len(gone)
        unsettled = (self._unsettled - made.keys()) | {
            path for path, item in made.items() if not item.settled
        }
        self._unsettled = unsettled - gone

    def _check(self, made: Mapping[RepoPath, Known]) -> None:
        """Looks again at all that was read, and at the folders it was reached through."""
        folders: dict[str, _Identity | None] = {}
        for path, item in made.items():
            if self._look(path) != item.look or not self._is_real(parent(path), folders):
                raise Moved(path)

    def _replace(
        self, files: Iterable[RepoPath], inputs: Iterable[RepoPath], only: Iterable[RepoPath] | None
    ) -> None:
        """Brings entries, inputs and tree up to date; `only`: the paths that can differ, None for all."""
        if only is None:
            now = {path: self._known[path].entry for path in sorted(files)}
            gone = self._entries.keys() - now.keys()
        else:
            now, gone = self._entries, set()
        changed = {}
        for path in now if only is None else now.keys() & only:
            entry = self._known[path].entry
            if self._entries.get(path) != entry:
                changed[path] = entry
        for path in gone:
            self._tree.discard(path)
        for path, entry in changed.items():
            self._tree.put(path, entry)
        after = {path: self._known[path].entry for path in sorted(inputs)}
        if changed or gone or after != self._inputs:
            self._ids = None
        self._entries, self._inputs = {**now, **changed}, after

    def _read(self, path: RepoPath, *, may_skip: bool) -> Known:
        """Digests one file and stores it."""
        host = self._host(path)
        started_ns = time.time_ns()
        try:
            look = look_at(host)
            if look is None:
                raise Moved(path)
            if stat.S_ISLNK(look.mode):
                target = os.readlink(host)
                if look_at(host) != look:
                    raise Moved(path)
                entry = Entry(FileMode.SYMLINK, self._store.put(target), len(target))
            else:
                entry, look = self._read_file(path, host, may_skip=may_skip)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EINVAL, errno.ENXIO):
                raise Moved(path) from None
            raise unreadable(path, error) from None
        return Known(look, entry, is_settled(look, read_from_ns=started_ns))

    def _read_file(self, path: RepoPath, host: bytes, *, may_skip: bool) -> tuple[Entry, Look]:
        # A file may have become a pipe: opening that would wait for a writer.
        descriptor = os.open(host, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            before = os.fstat(descriptor)
            if not stat.S_ISREG(before.st_mode):
                raise Moved(path)
            keep = not (may_skip and before.st_size > LARGE_BYTES)
            if keep and before.st_size <= _STREAM_BYTES:
                data = _read_all(descriptor)
                blob, seen = self._store.put(data), len(data)
            else:
                blob, seen = self._store.put_stream(descriptor, before.st_size, keep=keep)
            after = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        if seen != before.st_size or look_of(after) != look_of(before):
            raise Moved(path)
        mode = FileMode.EXECUTABLE if before.st_mode & 0o100 else FileMode.REGULAR
        return Entry(mode, blob, seen, keep), look_of(before)

    def _host(self, path: str) -> bytes:
        return os.path.join(self._root, path.encode("utf-8", "surrogateescape")) if path else self._root


def _same(now: Mapping[str, tuple[Listed, ...]], before: Mapping[str, tuple[Listed, ...]]) -> bool:
    return now.keys() == before.keys() and all(now[folder] is before[folder] for folder in now)


def _is_file(look: Look | None) -> bool:
    return look is not None and (stat.S_ISREG(look.mode) or stat.S_ISLNK(look.mode))


def _is_kept(entry: Entry, stored: Set[BlobId], tracked: bool) -> bool:
    """Whether the content is in the store, or need not be."""
    return entry.blob in stored if entry.stored else not tracked


def _read_all(descriptor: int) -> bytes:
    chunks = []
    while chunk := os.read(descriptor, 1 << 20):
        chunks.append(chunk)
    return b"".join(chunks)
