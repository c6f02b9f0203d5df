"""Snapshots of a workspace, their content, and trees built from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from glideslope.model.ids import BlobId, CommitId, Scope
from glideslope.model.paths import RepoPath
from glideslope.model.snapshot import Base, Entries, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """Where a workspace lies. Host paths stay inside adapters and the composition root."""

    scope: Scope  # real path of the worktree root
    repository: str  # identity shared by all worktrees of a repository
    is_git: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeLease:
    """A materialised snapshot that nobody changes until the lease is released."""

    id: str
    tree: str  # host path of the directory that holds exactly the snapshot
    git_layer: str | None  # host path of a directory holding `.git`, made for this snapshot
    objects: str | None  # host path of the user's object store, to be bound read-only
    objects_at: str | None  # where, relative to the workspace root, the git layer expects it
    large: tuple[tuple[RepoPath, str], ...] = ()  # files bound from the live tree: path, host path
    fresh_paths: tuple[RepoPath, ...] = ()  # modules rewritten since the tree last had them


class Vcs(Protocol):
    """Reads a workspace without ever writing into it or running anything it configures."""

    def locate(self, folder: str, *, explicit: bool = False) -> Workspace:
        """Finds the workspace a folder belongs to.

        Args:
            folder: Host path to start from.
            explicit: The folder was named as the workspace: outside git it is taken as it is.

        Raises:
            NoWorkspace: Neither a repository nor a project file upwards of it.
        """
        ...

    def snapshot(self, workspace: Workspace, *, carry: Sequence[str], carry_files: Sequence[str]) -> Snapshot:
        """Digests the workspace as it is now and stores what is not stored yet.

        Raises:
            SnapshotUnreadable: A file that belongs to the snapshot cannot be read.
            SnapshotStale: The tree kept changing while it was read.
            StateUnavailable: The store cannot be written.
        """
        ...

    def read(self, blob: BlobId) -> bytes:
        """The bytes of a stored blob.

        Raises:
            UnknownId: Not stored (any more).
        """
        ...

    def base_of_revision(self, workspace: Workspace, revision: str) -> Base:
        """The tree of a commit, stored for comparison.

        Raises:
            InvalidInput: No such revision.
        """
        ...

    def merge_base(self, workspace: Workspace, branches: Sequence[str]) -> CommitId | None:
        """Merge base of HEAD with the first of the branches that exists, unless HEAD is on it."""
        ...

    def ancestors(self, workspace: Workspace, commits: Sequence[CommitId]) -> frozenset[CommitId]:
        """Those of the given commits that HEAD descends from (HEAD included)."""
        ...

    def lease(self, workspace: Workspace, entries: Entries, snapshot: Snapshot) -> TreeLease:
        """Materialises entries (and the snapshot's git state) in a tree of the pool.

        Raises:
            SubstrateUnavailable: The tree cannot be built.
        """
        ...

    def is_foreign(self, workspace: Workspace, path: str) -> bool:
        """Whether a file below the workspace came with it, so that it must not run outside a sandbox.

        Args:
            workspace: Where.
            path: Host path, links resolved.

        Returns:
            True for what git tracks; outside git for everything, since nobody can tell.
        """
        ...

    def release(self, lease: TreeLease) -> None:
        """Gives a tree back."""
        ...

    def large_unchanged(self, workspace: Workspace, snapshot: Snapshot) -> tuple[RepoPath, ...]:
        """Digests files that are bound, not stored, again; returns those that differ."""
        ...
