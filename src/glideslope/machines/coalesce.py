"""Coalescing of edits: many writes close together become one due batch, after the last of them.

The edge is the trailing one: a batch is due only once the workspace has been quiet for the whole
window, so what is then verified is the newest content. A write always restarts the wait; no write
is ever dropped, and none counts as verified before its batch was taken.

Times are seconds of the injected monotonic clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from glideslope.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Writes that are answered together."""

    paths: tuple[str, ...]  # sorted, each once; empty when the hints named none
    writes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """Writes that wait for the workspace to become quiet."""

    window_s: float
    paths: frozenset[str] = frozenset()
    writes: int = 0
    last_at: float | None = None  # of the newest write; None: nothing waits

    def __post_init__(self) -> None:
        """Raises InvalidInput for a window that no clock can wait for."""
        if not 0 <= self.window_s < float("inf"):
            raise InvalidInput(
                f"a window of {self.window_s} s cannot be waited for: use 0 or more",
                field="coalesce_window_ms",
            )


def note(pending: Pending, paths: Iterable[str], now: float) -> Pending:
    """Adds one write; the wait begins anew."""
    newest = now if pending.last_at is None else max(now, pending.last_at)
    named = pending.paths.union(paths)
    return replace(pending, paths=named, writes=pending.writes + 1, last_at=newest)


def deadline(pending: Pending) -> float | None:
    """When to ask again; None while nothing waits."""
    return None if pending.last_at is None else pending.last_at + pending.window_s


def take_due(pending: Pending, now: float) -> tuple[Pending, Batch | None]:
    """Takes the batch if its time has come.

    Returns:
        What still waits, and the batch: all writes noted so far, or None while the wait goes on.
    """
    due_at = deadline(pending)
    if due_at is None or now < due_at:
        return pending, None
    batch = Batch(paths=tuple(sorted(pending.paths)), writes=pending.writes)
    return Pending(window_s=pending.window_s), batch
