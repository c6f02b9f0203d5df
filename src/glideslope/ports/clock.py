"""Time, injected."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Two clocks in one: for durations, and for dates."""

    def monotonic_s(self) -> float:
        """Seconds that never go backwards; only differences mean anything."""
        ...

    def utc_now(self) -> str:
        """The time of day, RFC 3339 with milliseconds, UTC."""
        ...
