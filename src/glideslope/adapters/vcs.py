"""`LocalVcs`: the port `Vcs` on this machine's disk and git."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence

from glideslope.adapters.git import Git
from glideslope.adapters.gitlayer import OBJECTS_AT, GitLayers
from glideslope.adapters.gitstate import RefsReader
from glideslope.adapters.rawtree import RawTree
from glideslope.adapters.revision import Revisions
from glideslope.adapters.snapshot import Reading, SnapshotReader, digest_inputs, snapshot_id
from glideslope.adapters.store import Store, blob_id, state_unavailable
from glideslope.adapters.trees import TreePool, pool_folder, scope_hash
from glideslope.adapters.workspace import Layouts, locate
from glideslope.errors import GlideslopeError, InvalidInput, SubstrateUnavailable
from glideslope.model.ids import BlobId, CommitId, Scope, SnapshotId
from glideslope.model.paths import RepoPath
from glideslope.model.snapshot import Base, BaseReason, Entries, Entry, Snapshot
from glideslope.ports.vcs import TreeLease, Workspace


class LocalVcs:
    """Reads workspaces and keeps what it read in a state folder. Safe for several threads.

    Args:
        state: The state folder; made when first written to.
        git: How to run git.
    """

    def __init__(self, state: str, *, git: Git | None = None) -> None:
        self._state = state
        self._git = git or Git()
        self.store = Store(state)
        self._layouts = Layouts(self._git)
        self._refs = RefsReader(self._git)
        self._layers = GitLayers(state, git=self._git, refs=self._refs)
        self._revisions = Revisions(self._git, self.store)
        self._readers: dict[tuple[Scope, tuple[str, ...], tuple[str, ...]], SnapshotReader] = {}
        self._pools: dict[Scope, TreePool] = {}
        self._leases: dict[str, tuple[TreePool, str]] = {}
        self._kept_off: dict[Scope, frozenset[RepoPath]] = {}
        self._dirty: dict[Scope, tuple[CommitId, Entries, tuple[RepoPath, ...]]] = {}
        self._base_ids: dict[tuple[CommitId, frozenset[RepoPath]], SnapshotId] = {}
        self._lock = threading.Lock()

    def locate(self, folder: str, *, explicit: bool = False) -> Workspace:
        """Finds the workspace a folder belongs to; see `workspace.locate`."""
        return locate(self._git, folder, explicit=explicit)

    def snapshot(self, workspace: Workspace, *, carry: Sequence[str], carry_files: Sequence[str]) -> Snapshot:
        """Digests the workspace as it is now and stores what is not stored yet."""
        reading = self._reader(workspace, tuple(carry), tuple(carry_files)).take()
        self._kept_off[workspace.scope] = reading.kept_off
        return Snapshot(
            id=snapshot_id(reading.tree_id, reading.inputs_digest),
            tree_id=reading.tree_id,
            entries=reading.entries,
            inputs=reading.inputs,
            inputs_digest=reading.inputs_digest,
            git=reading.git,
            dirty_paths=self._dirty_paths(workspace, reading),
        )

    def read(self, blob: BlobId) -> bytes:
        """The bytes of a stored blob."""
        return self.store.read(blob)

    def base_of_revision(self, workspace: Workspace, revision: str) -> Base:
        """The tree of a commit, stored for comparison.

        Paths that a sparse checkout keeps off the disk are left out: their absence is no change.
        """
        if not workspace.is_git:
            raise InvalidInput(
                f"{revision!r} names no commit: {workspace.scope} is no git repository",
                field="base",
                value=revision,
            )
        commit = self._revisions.resolve(workspace.scope, revision)
        entries = self._revisions.entries(workspace.scope, commit)
        kept_off = self._kept_off.get(workspace.scope)
        if kept_off:
            entries = {path: entry for path, entry in entries.items() if path not in kept_off}
        return Base(
            reason=BaseReason.GIVEN, snapshot=self._base_id(commit, entries, kept_off), entries=entries
        )

    def _base_id(
        self, commit: CommitId, entries: Entries, kept_off: frozenset[RepoPath] | None
    ) -> SnapshotId:
        """The id a checkout of exactly these entries would have, computed once."""
        key = (commit, kept_off or frozenset())
        if key not in self._base_ids:
            tree = RawTree()
            for path, entry in entries.items():
                tree.put(path, entry)
            self._base_ids[key] = snapshot_id(tree.id(), digest_inputs({}))
        return self._base_ids[key]

    def merge_base(self, workspace: Workspace, branches: Sequence[str]) -> CommitId | None:
        """Merge base of HEAD with the first of the branches that exists, unless HEAD is on it."""
        if not workspace.is_git:
            return None
        git = self._refs.start(workspace.scope, self._layouts.of(workspace)).finish()
        return self._revisions.merge_base(workspace.scope, branches, git.branch) if git.head else None

    def ancestors(self, workspace: Workspace, commits: Sequence[CommitId]) -> frozenset[CommitId]:
        """Those of the given commits that HEAD descends from (HEAD included)."""
        return self._revisions.ancestors(workspace.scope, commits) if workspace.is_git else frozenset()

    def lease(self, workspace: Workspace, entries: Entries, snapshot: Snapshot) -> TreeLease:
        """Materialises entries in a tree of the pool.

        The declared inputs of the snapshot are added to its own entries; other entries are taken as
        they are. In git the lease carries a private `.git` with HEAD, branch and refs of the snapshot.
        """
        pool = self._pool(workspace.scope)
        large = _bound(workspace, entries, snapshot)
        content = {**snapshot.inputs, **entries} if entries == snapshot.entries else entries
        held = pool.lease(content, lambda path, entry: self._recover(workspace, path, entry))
        try:
            layout = self._layouts.of(workspace) if workspace.is_git and snapshot.git else None
            layer = (
                self._layers.layer(workspace.scope, layout, snapshot.git) if layout and snapshot.git else None
            )
        except OSError as error:
            pool.release(held.id)
            raise state_unavailable(error) from None
        except GlideslopeError:
            pool.release(held.id)
            raise
        lease = TreeLease(
            id=f"{scope_hash(workspace.scope)}-{held.id}",
            tree=held.tree,
            git_layer=layer,
            objects=layout.objects if layout else None,
            objects_at=OBJECTS_AT if layout else None,
            large=large,
            fresh_paths=held.fresh_paths,
        )
        with self._lock:
            self._leases[lease.id] = (pool, held.id)
        return lease

    def is_foreign(self, workspace: Workspace, path: str) -> bool:
        """Whether a file below the workspace came with it; see the port."""
        if not workspace.is_git:
            return True
        inside = os.path.relpath(path, workspace.scope)
        found = self._git.run(workspace.scope, ["ls-files", "-z", "--cached", "--", f":(literal){inside}"])
        return not found or bool(found.out)

    def release(self, lease: TreeLease) -> None:
        """Gives a tree back; a second time changes nothing."""
        with self._lock:
            pool, held = self._leases.pop(lease.id, (None, ""))
        if pool is not None:
            pool.release(held)
            if lease.git_layer is not None:
                self._layers.release(lease.git_layer)

    def large_unchanged(self, workspace: Workspace, snapshot: Snapshot) -> tuple[RepoPath, ...]:
        """Digests files that are bound, not stored, again; returns those that differ."""
        return tuple(
            path
            for path, entry in snapshot.entries.items()
            if not entry.stored and self._digest_live(workspace, path) != entry.blob
        )

    def close(self) -> None:
        """Writes what was learnt for the next process and gives all trees back."""
        with self._lock:
            readers, pools = list(self._readers.values()), list(self._pools.values())
            self._pools, self._leases = {}, {}
        for reader in readers:
            reader.save()
        for pool in pools:
            pool.close()

    def _reader(
        self, workspace: Workspace, carry: tuple[str, ...], carry_files: tuple[str, ...]
    ) -> SnapshotReader:
        key = (workspace.scope, carry, carry_files)
        with self._lock:
            if key not in self._readers:
                self._readers[key] = SnapshotReader(
                    workspace,
                    git=self._git,
                    layouts=self._layouts,
                    refs=self._refs,
                    store=self.store,
                    memory_file=os.path.join(self._state, "snapshots", scope_hash(workspace.scope)),
                    carry=carry,
                    carry_files=carry_files,
                )
            return self._readers[key]

    def _pool(self, scope: Scope) -> TreePool:
        with self._lock:
            if scope not in self._pools:
                self._pools[scope] = TreePool(pool_folder(self._state, scope), store=self.store)
            return self._pools[scope]

    def _dirty_paths(self, workspace: Workspace, reading: Reading) -> tuple[RepoPath, ...]:
        if reading.git is None:
            return ()
        head = reading.git.head
        if head is None:
            return tuple(sorted(reading.entries))
        kept = self._dirty.get(workspace.scope)
        if kept is not None and kept[0] == head and kept[1] is reading.entries:
            return kept[2]
        committed = self._revisions.ids(workspace.scope, head)
        dirty = [
            path for path, entry in reading.entries.items() if committed.get(path) != (entry.mode, entry.blob)
        ] + [path for path in committed if path not in reading.entries and path not in reading.kept_off]
        found = tuple(sorted(dirty))
        self._dirty[workspace.scope] = (head, reading.entries, found)
        return found

    def _recover(self, workspace: Workspace, path: RepoPath, entry: Entry) -> bytes | None:
        """Content the store lost: from the live file, if that is still it, else from git."""
        host = os.path.join(workspace.scope, path)
        try:
            data = os.fsencode(os.readlink(host)) if os.path.islink(host) else _read_file(host)
            if blob_id(data) == entry.blob:
                return data
        except OSError:
            pass
        found = self._revisions.content(workspace.scope, entry.blob) if workspace.is_git else None
        return found if found is not None and blob_id(found) == entry.blob else None

    def _digest_live(self, workspace: Workspace, path: RepoPath) -> BlobId | None:
        host = os.path.join(workspace.scope, path)
        try:
            descriptor = os.open(host, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            size_bytes = os.fstat(descriptor).st_size
            blob, seen = self.store.put_stream(descriptor, size_bytes, keep=False)
            return blob if seen == size_bytes else None
        except OSError:
            return None
        finally:
            os.close(descriptor)


def _bound(workspace: Workspace, entries: Entries, snapshot: Snapshot) -> tuple[tuple[RepoPath, str], ...]:
    """Files that are not stored: they lie in the working tree only, so they are bound from there."""
    found = [path for path, entry in entries.items() if not entry.stored]
    for path in found:
        if snapshot.entry(path) != entries[path]:
            raise SubstrateUnavailable(
                f"{path} is not stored and the working tree holds another content: fetch it, then verify again",
                path=path,
            )
    return tuple((path, os.path.join(workspace.scope, path)) for path in found)


def _read_file(host: str) -> bytes:
    with open(host, "rb") as file:
        return file.read()
