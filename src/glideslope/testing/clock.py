"""A clock that moves only when it is told to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class FakeClock:
    """Port `Clock` for tests."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def monotonic_s(self) -> float:
        """Seconds since the clock was made, as far as it was moved."""
        return self._now_s

    def utc_now(self) -> str:
        """The first of January 2026, as far as the clock was moved."""
        now = _EPOCH + timedelta(seconds=self._now_s)
        return now.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def advance(self, seconds: float) -> None:
        """Lets time pass."""
        self._now_s += seconds
