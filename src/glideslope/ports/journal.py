"""The durable truth: events, runs, evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from glideslope.model.event import Event, Recorded
from glideslope.model.ids import RunId, Scope, SnapshotId
from glideslope.model.proof import RungProof as RungProof
from glideslope.model.run import Run
from glideslope.model.rung import Rung
from glideslope.model.snapshot import Snapshot


class Journal(Protocol):
    """Append-only events with a gapless sequence, and the read side the engine needs.

    Every method may raise StateUnavailable when the state folder is read-only, full or damaged.
    """

    def append(self, event: Event, *, scope: Scope | None) -> Recorded:
        """Stores an event durably and returns it with its sequence number."""
        ...

    def read(self, *, after: int, limit: int = 1000) -> Sequence[Recorded]:
        """Events with a sequence number above `after`, oldest first."""
        ...

    def last_seq(self) -> int:
        """The newest sequence number, 0 when empty."""
        ...

    def run(self, run: RunId) -> Run | None:
        """A run as last recorded; an unambiguous prefix of an id serves too."""
        ...

    def runs(
        self, *, scope: Scope | None = None, before: RunId | None = None, limit: int = 20
    ) -> Sequence[Run]:
        """Runs, newest first."""
        ...

    def open_runs(self) -> Sequence[Run]:
        """Runs that never completed."""
        ...

    def open_tasks(self) -> Sequence[Recorded]:
        """The latest event of each task that has no ending."""
        ...

    def keep_snapshot(self, snapshot: Snapshot) -> None:
        """Stores what a snapshot consists of, so that it can be a base later."""
        ...

    def snapshot(self, snapshot: SnapshotId) -> Snapshot | None:
        """A kept snapshot."""
        ...

    def prove(self, proof: RungProof) -> None:
        """Stores the proof of a rung."""
        ...

    def proofs(self, *, repository: str, rung: Rung, project: str, limit: int = 50) -> Sequence[RungProof]:
        """Proofs of a rung in any worktree of a repository, newest first."""
        ...

    def trim(self, *, keep_runs: int) -> int:
        """Forgets all but the newest runs of each scope; returns how many events went."""
        ...

    def close(self) -> None:
        """Releases the file; later calls are illegal."""
        ...
