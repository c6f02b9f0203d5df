"""Content as scripts read it: the entries of a snapshot and the bytes behind them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from glideslope.errors import UnknownId
from glideslope.model.ids import BlobId
from glideslope.model.paths import RepoPath
from glideslope.model.snapshot import Base, Entries, Snapshot


@dataclass(slots=True)
class StoredTree:
    """A tree whose bytes come from the store, kept once read."""

    entries: Entries
    read_blob: Callable[[BlobId], bytes]
    _kept: dict[BlobId, bytes] = field(default_factory=dict)

    def read(self, path: RepoPath) -> bytes:
        """The bytes at a path.

        Raises:
            UnknownId: No such path, or its content is not stored.
        """
        entry = self.entries.get(path)
        if entry is None:
            raise UnknownId(f"{path} is not in this snapshot: check the path", path=path)
        if entry.blob not in self._kept:
            self._kept[entry.blob] = self.read_blob(entry.blob)
        return self._kept[entry.blob]


def snapshot_tree(snapshot: Snapshot, read_blob: Callable[[BlobId], bytes]) -> StoredTree:
    """The tree of a snapshot, declared ignored inputs included."""
    return StoredTree(entries={**snapshot.inputs, **snapshot.entries}, read_blob=read_blob)


def base_tree(base: Base, read_blob: Callable[[BlobId], bytes]) -> StoredTree | None:
    """The tree of a base; None where there is nothing to compare with."""
    if base.entries is None:
        return None
    return StoredTree(entries={**(base.inputs or {}), **base.entries}, read_blob=read_blob)
