"""Reads commits: their trees as bases for comparison, and how they relate to HEAD."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from glideslope.adapters.git import Git, git_failed
from glideslope.adapters.store import Store
from glideslope.errors import InvalidInput
from glideslope.model.ids import BlobId, CommitId
from glideslope.model.paths import RepoPath
from glideslope.model.snapshot import Entries, Entry, FileMode

_GITLINK = "160000"
_KEPT = 8  # trees remembered
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


@dataclass(frozen=True, slots=True)
class TreeRow:
    """One file of a commit, named as the repository names it."""

    path: RepoPath
    mode: FileMode
    object: str  # in the repository's own hash
    folder: str  # of the repository that holds the object: "" or a submodule's path


class Revisions:
    """Reads revisions of the repository around a folder."""

    def __init__(self, git: Git, store: Store) -> None:
        self._git = git
        self._store = store
        self._rows: dict[tuple[str, CommitId], tuple[TreeRow, ...]] = {}
        self._entries: dict[tuple[str, CommitId], tuple[tuple[int, int] | None, Entries]] = {}
        self._translated: dict[str, BlobId | None] = {}  # sha256 object -> our id; None: not there
        self._lock = threading.Lock()

    def resolve(self, scope: str, revision: str) -> CommitId:
        """The commit a revision names.

        Raises:
            InvalidInput: It names none.
        """
        if revision and not revision.startswith("-") and "\0" not in revision:
            done = self._git.run(
                scope, ["rev-parse", "--verify", "--quiet", "--end-of-options", revision + "^{commit}"]
            )
            if done:
                return CommitId(done.out.decode().strip())
        raise InvalidInput(
            f"{revision!r} names no commit here: give one that `git log` knows", field="base", value=revision
        )

    def rows(self, scope: str, commit: CommitId) -> tuple[TreeRow, ...]:
        """All files of a commit; of a submodule those of the recorded commit, where it is checked out."""
        with self._lock:
            kept = self._rows.get((scope, commit))
        if kept is None:
            kept = tuple(self._list(scope, commit, ""))
            with self._lock:
                self._rows[scope, commit] = kept
                while len(self._rows) > _KEPT:
                    self._rows.pop(next(iter(self._rows)))
        return kept

    def entries(self, scope: str, commit: CommitId) -> Entries:
        """The files of a commit with their raw content stored.

        A blob that a partial clone lacks gives an entry that is not stored.

        Raises:
            EnvironmentBroken: The repository is damaged.
            StateUnavailable: The store cannot be written.
        """
        generation = self._store.generation()
        with self._lock:
            kept = self._entries.get((scope, commit))
        if kept is not None and generation is not None and kept[0] == generation:
            return kept[1]
        entries = self._read_entries(self.rows(scope, commit), scope)
        with self._lock:
            self._entries[scope, commit] = (self._store.generation(), entries)
            while len(self._entries) > _KEPT:
                self._entries.pop(next(iter(self._entries)))
        return entries

    def _read_entries(self, rows: Sequence[TreeRow], scope: str) -> Entries:
        stored = self._store.known()
        missing = [row for row in rows if not _is_sha1(row.object) or row.object not in stored]
        by_folder: dict[str, list[str]] = {}
        for row in missing:
            if self._translated.get(row.object) is None:
                by_folder.setdefault(row.folder, []).append(row.object)
        for folder, objects in by_folder.items():
            self._import(os.path.join(scope, folder) if folder else scope, objects)
        return MappingProxyType({row.path: self._entry(row) for row in rows})

    def ids(self, scope: str, commit: CommitId) -> dict[RepoPath, tuple[FileMode, str]]:
        """Mode and blob id of each file of a commit; stores content only where ids need translating."""
        rows = self.rows(scope, commit)
        if all(_is_sha1(row.object) for row in rows):
            return {row.path: (row.mode, row.object) for row in rows}
        return {path: (entry.mode, entry.blob) for path, entry in self.entries(scope, commit).items()}

    def merge_base(self, scope: str, branches: Sequence[str], current: str | None) -> CommitId | None:
        """Merge base of HEAD with the first existing branch; None on that branch itself, or without one."""
        for branch in branches:
            for name in (f"refs/heads/{branch}", f"refs/remotes/origin/{branch}"):
                found = self._git.run(scope, ["rev-parse", "--verify", "--quiet", "--end-of-options", name])
                if not found:
                    continue
                if branch == current:
                    return None
                done = self._git.run(scope, ["merge-base", "--end-of-options", name, "HEAD"])
                return CommitId(done.out.decode().split("\n")[0]) if done else None
        return None

    def ancestors(self, scope: str, commits: Sequence[CommitId]) -> frozenset[CommitId]:
        """Those commits that HEAD is or descends from; unknown ones are not among them."""
        asked = [commit for commit in dict.fromkeys(commits) if _COMMIT.fullmatch(commit)]
        if not asked:
            return frozenset()
        listing = "".join(f"{commit}\n" for commit in asked).encode()
        known = self._git.read(
            scope, ["cat-file", "--batch-check=%(objectname) %(objecttype)"], stdin=listing
        )
        present = [line.split()[0] for line in known.decode().splitlines() if line.endswith(" commit")]
        # What HEAD reaches is cut off, so any commit that still shows is no ancestor.
        walk = "".join(f"{commit}\n" for commit in present) + "^HEAD\n"
        done = self._git.run(scope, ["rev-list", "--stdin"], stdin=walk.encode())
        beyond = set(done.out.decode().split())
        return (
            frozenset(CommitId(commit) for commit in present if commit not in beyond) if done else frozenset()
        )

    def content(self, folder: str, object_name: str) -> bytes | None:
        """Raw bytes of one object; None when the repository has not got it."""
        done = self._git.run(folder, ["cat-file", "blob", object_name])
        return done.out if done else None

    def _list(self, scope: str, commit: str, folder: str) -> Iterator[TreeRow]:
        where = os.path.join(scope, folder) if folder else scope
        arguments = ["ls-tree", "-r", "-z", "--full-tree", "--end-of-options", commit]
        done = self._git.run(where, arguments)
        if not done:
            if folder:
                return  # the submodule has not fetched that commit
            raise git_failed(arguments, done)
        prefix = folder + "/" if folder else ""
        for record in done.out.decode("utf-8", "surrogateescape").split("\0")[:-1]:
            head, _, name = record.partition("\t")
            mode, _, object_name = head.split()
            path = RepoPath(prefix + name)
            if mode == _GITLINK:
                if os.path.lexists(os.path.join(scope, path, ".git")):
                    yield from self._list(scope, object_name, path)
            else:
                yield TreeRow(path, _mode(mode), object_name, folder)

    def _import(self, where: str, objects: Sequence[str]) -> None:
        listing = "".join(f"{name}\n" for name in dict.fromkeys(objects)).encode()
        out = memoryview(self._git.read(where, ["cat-file", "--batch"], stdin=listing))
        raw, at = out.obj, 0
        assert isinstance(raw, bytes)
        while at < len(raw):
            end = raw.index(b"\n", at)
            fields = raw[at:end].decode().split()
            at = end + 1
            if len(fields) == 3:
                size = int(fields[2])
                self._translated[fields[0]] = self._store.put(bytes(out[at : at + size]))
                at += size + 1
            else:
                self._translated[fields[0]] = None

    def _entry(self, row: TreeRow) -> Entry:
        blob = BlobId(row.object) if _is_sha1(row.object) else self._translated.get(row.object)
        size_bytes = self._store.size_of(blob) if blob else None
        if blob is None or size_bytes is None:
            return Entry(row.mode, BlobId(row.object[:40]), 0, False)
        return Entry(row.mode, blob, size_bytes)


def _is_sha1(object_name: str) -> bool:
    return len(object_name) == 40


def _mode(mode: str) -> FileMode:
    # Very old commits hold 100664, which git itself reads as a regular file.
    return FileMode(mode) if mode in ("120000", "100755") else FileMode.REGULAR
