"""What the state folder holds, by size, and getting rid of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from glideslope.model.ids import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """One thing that may go."""

    kind: str  # runs, blobs, tree, log, backend
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

    def require_room(self, scope: Scope) -> None:
        """Checks that a run of a worktree can be stored, apart from it.

        Raises:
            StateUnavailable: The disk is full, or the folder is read-only.
            InvalidInput: The state folder and the worktree lie in one another.
        """
        ...

    @property
    def cap_bytes(self) -> int:
        """What the state folder may take."""
        ...

    def superfluous(self, *, keep_runs: int) -> Sequence[Stored]:
        """What could go: old runs, their logs, idle trees and build environments, and beyond the cap content
        that no proof needs.

        Args:
            keep_runs: How many runs of each worktree stay.
        """
        ...

    def remove(self, stored: Sequence[Stored], *, keep_runs: int) -> int:
        """Removes what `superfluous` listed.

        Returns:
            Bytes freed.
        """
        ...
