"""What every clock must do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from glideslope.adapters.clock import SystemClock


def test_the_monotonic_clock_never_goes_back() -> None:
    clock = SystemClock()
    readings = [clock.monotonic_s() for _ in range(1000)]

    assert readings == sorted(readings)


def test_the_time_of_day_is_utc_with_milliseconds() -> None:
    before = datetime.now(UTC)
    text = SystemClock().utc_now()

    assert text.endswith("Z")
    assert len(text) == len("2026-01-01T00:00:00.000Z")
    read = datetime.fromisoformat(text)
    assert before - timedelta(milliseconds=1) <= read <= datetime.now(UTC)
