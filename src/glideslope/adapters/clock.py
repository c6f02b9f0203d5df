"""The clock of the machine."""

from __future__ import annotations

import time
from datetime import UTC, datetime


class SystemClock:
    """Port `Clock` on the operating system's clocks."""

    def monotonic_s(self) -> float:
        """Seconds that never go backwards; only differences mean anything."""
        return time.monotonic()

    def utc_now(self) -> str:
        """The time of day, RFC 3339 with milliseconds, UTC."""
        return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
