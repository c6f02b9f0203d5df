"""A snapshot: the content of a workspace at one moment, and what differs between two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from glideslope.model.ids import BlobId, CommitId, EnvironmentKey, SnapshotId, TreeId
from glideslope.model.paths import RepoPath


class FileMode(StrEnum):
    """How git would store the entry."""

    REGULAR = "100644"
    EXECUTABLE = "100755"
    SYMLINK = "120000"


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of a snapshot. Positional, because there are thousands of them."""

    mode: FileMode
    blob: BlobId
    size_bytes: int
    stored: bool = True  # False: too large to keep; bound read-only and digested again at the end


Entries = Mapping[RepoPath, Entry]


@dataclass(frozen=True, slots=True, kw_only=True)
class GitState:
    """Where the repository stood; not part of the snapshot id, but some rungs read it."""

    head: CommitId | None  # None: unborn branch
    branch: str | None  # None: detached
    refs_digest: str  # changes when a tag or branch moves
    operation: str | None = None  # merge, rebase, cherry-pick ... in progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The content of a workspace, complete enough to be built again elsewhere."""

    id: SnapshotId
    tree_id: TreeId
    entries: Entries  # tracked, and untracked but not ignored
    inputs: Entries  # declared ignored inputs (`carry_files`)
    inputs_digest: str
    git: GitState | None  # None: not a repository
    dirty_paths: tuple[RepoPath, ...]  # against HEAD, sorted; outside git: empty

    @property
    def complete(self) -> bool:
        """Whether every byte of it is stored, so that it can be built again later."""
        return all(entry.stored for entry in self.entries.values())

    def entry(self, path: RepoPath) -> Entry | None:
        """The entry at a path, from the tree or from the declared inputs."""
        return self.entries.get(path) or self.inputs.get(path)


class ChangeKind(StrEnum):
    """What happened to a path between two trees."""

    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"
    RENAMED = "renamed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One path that differs between a base and a snapshot."""

    path: RepoPath
    kind: ChangeKind
    before: Entry | None = None
    after: Entry | None = None
    origin: RepoPath | None = None  # for a rename: the path in the base


def diff(base: Entries, now: Entries) -> tuple[Change, ...]:
    """Lists what differs between two trees, renames of equal content paired.

    Returns:
        Changes sorted by path. A rename stands at its new path and names its origin.
    """
    gone = {path: entry for path, entry in base.items() if path not in now}
    origins: dict[tuple[FileMode, BlobId], list[RepoPath]] = {}
    for path, entry in sorted(gone.items(), reverse=True):
        origins.setdefault((entry.mode, entry.blob), []).append(path)
    changes: list[Change] = []
    for path in sorted(now):
        before, after = base.get(path), now[path]
        if before is None:
            moved = origins.get((after.mode, after.blob))
            origin = moved.pop() if moved else None
            if origin is not None:
                gone.pop(origin)
            kind = ChangeKind.RENAMED if origin else ChangeKind.ADDED
            changes.append(Change(path=path, kind=kind, after=after, origin=origin))
        elif (before.mode, before.blob) != (after.mode, after.blob):
            changes.append(Change(path=path, kind=ChangeKind.MODIFIED, before=before, after=after))
    changes += [Change(path=path, kind=ChangeKind.DELETED, before=entry) for path, entry in gone.items()]
    return tuple(sorted(changes, key=lambda change: change.path))


class BaseReason(StrEnum):
    """Why a base was taken."""

    LAST_GREEN = "last_green"
    MERGE_BASE = "merge_base"
    GIVEN = "given"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """What a rung compares the snapshot with."""

    reason: BaseReason
    snapshot: SnapshotId | None = None
    entries: Entries | None = None
    inputs: Entries | None = None
    inputs_digest: str = ""
    environment_key: EnvironmentKey | None = None


NO_BASE = Base(reason=BaseReason.NONE)
