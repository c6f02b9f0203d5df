"""What the state folder holds, by size, and getting rid of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from glideslope.model.ids import SnapshotId


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """One thing that may go."""

    kind: str  # runs, blobs, tree, log, substrate
    name: str
    size_bytes: int


class Storage(Protocol):
    """The state folder as something that grows. Every method blocks."""

    def size_bytes(self) -> int:
        """All that the state folder takes on disk."""
        ...

    def require_space(self) -> None:
        """Checks that a run can be stored.

        Raises:
            StateUnavailable: The disk is full, or the folder is read-only.
        """
        ...

    def superfluous(self, *, keep_runs: int, keep: Collection[SnapshotId]) -> Sequence[Stored]:
        """What could go: old runs, and content that no kept run or proof needs.

        Args:
            keep_runs: How many runs of each worktree stay.
            keep: Snapshots in use now.
        """
        ...

    def remove(self, stored: Sequence[Stored], *, keep_runs: int) -> int:
        """Removes what `superfluous` listed.

        Returns:
            Bytes freed.
        """
        ...
